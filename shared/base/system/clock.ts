/** The system's time. */
import { performance } from "node:perf_hooks";
import type { Clock } from "../clock.ts";

/** Node fires a longer timer immediately. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Wall clock time that never goes back (CL1). After the machine's clock is set back, it advances at half speed until both
 * agree, so that waits for a time of day are not delayed by the whole step. Waits also use the monotonic clock.
 */
export function createSystemClock(wallMs: () => number = Date.now, monotonicMs: () => number = () => performance.now()): Clock {
  let latestMs = -Infinity;
  let readAtMs = monotonicMs();
  const now = (): number => {
    const atMs = monotonicMs();
    latestMs = Math.max(wallMs(), latestMs + (atMs - readAtMs) / 2);
    readAtMs = atMs;
    return Math.trunc(latestMs);
  };
  return {
    now,
    async after(ms, signal) {
      const waitMs = Math.max(0, Math.ceil(ms));
      const dueMs = now() + waitMs;
      const startMs = monotonicMs();
      let leftMs = waitMs;
      do {
        await sleep(Math.min(leftMs, TIMER_MS_MAX), signal);
        // A timer may fire a fraction of a millisecond early by the wall clock (CL2), hence the one millisecond of grace.
        leftMs = Math.min(dueMs - now(), waitMs + 1 - (monotonicMs() - startMs));
      } while (leftMs > 0);
    },
  };
}

/**
 * Rejects with the signal's reason (CL3). The function of node:timers/promises creates an error with a stack for each cancelled wait, which
 * took 2 % of a function's CPU time.
 */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return new Promise((resolve) => setTimeout(resolve, ms));
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error); // the caller may pass any reason
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
