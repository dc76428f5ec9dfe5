/**
 * Batching window of open packs. A message has a fixed cost (queue, function, Redis), so waiting is worthwhile only if more items arrive
 * soon:
 *
 *     nothing for 100 ms before        none, except for pods: only the items of one read of the watch share a message
 *     fewer than 300 items a second    1 ms   others rarely share a lane
 *     more                            10 to 100 ms   shorter if packs hold 2 items on average, or nothing arrived for 20 ms
 *
 * A lane whose last message is in flight waits for it anyway, so a slow queue makes larger packs (lane-sender.ts).
 *
 * A pack (the open message of a lane) that holds nothing but own writes waits 200 to 400 ms: the cache already has them, and only an
 * object's last state is sent. Without this delay, six of eight messages of a Deployment with one replica changed nothing. Such packs of
 * all resources are sent at the same times, so that a ReplicaSet, its pod and its status share one SQS call and one invocation.
 *
 * A fixed window trades latency for requests: at 50 items a second 5 s need a hundredth of the requests (`npm run bench -- --only deltas`).
 */

/** Statistics of the items since the last packs left, for all lanes of one resource. */
export interface PackFlow {
  readonly items: number;
  /** Number of open packs. */
  readonly packs: number;
  /** Time since the first item arrived. */
  readonly ageMs: number;
  /** Time since the last item arrived. */
  readonly quietMs: number;
  /** Whether the rate of earlier items suggests that more will follow (FlowMeter). */
  readonly isFlow: boolean;
}

/**
 * Batching window of own writes (own-write.ts): the minimum duration, after which the window lasts until the clock reaches the next
 * multiple of it.
 */
const OWN_WRITES_WINDOW_MS = 200;

/** ms until own writes that arrive now are sent, at least `fixedMs`. */
export function ownWritesWindowMs(nowMs: number, fixedMs = 0): number {
  const leastMs = Math.max(OWN_WRITES_WINDOW_MS, fixedMs);
  return Math.ceil((nowMs + leastMs) / OWN_WRITES_WINDOW_MS) * OWN_WRITES_WINDOW_MS - nowMs;
}

const IDLE_WINDOW_MS = 1;
const FLOW_WINDOW_MS = 10;
/** Maximum time that an item waits in a batching window. */
const FLOW_WINDOW_MS_MAX = 100;
/** Items within FLOW_MS that count as a flow: 300 a second. */
const ITEMS_FLOWING = 30;
const FLOW_MS = 100;
/**
 * Average items per pack at which waiting stops. With 4, rolling updates of 120 to 240 pods took a third longer, and no fewer messages: a
 * ReplicaSet that learns late of its ready pods takes more, smaller steps.
 */
const ITEMS_PER_PACK = 2;
/** A pause of this length ends a flow. It is long because a busy machine delivers items in bursts. */
const QUIET_MS = 20;

/**
 * Whether an item `quietMs` after the previous one follows a pause. Its message then waits only for the other items of its read. A shorter
 * pause, of 20 ms, occurs within a rolling update and made a fifth more messages.
 */
export function isPause(quietMs: number): boolean {
  return quietMs >= FLOW_MS;
}

/** Detects whether arriving items are a flow. */
export class FlowMeter {
  /** Ring buffer of arrival times. */
  readonly #times = new Float64Array(ITEMS_FLOWING).fill(Number.NEGATIVE_INFINITY);
  #next = 0;

  /** Records an item. @returns whether 30 items arrived in the last 100 ms, including this item */
  came(nowMs: number): boolean {
    this.#times[this.#next] = nowMs;
    this.#next = (this.#next + 1) % ITEMS_FLOWING;
    return nowMs - (this.#times[this.#next] ?? nowMs) <= FLOW_MS;
  }
}

/**
 * Returns the milliseconds until the next call of this function; 0 means that the open packs must be sent now. If it is called when a pack
 * opens and then whenever due, a pack waits at most 100 ms, or `fixedMs` if given.
 */
export function remainingWindowMs({ items, packs, ageMs, quietMs, isFlow }: PackFlow, fixedMs?: number): number {
  if (fixedMs !== undefined) return Math.max(0, fixedMs - ageMs);
  if (!isFlow) return Math.max(0, IDLE_WINDOW_MS - ageMs);
  if (ageMs < FLOW_WINDOW_MS) return FLOW_WINDOW_MS - ageMs;
  if (items >= ITEMS_PER_PACK * packs) return 0;
  return Math.max(0, Math.min(FLOW_WINDOW_MS, FLOW_WINDOW_MS_MAX - ageMs, QUIET_MS - quietMs));
}
