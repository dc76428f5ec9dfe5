/** The clock of a Store's server, which a test can set. */
import { createVirtualClock, type VirtualClock } from "../../../shared/base/memory/clock.ts";

export interface ServerClock extends VirtualClock {
  /** Sets the clock forward by `ms`, or back. */
  jump(ms: number): void;
  /** The time of the clock without its jumps. */
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
