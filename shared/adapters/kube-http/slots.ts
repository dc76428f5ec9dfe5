/** Places for calls that are on their way, handed out in the order in which they were asked for. */
export interface Slots {
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

  return {
    async acquire(signal) {
      if (free > 0) {
        free--;
        return releaseOnce();
      }
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => {
          waiting.delete(take);
          reject(signal.reason);
        };
        const take = (): void => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        };
        waiting.add(take);
        signal.addEventListener("abort", onAbort, { once: true });
      });
      return releaseOnce();
    },
  };
}
