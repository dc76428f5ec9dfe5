/** The Store's time (informer §12.5) as the memory Store keeps it; the server's clock is the process's. */
import { CLOCK_TRUST_MS } from "@deltaloop/base";
import type { Clock } from "@deltaloop/base";
import type { StoreOptions } from "../../store-options.ts";
import type { EpochStore } from "../../ports/store.ts";

/** The reference times that a checkpoint stores. */
export interface CheckedClock {
  readonly fence: string;
  /** The server's clock then. */
  readonly serverMs: number;
  /** Milliseconds by which the server's clock is ahead of the Store's time. */
  readonly aheadMs: number;
  /** The leader's clock then. */
  readonly leaderMs: number;
}

export interface MemoryStoreOptions extends StoreOptions {
  /** The server's. */
  readonly clock: Clock;
}

export interface StoreTime {
  /** The Store's time: it advances from the last checkpoint by the server's clock, by CLOCK_TRUST_MS at most (ST2). */
  readonly nowMs: number;
  /** The same without that limit. */
  readonly uncheckedMs: number;
  /** By the server's clock, since the last checkpoint. */
  readonly sinceCheckedMs: number;
  readonly isSure: boolean;
}

export function storeTime(clock: CheckedClock | undefined, serverMs: number): StoreTime {
  const uncheckedMs = serverMs - (clock?.aheadMs ?? 0);
  const sinceCheckedMs = clock ? serverMs - clock.serverMs : 0;
  const nowMs = uncheckedMs - sinceCheckedMs + Math.max(0, Math.min(sinceCheckedMs, CLOCK_TRUST_MS));
  return { nowMs, uncheckedMs, sinceCheckedMs, isSure: Math.abs(sinceCheckedMs) <= CLOCK_TRUST_MS };
}

/** ST3. */
export function checkClock(
  clock: CheckedClock | undefined,
  { fence, nowMs: leaderMs }: Pick<Parameters<EpochStore["checkpoint"]>[0], "fence" | "nowMs">,
  serverMs: number,
): CheckedClock | undefined {
  if (leaderMs === undefined) return undefined;
  const passedMs = clock?.fence === fence ? Math.max(0, leaderMs - clock.leaderMs) : undefined;
  return { fence, serverMs, leaderMs, aheadMs: (clock?.aheadMs ?? 0) + jumpMs(clock ? serverMs - clock.serverMs : 0, passedMs) };
}

/** By how much the server's clock went on too far, or went back. */
function jumpMs(serverPassedMs: number, passedMs: number | undefined): number {
  if (serverPassedMs < 0) return serverPassedMs - Math.min(passedMs ?? 0, CLOCK_TRUST_MS);
  if (passedMs === undefined || serverPassedMs - passedMs <= CLOCK_TRUST_MS) return 0;
  return serverPassedMs - passedMs;
}
