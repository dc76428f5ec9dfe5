/**
 * How long open packs wait for company. A message costs its way (queue, function, Redis) whatever it holds, so company is worth
 * a wait exactly when it is on its way:
 *
 *     fewer than 300 items a second    1 ms   what was read together travels together; hardly any two others would meet in a lane
 *     a flow                          10 ms   at least, and 100 at most; less when packs hold 4 items on average, or nothing has come for 20 ms
 *
 * For a ReplicaSet of 1,000 on two cores that was 2.9 items a message instead of 1.6. A lane whose last message is still on its way
 * waits for that anyhow, so a slow queue makes packs of its own accord (lane-sender.ts).
 *
 * Own writes wait 200 to 400 ms wherever they are alone in their lane's pack: the cache has them, and of one object only the last state
 * travels. Without that, six of the eight messages that a Deployment of 1 made changed nothing. They leave at times that are the same for
 * all resources, so that what one run wrote, a ReplicaSet, its pod and its status, is one call and one invocation.
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
  /** So many came before the first item that more are to be expected (FlowMeter). */
  readonly isFlow: boolean;
}

/** For what the cache has been told already (own-write.ts): at least so long, then until the clock shows a multiple of it. */
const OWN_WRITES_WINDOW_MS = 200;

/** ms until own writes leave that came now. `fixedMs`: no sooner. */
export function ownWritesWindowMs(nowMs: number, fixedMs = 0): number {
  const leastMs = Math.max(OWN_WRITES_WINDOW_MS, fixedMs);
  return Math.ceil((nowMs + leastMs) / OWN_WRITES_WINDOW_MS) * OWN_WRITES_WINDOW_MS - nowMs;
}

const IDLE_WINDOW_MS = 1;
const FLOW_WINDOW_MS = 10;
/** The most an item waits for company. */
const FLOW_WINDOW_MS_MAX = 100;
/** Within FLOW_MS: 300 a second. */
const ITEMS_FLOWING = 30;
const FLOW_MS = 100;
/** Of a pack, on average: company enough. */
const ITEMS_PER_PACK = 4;
/** A flow that has paused for so long is over; a busy machine brings it in bursts. */
const QUIET_MS = 20;

/** Whether what comes is a flow. */
export class FlowMeter {
  /** When the last of them came, in a ring. */
  readonly #times = new Float64Array(ITEMS_FLOWING).fill(Number.NEGATIVE_INFINITY);
  #next = 0;

  /** One more came. @returns whether 30 came in the last 100 ms, this one among them */
  came(nowMs: number): boolean {
    this.#times[this.#next] = nowMs;
    this.#next = (this.#next + 1) % ITEMS_FLOWING;
    return nowMs - (this.#times[this.#next] ?? nowMs) <= FLOW_MS;
  }
}

/**
 * ms until this must be asked again; 0: the open packs leave now. Asked at 0 ms and then when it says, they leave by 100 ms, or after
 * `fixedMs` if that is given.
 */
export function remainingWindowMs({ items, packs, ageMs, quietMs, isFlow }: PackFlow, fixedMs?: number): number {
  if (fixedMs !== undefined) return Math.max(0, fixedMs - ageMs);
  if (!isFlow) return Math.max(0, IDLE_WINDOW_MS - ageMs);
  if (ageMs < FLOW_WINDOW_MS) return FLOW_WINDOW_MS - ageMs;
  if (items >= ITEMS_PER_PACK * packs) return 0;
  return Math.max(0, Math.min(FLOW_WINDOW_MS, FLOW_WINDOW_MS_MAX - ageMs, QUIET_MS - quietMs));
}
