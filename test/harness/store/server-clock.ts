/** A virtual clock for a Store's server that a test can move. */
import { createVirtualClock, type VirtualClock } from "../../../shared/base/memory/clock.ts";

export interface ServerClock extends VirtualClock {
  /** Moves the clock by `ms`, which may be negative. */
  jump(ms: number): void;
  /** Returns the clock's time without the jumps. */
  steadyNow(): number;
}

export function createServerClock(startMs: number): ServerClock {
  const clock = createVirtualClock(startMs);
  let aheadMs = 0;
  return {
    ...clock,
    now: () => clock.now() + aheadMs,
    jump: (ms) => void (aheadMs += ms),
    steadyNow: () => clock.now(),
  };
}
