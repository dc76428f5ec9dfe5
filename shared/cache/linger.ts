/**
 * How long open packs wait for company. A message costs its way (queue, function, Redis) whatever it holds, so company is worth
 * a wait exactly when it is on its way:
 *
 *     after a lull         5 ms   whatever comes: one event's latency
 *     fewer than 3 items  10 ms   hardly any two of them would meet in one of sixteen lanes
 *     3 or more items    100 ms   at most; less when packs hold 4 items on average, or nothing has come for 20 ms
 *
 * For a ReplicaSet of 1,000 on two cores that was 2.9 items a message instead of 1.6.
 *
 * Who pays for requests rather than for latency says how long packs wait whatever comes: at 50 items a second 5 s cost a hundredth of the
 * requests (`npm run bench -- --only deltas`).
 */

/** What is known of the items that came since the last packs left, of all lanes of one resource. */
export interface PackFlow {
  readonly items: number;
  /** Packs that are open. */
  readonly packs: number;
  /** Since the first item came. */
  readonly ageMs: number;
  /** Since the last item came. */
  readonly quietMs: number;
  /** Nothing had come for a while when the first item did. */
  readonly afterLull: boolean;
}

const LINGER_MS = 10;
const LINGER_IDLE_MS = 5;
/** The most an item waits for company. */
const LINGER_FLOWING_MS = 100;
/** Within LINGER_MS: 300 a second. */
const ITEMS_FLOWING = 3;
/** Of a pack, on average: company enough. */
const ITEMS_PER_PACK = 4;
/** A flow that has paused for so long is over; a busy machine brings it in bursts. */
const QUIET_MS = 20;

/** Whether so long a silence before an item is a lull. */
export function isLull(quietMs: number): boolean {
  return quietMs > LINGER_MS;
}

/**
 * ms until this must be asked again; 0: the open packs leave now. Asked at 0 ms and then when it says, they leave by 100 ms, or after
 * `fixedMs` if that is given.
 */
export function lingerMs({ items, packs, ageMs, quietMs, afterLull }: PackFlow, fixedMs?: number): number {
  if (fixedMs !== undefined) return Math.max(0, fixedMs - ageMs);
  if (afterLull) return Math.max(0, LINGER_IDLE_MS - ageMs);
  if (ageMs < LINGER_MS) return LINGER_MS - ageMs;
  if (items < ITEMS_FLOWING || items >= ITEMS_PER_PACK * packs) return 0;
  return Math.max(0, Math.min(LINGER_MS, LINGER_FLOWING_MS - ageMs, QUIET_MS - quietMs));
}
