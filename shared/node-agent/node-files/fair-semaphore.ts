/** A counting semaphore with a FIFO queue. */
export interface FairSemaphore {
  /** @throws the abort reason of `signal` */
  acquire(signal: AbortSignal): Promise<void>;
  release(): void;
}

/**
 * A task should release and reacquire after each batch. It then goes to the end of the queue, so that no task waits for more than one
 * batch of any other task.
 */
export function createFairSemaphore(count: number): FairSemaphore {
  let free = count;
  const waiting = new Set<() => void>();
  return {
    async acquire(signal) {
      signal.throwIfAborted();
      if (free > 0) {
        free--;
        return;
      }
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => {
          waiting.delete(next);
          reject(signal.reason as Error); // the argument of abort()
        };
        const next = (): void => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        };
        waiting.add(next);
        signal.addEventListener("abort", onAbort, { once: true });
      });
    },

    release() {
      const [next] = waiting;
      if (next === undefined) free++;
      else {
        waiting.delete(next);
        next();
      }
    },
  };
}
