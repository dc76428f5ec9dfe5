/** Runs `then` after the event loop has polled for input: the first immediate may run in the current iteration. */
export function afterPoll(then: () => void): void {
  setImmediate(() => setImmediate(then));
}

/**
 * A deadline for input. After a pause of the process (SIGSTOP, a paused VM) timers fire before input is read, so `expire` runs after the
 * next poll, and a response that has already arrived does not count as late.
 */
export function inputDeadline(expire: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(() => afterPoll(expire), ms);
}
