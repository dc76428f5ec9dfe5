/**
 * A manually advanced clock. Timers fire by time, then in the order in which they were set. All code that a timer resumes runs
 * to its next wait before the next timer fires, so a run is repeatable.
 */
import type { Clock } from "../clock.ts";

export interface VirtualClock extends Clock {
  /** Advances by `ms` and fires the timers that become due, including timers that are set in the meantime. */
  advance(ms: number): Promise<void>;
  /** Advances by `ms` without firing a timer, as while the process is suspended: overdue timers fire in the next `advance`. */
  skip(ms: number): void;
  /** Fires timers until none is left. @returns the final time @throws {Error} after `timersMax` timers */
  runUntilIdle(timersMax?: number): Promise<number>;
  /** Due time of the next timer; `undefined` when no timer is pending. */
  nextDueMs(): number | undefined;
}

interface Timer {
  readonly dueMs: number;
  readonly fire: () => void;
}

export interface VirtualClockOptions {
  /**
   * Whether the code under test does no I/O. The event loop then runs only after every 32nd timer, which costs less. Until then no unhandled
   * rejection is reported.
   */
  readonly withoutIo?: boolean;
}

const TIMERS_PER_TURN = 32;
/** Limit of timers: far more than a simulated quarter of an hour needs, but reached within seconds. */
const TIMERS_MAX = 1_000_000;

export function createVirtualClock(startMs: number, { withoutIo = false }: VirtualClockOptions = {}): VirtualClock {
  let nowMs = startMs;
  const timers: Timer[] = []; // by dueMs, then by age

  const fireDue = async (untilMs: number, timersMax: number): Promise<void> => {
    await turn(); // waits, because code that the caller has just started may still set timers
    for (let fired = 0; ; fired++) {
      const [next] = timers;
      if (!next || next.dueMs > untilMs) return;
      if (fired >= timersMax) throw new Error(`still waiting after ${timersMax} timers`);
      timers.shift();
      nowMs = Math.max(nowMs, next.dueMs);
      next.fire();
      await (withoutIo && fired % TIMERS_PER_TURN !== 0 ? promisesRun() : turn());
    }
  };

  return {
    now: () => nowMs,
    after: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(reasonOf(signal));
        const timer: Timer = {
          dueMs: nowMs + Math.max(0, Math.ceil(ms)),
          fire: () => {
            signal?.removeEventListener("abort", abort);
            resolve();
          },
        };
        const abort = (): void => {
          const at = timers.indexOf(timer);
          if (at >= 0) timers.splice(at, 1);
          reject(reasonOf(signal));
        };
        signal?.addEventListener("abort", abort, { once: true });
        timers.splice(insertionPoint(timers, timer.dueMs), 0, timer);
      }),
    async advance(ms) {
      const untilMs = nowMs + ms;
      await fireDue(untilMs, TIMERS_MAX);
      nowMs = Math.max(nowMs, untilMs);
    },
    skip(ms) {
      nowMs += ms;
    },
    async runUntilIdle(timersMax = TIMERS_MAX) {
      await fireDue(Number.POSITIVE_INFINITY, timersMax);
      return nowMs;
    },
    nextDueMs: () => timers[0]?.dueMs,
  };
}

/** Runs all promise callbacks that are ready, and those that they make ready. */
function promisesRun(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/** Runs the same, and one turn of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Returns the index after all timers with the same due time. */
function insertionPoint(timers: readonly Timer[], dueMs: number): number {
  let [low, high] = [0, timers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((timers[middle]?.dueMs ?? 0) <= dueMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The contract is to reject with exactly the signal's reason, regardless of its type (CL3). */
function reasonOf(signal: AbortSignal | undefined): Error {
  return signal?.reason as Error;
}
