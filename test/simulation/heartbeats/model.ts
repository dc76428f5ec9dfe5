/**
 * A randomised model of heartbeats that travel together (informer §10.8): leaders of several clusters, one queue without order, and a Store
 * that is set back. One seed is one schedule of two clusters with two lanes each; times are in seconds.
 *
 * | Rule | Without it |
 * |---|---|
 * | `mac` | an entry is applied although another cluster's key signed it |
 * | `epoch`, `fence` | an entry is applied in another epoch, or under another fence |
 * | `time` | an entry is applied again, or after a newer one of its fence |
 * | `ahead` | an entry ahead of the lane's messages counts as contiguous |
 * | `frozen` | an entry moves the watermark of a frozen lane |
 * | `applied` | a lane is in an entry before the Store has confirmed its messages |
 * | `separate` | an entry that fails stops the later ones of its message |
 */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";

export const RULES = ["mac", "epoch", "fence", "time", "ahead", "frozen", "applied", "separate"] as const;
export type Rule = (typeof RULES)[number];

export const INVARIANTS = {
  sound: "every event at or below a lane's watermark is cached",
  tail: "a lost message closes the gate or raises the fence within LOST_TAIL_S",
  dead: "the gate is closed SILENCE_S after the last message of a dead leader has first arrived",
  calm: "without loss, a heartbeat opens no hole",
  alive: "a lane of a living leader is never silent for SILENCE_S",
} as const;
export type Invariant = keyof typeof INVARIANTS;

const [SILENCE_S, HOLE_S, HOLE_RAISE_S, BEAT_S, BATCH_S, FROZEN_S] = [60, 2, 10, 15, 5, 15];
/** A first delivery takes at most this long, of a lane with a backlog BACKLOG_S. */
const [DELIVERY_S, BACKLOG_S] = [3, 40];
/** Interval of the checkpoints of a quiet cluster. */
const CHECKPOINT_S = 3;
/** An own message reveals the gap 15 s after the last one; the gate closes 2 s after that. */
const LOST_TAIL_S = BEAT_S + BATCH_S + DELIVERY_S + HOLE_S + CHECKPOINT_S;

interface Entry {
  readonly kind: "entry";
  readonly cluster: number;
  readonly key: number;
  readonly epoch: number;
  readonly fence: number;
  readonly atS: number;
  readonly rv: number;
  readonly lanes: readonly { readonly lane: number; readonly sequence: number }[];
}
interface Data {
  readonly kind: "data";
  readonly cluster: number;
  readonly epoch: number;
  readonly fence: number;
  readonly lane: number;
  readonly sequence: number;
  /** Events; none in a heartbeat of the lane's own. */
  readonly events: readonly number[];
  readonly rv: number;
  readonly sentS: number;
  lost: boolean;
}
interface Flight {
  readonly atS: number;
  readonly first: boolean;
  readonly message: Data | { readonly kind: "beats"; readonly entries: readonly Entry[] };
}
interface Lane {
  last: number;
  W: number;
  tsS: number;
  holeS: number | undefined;
  frozen: boolean;
  cached: Set<number>;
  ahead: Map<number, Data>;
}
interface Stored {
  epoch: number;
  fence: number;
  beatS: number;
  /** The last checkpoint. */
  checkedS: number;
  down: boolean;
  lanes: Lane[];
}
interface Leader {
  fence: number;
  epoch: number;
  alive: boolean;
  rv: number;
  sequences: number[];
  applied: number[];
  sentS: number[];
  beatS: number;
  checkedS: number;
  frozenS: number;
  sent: Data[];
}

const LANES = [0, 1];

/** Runs a schedule; returns the first violation of each invariant. */
export function run(seed: number, off: ReadonlySet<Rule> = new Set(), trace?: (line: string) => void): ReadonlyMap<Invariant, string> {
  const random = createSeededRandom(seed * 7_919 + 1);
  const chance = (share: number): boolean => random.next() < share;
  const upTo = (most: number): number => Math.floor(random.next() * (most + 1));
  const found = new Map<Invariant, string>();
  const has = (rule: Rule): boolean => !off.has(rule);
  const faults = {
    loss: chance(0.4),
    back: chance(0.4),
    take: chance(0.4),
    forge: chance(0.3),
    backlog: chance(0.4),
    down: chance(0.3),
    freeze: chance(0.3),
    dead: chance(0.3),
    dup: chance(0.5),
  };
  const isReversed = chance(0.5);
  let nowS = 0;
  let rvs = 1;
  let flights: Flight[] = [];
  const lane = (): Lane => ({ last: 0, W: 0, tsS: 0, holeS: undefined, frozen: false, cached: new Set(), ahead: new Map() });
  const stores = LANES.map((): Stored => ({ epoch: 1, fence: 1, beatS: -1, checkedS: 0, down: false, lanes: LANES.map(lane) }));
  const history = LANES.map(() => LANES.map((): number[] => []));
  const leaderOf = (epoch: number, fence: number): Leader => ({
    ...{
      fence,
      epoch,
      alive: true,
      rv: 0,
      sequences: [0, 0],
      applied: [0, 0],
      sentS: [nowS, nowS],
      beatS: nowS - upTo(BEAT_S),
      checkedS: nowS,
    },
    ...{ frozenS: -1, sent: [] },
  });
  const leaders = LANES.map(() => leaderOf(1, 1));
  const backlogged = [-1, -1];
  const lastFirst = [0, 0];
  const snapshots: (() => void)[][] = [[], []];
  let batch: Entry[] = [];
  let calm = true;
  const violated = (invariant: Invariant, what: string): void => {
    if (!found.has(invariant)) found.set(invariant, `${nowS} s: ${what}`);
    trace?.(`${nowS} !! ${invariant} ${what}`);
  };
  const copied = (stored: Stored): Stored => ({
    ...stored,
    lanes: stored.lanes.map((each) => ({ ...each, cached: new Set(each.cached), ahead: new Map(each.ahead) })),
  });

  function fly(message: Flight["message"], delayS: number): void {
    flights.push({ atS: nowS + delayS, first: true, message });
    if (faults.dup && chance(0.3)) flights.push({ atS: nowS + delayS + upTo(200), first: false, message });
  }
  function send(cluster: number, number: number, events: readonly number[]): void {
    const leader = leaders[cluster] as Leader;
    const sequence = ++(leader.sequences[number] as number);
    leader.sentS[number] = nowS;
    const lost = faults.loss && chance(0.05);
    const message: Data = {
      kind: "data",
      cluster,
      epoch: leader.epoch,
      fence: leader.fence,
      lane: number,
      sequence,
      events,
      rv: Math.max(leader.rv, ...events),
      sentS: nowS,
      lost,
    };
    leader.sent.push(message);
    trace?.(`${nowS} c${cluster} l${number} sends ${sequence} [${events.join()}]${lost ? " LOST" : ""}`);
    if (lost) calm = false;
    else fly(message, (backlogged[cluster] === number ? BACKLOG_S : 0) + upTo(DELIVERY_S));
  }
  function openFence(cluster: number, fence: number): void {
    const stored = stores[cluster] as Stored;
    stored.fence = fence;
    stored.beatS = -1;
    for (const each of stored.lanes) Object.assign(each, { last: 0, holeS: undefined, ahead: new Map() });
  }
  /** A new stream resumes at the least watermark. */
  function lead(cluster: number, fence: number): void {
    const stored = stores[cluster] as Stored;
    openFence(cluster, fence);
    stored.checkedS = nowS;
    leaders[cluster] = leaderOf(stored.epoch, fence);
    const from = Math.min(...stored.lanes.map(({ W }) => W));
    trace?.(`${nowS} c${cluster} leads with fence ${fence} from ${from}`);
    for (const number of LANES) {
      // A list repairs a frozen lane.
      const laneOf = stored.lanes[number] as Lane;
      if (laneOf.frozen) for (const event of history[cluster]?.[number] ?? []) laneOf.cached.add(event);
      laneOf.frozen = false;
      const missed = (history[cluster]?.[number] ?? []).filter((event) => event > from);
      for (const event of missed) send(cluster, number, [event]);
    }
    (leaders[cluster] as Leader).rv = Math.max(from, ...(history[cluster] ?? []).flat());
  }
  function commit(laneOf: Lane, data: Data): void {
    laneOf.last = data.sequence;
    trace?.(`${nowS} c${data.cluster} l${data.lane} applies ${data.sequence} W ${data.rv}`);
    for (const event of data.events) laneOf.cached.add(event);
    if (!laneOf.frozen) laneOf.W = Math.max(laneOf.W, data.rv);
  }
  function applyData(data: Data): boolean {
    const stored = stores[data.cluster] as Stored;
    if (stored.epoch !== data.epoch || stored.fence > data.fence) return true;
    if (stored.fence < data.fence) return false;
    const laneOf = stored.lanes[data.lane] as Lane;
    if (data.sequence <= laneOf.last || laneOf.ahead.has(data.sequence)) return true;
    if (data.sequence > laneOf.last + 1) {
      for (const event of data.events) laneOf.cached.add(event);
      laneOf.ahead.set(data.sequence, data);
      laneOf.holeS ??= nowS;
      return true;
    }
    commit(laneOf, data);
    for (let next = laneOf.ahead.get(laneOf.last + 1); next; next = laneOf.ahead.get(laneOf.last + 1)) {
      laneOf.ahead.delete(next.sequence);
      commit(laneOf, next);
    }
    laneOf.tsS = nowS;
    laneOf.holeS = laneOf.ahead.size > 0 ? nowS : undefined;
    return true;
  }
  /** @throws when the Store does not answer */
  function applyEntry(entry: Entry): void {
    const stored = stores[entry.cluster] as Stored;
    if (has("mac") && entry.key !== entry.cluster) return;
    if (stored.down) throw new Error("the Store does not answer");
    if (has("epoch") && stored.epoch !== entry.epoch) return;
    if (has("fence") && stored.fence !== entry.fence) return;
    if (has("time") && entry.atS <= stored.beatS) return;
    stored.beatS = Math.max(stored.beatS, entry.atS);
    trace?.(
      `${nowS} c${entry.cluster} applies the heartbeat of ${entry.atS} s, rv ${entry.rv}, ${JSON.stringify(entry.lanes)}, lasts ${stored.lanes.map(({ last }) => last).join()}`,
    );
    for (const { lane: number, sequence } of entry.lanes) {
      const laneOf = stored.lanes[number] as Lane;
      if (sequence > laneOf.last && has("ahead")) {
        if (calm && entry.key === entry.cluster)
          violated("calm", `a heartbeat of c${entry.cluster} l${number} at ${sequence} opens a hole after ${laneOf.last}`);
        laneOf.holeS ??= nowS;
      } else if (sequence >= laneOf.last) {
        laneOf.tsS = nowS;
        if (!laneOf.frozen || !has("frozen")) laneOf.W = Math.max(laneOf.W, entry.rv);
      }
    }
  }
  function deliver({ first, message }: Flight): void {
    if (message.kind === "data") {
      if (first) lastFirst[message.cluster] = nowS;
      if (!applyData(message)) flights.push({ atS: nowS + 2, first: false, message });
      return;
    }
    for (const entry of message.entries) {
      if (first) lastFirst[entry.cluster] = nowS;
      try {
        applyEntry(entry);
      } catch {
        if (!has("separate")) return;
      }
    }
  }
  /** A second loss in a row is detected by the next own heartbeat. */
  const isOnlyLoss = ({ sent }: Leader, number: number): boolean => sent.filter((each) => each.lost && each.lane === number).length === 1;
  const isOpen = ({ lanes }: Stored): boolean =>
    lanes.every(({ tsS, holeS }) => nowS - tsS <= SILENCE_S && (holeS === undefined || nowS - holeS <= HOLE_S));

  function tend(cluster: number): void {
    const leader = leaders[cluster] as Leader;
    const stored = stores[cluster] as Stored;
    if (!leader.alive) return;
    const isQuiet = LANES.every((number) => leader.applied[number] === leader.sequences[number]);
    if (nowS - leader.checkedS >= (isQuiet ? CHECKPOINT_S : 1)) {
      const isSetBack = stored.fence < leader.fence || stored.checkedS < leader.checkedS;
      leader.checkedS = nowS;
      if (stored.epoch !== leader.epoch || isSetBack) return lead(cluster, Math.max(leader.fence, stored.fence) + 1);
      if (stored.fence > leader.fence) return void (leader.alive = false);
      stored.checkedS = nowS;
      leader.applied = stored.lanes.map(({ last }) => last);
      if (stored.lanes.some(({ holeS }) => holeS !== undefined && nowS - holeS > HOLE_RAISE_S)) return lead(cluster, leader.fence + 1);
      if (leader.frozenS >= 0 && nowS - leader.frozenS > FROZEN_S) return lead(cluster, leader.fence + 1);
    }
    for (const number of LANES) {
      const isApplied = leader.applied[number] === leader.sequences[number];
      if (!isApplied && has("applied") && nowS - (leader.sentS[number] ?? 0) >= BEAT_S) send(cluster, number, []);
    }
    if (nowS - leader.beatS < BEAT_S) return;
    leader.beatS = nowS;
    const lanes = LANES.filter((number) => !has("applied") || leader.applied[number] === leader.sequences[number]);
    if (lanes.length === 0) return;
    const entry = { cluster, key: cluster, epoch: leader.epoch, fence: leader.fence, atS: nowS, rv: leader.rv };
    batch.push({ kind: "entry", ...entry, lanes: lanes.map((number) => ({ lane: number, sequence: leader.sequences[number] ?? 0 })) });
  }
  function fault(cluster: number): void {
    if (faults.back && chance(0.01)) {
      const copy = copied(stores[cluster] as Stored);
      snapshots[cluster]?.push(
        () => void (stores[cluster] = { ...copied(copy), epoch: (stores[cluster] as Stored).epoch === copy.epoch ? copy.epoch : -1 }),
      );
    }
    if (faults.back && chance(0.006)) {
      const back = snapshots[cluster]?.pop();
      if (back) [calm] = [false, back()];
      trace?.(`${nowS} c${cluster} the Store is set back`);
    }
    if (faults.take && chance(0.006)) lead(cluster, Math.max((stores[cluster] as Stored).fence, (leaders[cluster] as Leader).fence) + 1);
    if (faults.take && chance(0.003)) {
      // The API server and the Store were restored: another epoch, whose fence repeats.
      const epoch = ++epochs;
      stores[cluster] = {
        epoch,
        fence: (leaders[cluster] as Leader).fence,
        beatS: -1,
        checkedS: nowS,
        down: false,
        lanes: LANES.map(lane),
      };
      (stores[cluster] as Stored).lanes.forEach((each) => (each.tsS = nowS));
      lead(cluster, (leaders[cluster] as Leader).fence);
    }
    const stored = stores[cluster] as Stored;
    const leader = leaders[cluster] as Leader;
    if (faults.freeze && chance(0.004) && leader.alive && leader.frozenS < 0) {
      // A list whose object is missing: its manifest freezes the lane and the event stays uncached.
      const number = upTo(1);
      const laneOf = stored.lanes[number] as Lane;
      if (stored.epoch === leader.epoch && stored.fence === leader.fence && laneOf.last === leader.sequences[number]) {
        history[cluster]?.[number]?.push(++rvs);
        leader.rv = rvs;
        laneOf.last = ++(leader.sequences[number] as number);
        laneOf.frozen = true;
        leader.frozenS = nowS;
        trace?.(`${nowS} c${cluster} l${number} is frozen without event ${rvs}`);
      }
    }
    if (faults.down) stored.down = stored.down ? !chance(0.01) : chance(0.005);
    if (faults.backlog && chance(0.01)) backlogged[cluster] = upTo(2) - 1;
    if (faults.dead && chance(0.002)) leader.alive = false;
    if (faults.forge && chance(0.05)) {
      const victim = stores[1 - cluster] as Stored;
      const lanes = LANES.map((number) => ({ lane: number, sequence: (victim.lanes[number] as Lane).last }));
      batch.push({
        kind: "entry",
        cluster: 1 - cluster,
        key: cluster,
        epoch: victim.epoch,
        fence: victim.fence,
        atS: nowS + 1_000,
        rv: rvs + 1_000,
        lanes,
      });
    }
  }
  let epochs = 1;
  function check(cluster: number): void {
    const stored = stores[cluster] as Stored;
    const leader = leaders[cluster] as Leader;
    for (const number of LANES) {
      const { W, cached } = stored.lanes[number] as Lane;
      const missing = (history[cluster]?.[number] ?? []).find((event) => event <= W && !cached.has(event));
      if (missing !== undefined) violated("sound", `c${cluster} l${number} has watermark ${W} and lacks event ${missing}`);
    }
    const isCurrent = stored.fence === leader.fence && stored.epoch === leader.epoch;
    const gap = leader.sent.find(
      ({ lost, sentS, lane: number, sequence }) =>
        lost && nowS - sentS > LOST_TAIL_S && sequence > (stored.lanes[number] as Lane).last && isOnlyLoss(leader, number),
    );
    if (gap && leader.alive && isCurrent && !stored.down && isOpen(stored) && backlogged[cluster] === -1 && !faults.backlog)
      violated("tail", `c${cluster} l${gap.lane} lacks message ${gap.sequence} of ${gap.sentS} s`);
    if (!leader.alive && !faults.back && !faults.down && nowS - (lastFirst[cluster] ?? 0) > SILENCE_S + BACKLOG_S && isOpen(stored))
      violated("dead", `the gate of c${cluster} is open`);
    if (
      !faults.loss &&
      !faults.back &&
      !faults.take &&
      !faults.dead &&
      !faults.freeze &&
      !faults.forge &&
      !(faults.down && stored.down) &&
      !faults.down &&
      !faults.backlog &&
      !isOpen(stored)
    )
      violated("alive", `the gate of c${cluster} is closed`);
    const other = stores[1 - cluster] as Stored;
    if (
      faults.down &&
      !faults.loss &&
      !faults.back &&
      !faults.take &&
      !faults.dead &&
      !faults.freeze &&
      !faults.forge &&
      !faults.backlog &&
      nowS > 2 * SILENCE_S
    ) {
      upS[cluster] = stored.down ? 0 : (upS[cluster] ?? 0) + 1;
      if ((upS[cluster] ?? 0) > SILENCE_S && !isOpen(stored))
        violated("alive", `the gate of c${cluster} is closed while the Store of the other ${other.down ? "does not answer" : "answers"}`);
    }
  }
  const upS = [0, 0];

  for (; nowS < 600; nowS++) {
    for (const cluster of LANES) {
      fault(cluster);
      const leader = leaders[cluster] as Leader;
      if (leader.alive && chance(0.02)) {
        const number = upTo(1);
        history[cluster]?.[number]?.push(++rvs);
        leader.rv = rvs;
        send(cluster, number, [rvs]);
      }
      tend(cluster);
    }
    if (nowS % BATCH_S === 0 && batch.length > 0) {
      // Entries of all clusters in one message, in any order.
      if (!(faults.loss && chance(0.05))) fly({ kind: "beats", entries: isReversed ? batch.toReversed() : batch }, upTo(DELIVERY_S));
      batch = [];
    }
    const due = flights.filter(({ atS }) => atS <= nowS);
    flights = flights.filter(({ atS }) => atS > nowS);
    for (const flight of due.toSorted(() => random.next() - 0.5)) deliver(flight);
    for (const cluster of LANES) check(cluster);
  }
  return found;
}
