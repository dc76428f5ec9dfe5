import { constants } from "node:os";

/** Returns a signal that aborts at the first SIGINT, SIGTERM or SIGHUP; a second one ends the process at once. */
export function untilSignalled(): AbortSignal {
  const ends = new AbortController();
  const end = (signal: NodeJS.Signals): void => {
    if (ends.signal.aborted) process.exit(128 + constants.signals[signal]);
    ends.abort(new Error(signal));
  };
  process.on("SIGINT", end).on("SIGTERM", end).on("SIGHUP", end);
  return ends.signal;
}

/**
 * Returns a signal for a child of `dev`, which aborts on SIGTERM and when standard input ends, as it does however the parent ends. It
 * ignores SIGINT and SIGHUP of the terminal, since the parent decides when the child ends.
 */
export function untilStdinEnds(): AbortSignal {
  const ends = new AbortController();
  const end = (): void => ends.abort(new Error("the parent process has exited"));
  const ignore = (): void => undefined;
  process.on("SIGTERM", end).on("SIGINT", ignore).on("SIGHUP", ignore);
  process.stdin.on("end", end).on("error", end).resume().unref(); // standard input must not keep a failed child running
  return ends.signal;
}
