/** A work queue with one worker for the server's own controllers: keys added together are handled together, after a delay. */
import type { Clock } from "@deltaloop/base";

export interface BackgroundLoop {
  add(key: string): void;
}

/** `handle` must not throw. Without keys no timer is set, so that a virtual clock can become idle. */
export function createBackgroundLoop(clock: Clock, delayMs: number, signal: AbortSignal, handle: (key: string) => void): BackgroundLoop {
  const keys = new Set<string>();
  let isScheduled = false;

  const run = async (): Promise<void> => {
    try {
      while (keys.size > 0) {
        await clock.after(delayMs, signal);
        const taken = [...keys];
        keys.clear();
        for (const key of taken) handle(key);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      isScheduled = false;
    }
  };

  return {
    add(key) {
      keys.add(key);
      if (isScheduled || signal.aborted) return;
      isScheduled = true;
      void run();
    },
  };
}
