/** A semaphore for concurrent calls, first come, first served. */
export interface Slots {
  /** Returns a slot's release function, or `undefined` if no slot is free. */
  take(): (() => void) | undefined;
  /**
   * Resolves with the slot's release function, which may be called more than once.
   *
   * @throws the signal's reason, when it aborts first
   */
  acquire(signal: AbortSignal): Promise<() => void>;
}

/**
 * Limits concurrent calls to the number of connections, so that a request's timeout starts when it has one. The agent of node:http would
 * queue requests after their timeout has started.
 */
export function createSlots(count: number): Slots {
  let free = count;
  const waiting = new Set<() => void>();

  const release = (): void => {
    const [next] = waiting;
    if (next === undefined) {
      free++;
      return;
    }
    waiting.delete(next);
    next();
  };
  const releaseOnce = (): (() => void) => {
    let held = true;
    return () => {
      if (held) release();
      held = false;
    };
  };

  const take = (): (() => void) | undefined => {
    if (free === 0) return undefined;
    free--;
    return releaseOnce();
  };

  return {
    take,
    async acquire(signal) {
      const place = take();
      if (place !== undefined) return place;
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => {
          waiting.delete(next);
          reject(signal.reason);
        };
        const next = (): void => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        };
        waiting.add(next);
        signal.addEventListener("abort", onAbort, { once: true });
      });
      return releaseOnce();
    },
  };
}
