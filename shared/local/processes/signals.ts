import { constants } from "node:os";

/** Aborts at the first SIGINT, SIGTERM, or SIGHUP of a terminal that is closed; a second one ends the process at once. */
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
 * For a child of `dev`: ends on SIGTERM, and when the parent's end of standard input is gone, however the parent ended. A
 * Ctrl-C in the terminal, or its end, reaches the whole group; the child leaves it to the parent to say when.
 */
export function untilStdinEnds(): AbortSignal {
  const ends = new AbortController();
  const end = (): void => ends.abort(new Error("the parent has ended"));
  const leave = (): void => undefined;
  process.on("SIGTERM", end).on("SIGINT", leave).on("SIGHUP", leave);
  process.stdin.on("end", end).on("error", end).resume().unref(); // what has failed ends, with its parent or without
  return ends.signal;
}
