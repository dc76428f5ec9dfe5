/** Aborts at the first SIGINT or SIGTERM; a second one ends the process at once. */
export function untilSignalled(): AbortSignal {
  const ends = new AbortController();
  const end = (signal: NodeJS.Signals): void => {
    if (ends.signal.aborted) process.exit(signal === "SIGINT" ? 130 : 143);
    ends.abort(new Error(signal));
  };
  process.on("SIGINT", end).on("SIGTERM", end);
  return ends.signal;
}

/**
 * For a child of `dev`: ends on SIGTERM, and when the parent's end of standard input is gone, however the parent ended. A
 * Ctrl-C in the terminal reaches the whole group; the child leaves it to the parent to say when.
 */
export function untilStdinEnds(): AbortSignal {
  const ends = new AbortController();
  const end = (): void => ends.abort(new Error("the parent has ended"));
  process.on("SIGTERM", end).on("SIGINT", () => undefined);
  process.stdin.on("end", end).on("error", end).resume();
  return ends.signal;
}
