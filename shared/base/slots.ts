/** Places for calls that are on their way, handed out in the order in which they were asked for. */
export interface Slots {
  /** A place, as `acquire` has it, if one is free now. */
  take(): (() => void) | undefined;
  /**
   * Resolves with what gives the place back, which may be called more than once.
   *
   * @throws what `signal` was aborted with, when that happens first
   */
  acquire(signal: AbortSignal): Promise<() => void>;
}

/** So that a request's own time need not run while it waits: Node's agent queues without telling. */
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
