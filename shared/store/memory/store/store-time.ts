/** The Store's time (informer §12.5) in the memory Store; the process provides the server's clock. */
import { CLOCK_TRUST_MS } from "@deltaloop/base";
import type { Clock } from "@deltaloop/base";
import type { StoreOptions } from "../../store-options.ts";
import type { EpochStore } from "../../ports/store.ts";

/** The reference times that a checkpoint stores. */
export interface CheckedClock {
  readonly fence: string;
  /** The server's clock at the checkpoint. */
  readonly serverMs: number;
  /** Milliseconds by which the server's clock is ahead of the Store's time. */
  readonly aheadMs: number;
  /** The leader's clock at the checkpoint. */
  readonly leaderMs: number;
}

export interface MemoryStoreOptions extends StoreOptions {
  /** The server's clock. */
  readonly clock: Clock;
}

export interface StoreTime {
  /** The Store's time: advances with the server's clock from the last checkpoint on, by at most CLOCK_TRUST_MS (ST2). */
  readonly nowMs: number;
  /** The Store's time without the limit of `nowMs`. */
  readonly uncheckedMs: number;
  /** Time since the last checkpoint, by the server's clock. */
  readonly sinceCheckedMs: number;
  readonly isSure: boolean;
}

export function storeTime(clock: CheckedClock | undefined, serverMs: number): StoreTime {
  const uncheckedMs = serverMs - (clock?.aheadMs ?? 0);
  const sinceCheckedMs = clock ? serverMs - clock.serverMs : 0;
  const nowMs = uncheckedMs - sinceCheckedMs + Math.max(0, Math.min(sinceCheckedMs, CLOCK_TRUST_MS));
  return { nowMs, uncheckedMs, sinceCheckedMs, isSure: Math.abs(sinceCheckedMs) <= CLOCK_TRUST_MS };
}

/** ST3: when the watcher reports a checkpoint, compares its clock with the Store's. */
export function checkClock(
  clock: CheckedClock | undefined,
  { fence, nowMs: leaderMs }: Pick<Parameters<EpochStore["checkpoint"]>[0], "fence" | "nowMs">,
  serverMs: number,
): CheckedClock | undefined {
  if (leaderMs === undefined) return undefined;
  const passedMs = clock?.fence === fence ? Math.max(0, leaderMs - clock.leaderMs) : undefined;
  return { fence, serverMs, leaderMs, aheadMs: (clock?.aheadMs ?? 0) + jumpMs(clock ? serverMs - clock.serverMs : 0, passedMs) };
}

/** How far the server's clock jumped forward or back. */
function jumpMs(serverPassedMs: number, passedMs: number | undefined): number {
  if (serverPassedMs < 0) return serverPassedMs - Math.min(passedMs ?? 0, CLOCK_TRUST_MS);
  if (passedMs === undefined || serverPassedMs - passedMs <= CLOCK_TRUST_MS) return 0;
  return serverPassedMs - passedMs;
}
