/** Places for pieces of long work, handed out in the order in which they were asked for. */
export interface FairTurns {
  /** @throws what `signal` was aborted with, when that happens first */
  take(signal: AbortSignal): Promise<void>;
  give(): void;
}

/** A task that yields after each piece goes to the end of the queue, so no task waits longer than one piece. */
export function fairTurns(count: number): FairTurns {
  let free = count;
  const waiting = new Set<() => void>();
  return {
    async take(signal) {
      signal.throwIfAborted();
      if (free > 0) {
        free--;
        return;
      }
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => {
          waiting.delete(next);
          reject(signal.reason as Error); // what was given to abort()
        };
        const next = (): void => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        };
        waiting.add(next);
        signal.addEventListener("abort", onAbort, { once: true });
      });
    },

    give() {
      const [next] = waiting;
      if (next === undefined) free++;
      else {
        waiting.delete(next);
        next();
      }
    },
  };
}
