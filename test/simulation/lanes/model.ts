/**
 * A randomised model of lanes that grow (informer §10.9): a leader raises its fence and spreads one lane over several in that step. One seed
 * is one schedule of one resource; times are in seconds. The queue delivers in any order, several times. Functions write through with the
 * number of lanes that they last knew, leaders change or crash, older builds take over, and the Store is set back.
 *
 * | Rule | Without it |
 * |---|---|
 * | `fence` | lanes grow under the fence of messages that are in flight |
 * | `watermark` | a new lane starts without the watermark of the old one |
 * | `tombstones` | tombstones stay in the first lane |
 * | `rows` | rows stay in the first lane |
 * | `frozen` | lanes that grow are no longer frozen |
 * | `time` | a new lane does not have the time of the old one's last message |
 * | `count` | a write-through does not compare its number of lanes with the Store's |
 * | `single` | several lanes grow too, and take the greatest watermark |
 * | `adopt` | a leader numbers messages for the lanes that it wants instead of those that the Store has |
 * | `inPlace` | growth opens a second epoch; the old one serves until the new one is listed |
 */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";

export const RULES = ["fence", "watermark", "tombstones", "rows", "frozen", "time", "count", "single", "adopt", "inPlace"] as const;
export type Rule = (typeof RULES)[number];

export const INVARIANTS = {
  sound: "every event at or below a lane's watermark is cached",
  placed: "a row is in the lane of its key, under the Store's number of lanes",
  rest: "at rest, the cache equals the API server",
  open: "growth closes no gate",
  back: "growth lowers no watermark, so the stream resumes without a list",
  again: "an object that was deleted is not cached again in an older version",
  surplus: "growth creates no pod too many",
} as const;
export type Invariant = keyof typeof INVARIANTS;

const KEYS = 7;
/** Lanes of a small cluster, of an odd older build, of a full one. */
const [SMALL, ODD, FULL] = [1, 2, 3];
const [CALM_S, QUIET_S] = [300, 120];
const [SILENCE_S, BEAT_S, DELIVERY_S, HOLE_RAISE_S, RUN_LEASE_S, LANDING_S] = [60, 15, 6, 10, 25, 8];
const WANTED = 3;

interface Event {
  readonly key: number;
  readonly rv: number;
  readonly isDelete: boolean;
}
interface Message {
  readonly epoch: number;
  readonly fence: number;
  readonly lane: number;
  readonly sequence: number;
  readonly events: readonly Event[];
  /** Of a list: every object of the lane at `rv`. */
  readonly listed?: ReadonlyMap<number, number>;
  readonly rv: number;
}
interface Lane {
  last: number;
  W: number;
  tsS: number;
  holeS: number | undefined;
  frozen: boolean;
  rows: Map<number, number>;
  tombs: Map<number, number>;
  ahead: Map<number, Message>;
}
interface Stored {
  epoch: number;
  fence: number;
  /** Of the last checkpoint. */
  number: number;
  isOpen: boolean;
  lanes: Lane[];
  run: { readonly id: number; readonly untilS: number } | undefined;
  intents: number;
}
interface Leader {
  readonly epoch: number;
  readonly fence: number;
  /** An older build has a fixed number of lanes. */
  readonly fixed: number | undefined;
  alive: boolean;
  number: number;
  rv: number;
  readonly sequences: number[];
  readonly sentS: number[];
  /** The epoch that replaces this one once it is listed (without `inPlace`). */
  twin: Stored | undefined;
}

/** Runs a schedule; returns the first violation of each invariant. */
export function run(seed: number, off: ReadonlySet<Rule> = new Set(), trace?: (line: string) => void): ReadonlyMap<Invariant, string> {
  const random = createSeededRandom(seed * 6_151 + 3);
  const chance = (share: number): boolean => random.next() < share;
  const upTo = (most: number): number => Math.floor(random.next() * (most + 1));
  const has = (rule: Rule): boolean => !off.has(rule);
  const found = new Map<Invariant, string>();
  const faults = {
    loss: chance(0.3),
    back: chance(0.4),
    take: chance(0.5),
    old: chance(0.3),
    freeze: chance(0.4),
    dup: chance(0.6),
    runs: chance(0.5),
  };
  let [nowS, rvs, epochs, runs, landed, isQuiet] = [0, 10, 1, 0, 0, false];
  let replaced = false;
  const history: Event[] = [];
  const truth = new Map<number, number>();
  let flights: { readonly atS: number; readonly act: () => boolean }[] = [];
  const snapshots: Stored[] = [];
  /** The greatest version at which each key was deleted in the present state of the Store. */
  const deleted = new Map<number, number>();
  const lane = (): Lane => ({
    last: 0,
    W: 0,
    tsS: nowS,
    holeS: undefined,
    frozen: false,
    rows: new Map(),
    tombs: new Map(),
    ahead: new Map(),
  });
  const opened = (epoch: number, fence: number, lanes: number): Stored => ({
    ...{ epoch, fence, number: 0, isOpen: true, run: undefined, intents: 0 },
    lanes: Array.from({ length: lanes }, lane),
  });
  let stored = opened(1, 1, SMALL);
  const violated = (invariant: Invariant, what: string): void => {
    if (!found.has(invariant)) found.set(invariant, `${nowS} s: ${what}`);
    trace?.(`${nowS} !! ${invariant} ${what}`);
  };
  const copied = (of: Stored): Stored => ({
    ...of,
    lanes: of.lanes.map((each) => ({ ...each, rows: new Map(each.rows), tombs: new Map(each.tombs), ahead: new Map(each.ahead) })),
  });
  const leaderOf = (of: Stored, lanes: number, fixed?: number): Leader => ({
    ...{ epoch: of.epoch, fence: of.fence, fixed, alive: true, number: 0, rv: 0, twin: undefined },
    ...{ sequences: Array.from({ length: lanes }, () => 0), sentS: Array.from({ length: lanes }, () => nowS) },
  });
  let leader = leaderOf(stored, SMALL);

  function fly(maxS: number, act: () => boolean, again = faults.dup && chance(0.3)): void {
    flights.push({ atS: nowS + upTo(maxS), act });
    if (again) flights.push({ atS: nowS + upTo(90), act });
  }
  function send(to: Leader, number: number, events: readonly Event[], listed?: ReadonlyMap<number, number>): void {
    const sequence = ++(to.sequences[number] as number);
    to.sentS[number] = nowS;
    const { epoch, fence } = to;
    const rv = Math.max(to.rv, ...events.map((event) => event.rv));
    const message: Message = { epoch, fence, lane: number, sequence, events, rv, ...(listed && { listed }) };
    const isLost = faults.loss && !isQuiet && chance(0.03);
    trace?.(
      `${nowS} e${epoch} f${fence} l${number}/${to.sequences.length} sends ${sequence} ${JSON.stringify(events)}${listed ? " list" : ""}${isLost ? " LOST" : ""}`,
    );
    if (!isLost) fly(DELIVERY_S, () => apply(message));
  }
  const laneOf = (key: number, lanes: number): number => key % lanes;
  const sendEvent = (event: Event): void => {
    leader.rv = Math.max(leader.rv, event.rv);
    send(leader, laneOf(event.key, leader.sequences.length), [event]);
  };
  function list(to: Leader): void {
    to.rv = rvs;
    for (let number = 0; number < to.sequences.length; number++)
      send(to, number, [], new Map([...truth].filter(([key]) => laneOf(key, to.sequences.length) === number)));
  }

  /** A1 to A9, A11 to A13 and §11.5. Returns false if the message is to come again. */
  function apply(message: Message): boolean {
    const of = leader.twin?.epoch === message.epoch ? leader.twin : stored;
    if (of.epoch !== message.epoch || message.fence < of.fence) return true;
    const at = of.lanes[message.lane];
    if (message.fence > of.fence || !at) return false;
    if (message.sequence <= at.last || at.ahead.has(message.sequence)) return true;
    const isNext = message.sequence === at.last + 1;
    if (message.listed && !isNext) {
      at.holeS ??= nowS;
      return false;
    }
    for (const { key, rv, isDelete } of message.events) {
      const row = at.rows.get(key);
      if (isDelete) {
        if (row !== undefined && row > rv) continue;
        at.rows.delete(key);
        deleted.set(key, Math.max(rv, deleted.get(key) ?? 0));
        if (rv > at.W) at.tombs.set(key, Math.max(rv, at.tombs.get(key) ?? 0));
      } else put(at, key, rv);
    }
    if (message.listed) sweep(at, message.listed, message.rv);
    if (!isNext) {
      at.ahead.set(message.sequence, message);
      at.holeS ??= nowS;
      return true;
    }
    commit(at, message);
    for (let next = at.ahead.get(at.last + 1); next; next = at.ahead.get(at.last + 1)) {
      at.ahead.delete(next.sequence);
      commit(at, next);
    }
    at.tsS = nowS;
    at.holeS = at.ahead.size > 0 ? nowS : undefined;
    const twin = leader.twin;
    if (twin && of === twin && twin.lanes.every(({ last }) => last > 0)) {
      trace?.(`${nowS} the new epoch ${twin.epoch} is listed and serves`);
      stored = twin;
      leader = { ...leaderOf(twin, twin.lanes.length), sequences: twin.lanes.map(({ last }) => last), rv: leader.rv };
      for (const event of history.filter(({ rv }) => rv > Math.min(...twin.lanes.map(({ W }) => W)))) sendEvent(event);
    }
    return true;
  }
  function put(at: Lane, key: number, rv: number): void {
    const [row, tomb] = [at.rows.get(key), at.tombs.get(key)];
    if ((row !== undefined && row >= rv) || (tomb !== undefined && tomb >= rv) || (row === undefined && rv <= at.W)) return;
    at.rows.set(key, rv);
    if (rv < (deleted.get(key) ?? 0)) violated("again", `key ${key} is cached at ${rv}, and was deleted at ${deleted.get(key)}`);
  }
  function sweep(at: Lane, listed: ReadonlyMap<number, number>, rv: number): void {
    for (const [key, of] of listed) if ((at.rows.get(key) ?? 0) < of && (at.tombs.get(key) ?? 0) < of) at.rows.set(key, of);
    for (const [key, of] of at.rows) {
      if (listed.has(key) || of > rv) continue;
      at.rows.delete(key);
      deleted.set(key, Math.max(of, deleted.get(key) ?? 0));
    }
    at.frozen = false;
  }
  function commit(at: Lane, { sequence, rv }: Message): void {
    at.last = sequence;
    if (!at.frozen) raiseW(at, rv);
  }
  function raiseW(at: Lane, rv: number): void {
    at.W = Math.max(at.W, rv);
    for (const [key, tomb] of at.tombs) if (tomb <= at.W) at.tombs.delete(key);
  }
  /** A heartbeat of quiet lanes (informer §10.8). */
  function beat(epoch: number, fence: number, rv: number, quiet: readonly { readonly number: number; readonly last: number }[]): boolean {
    if (stored.epoch !== epoch || stored.fence !== fence) return true;
    for (const { number, last } of quiet) {
      const at = stored.lanes[number];
      if (!at) continue;
      if (last > at.last) at.holeS ??= nowS;
      if (last !== at.last) continue;
      at.tsS = nowS;
      if (!at.frozen) raiseW(at, rv);
    }
    return true;
  }

  /** The step of `openFence` that spreads the rows of one lane over `lanes`. */
  function spread(of: Stored, lanes: number): void {
    const old = of.lanes;
    const [W, tsS] = [Math.max(...old.map((each) => each.W)), Math.min(...old.map((each) => each.tsS))];
    const first = old[0] as Lane;
    of.lanes = Array.from({ length: lanes }, (_, number): Lane => {
      const isFirst = number === 0;
      const mine = (map: (each: Lane) => Map<number, number>, moves: boolean): Map<number, number> =>
        moves
          ? new Map(old.flatMap((each) => [...map(each)]).filter(([key]) => laneOf(key, lanes) === number))
          : new Map(isFirst ? map(first) : []);
      return {
        ...{ last: 0, holeS: undefined, ahead: new Map() },
        W: isFirst || has("watermark") ? W : 0,
        tsS: isFirst || has("time") ? tsS : -1_000,
        frozen: has("frozen") && old.some((each) => each.frozen),
        rows: mine((each) => each.rows, has("rows")),
        tombs: mine((each) => each.tombs, has("tombstones")),
      };
    });
    if (of.lanes.some((each) => each.W < W)) violated("back", "a new lane has an older watermark");
    trace?.(`${nowS} the lanes grow from ${old.length} to ${lanes}, W ${W}`);
  }
  /** A term: opens the fence, then resumes at the least watermark, or lists if a lane is frozen or the takeover is unproven. */
  function lead(
    fence: number,
    { fixed, grows = false, isProven = false }: { fixed?: number | undefined; grows?: boolean; isProven?: boolean },
  ): void {
    const count = stored.lanes.length;
    const wants = fixed ?? (grows ? FULL : SMALL);
    if (fixed === undefined ? has("single") && count !== SMALL && count !== FULL : count !== fixed) {
      stored = opened(++epochs, fence, fixed ?? FULL);
      [replaced, stored.isOpen] = [true, false];
      deleted.clear();
    } else {
      if (fence > stored.fence) for (const each of stored.lanes) Object.assign(each, { last: 0, holeS: undefined, ahead: new Map() });
      stored.fence = fence;
      if (grows && (has("single") ? count === SMALL : count < FULL)) spread(stored, FULL);
    }
    stored.number = 0;
    leader = leaderOf(stored, has("adopt") ? stored.lanes.length : wants, fixed);
    const isWhole = isProven && stored.isOpen && stored.lanes.every(({ frozen }) => !frozen);
    trace?.(`${nowS} a leader with fence ${fence} ${isWhole ? "resumes" : "lists"} e${stored.epoch} with ${stored.lanes.length} lanes`);
    if (!isWhole) {
      stored.isOpen = true;
      return list(leader);
    }
    const from = Math.min(...stored.lanes.map(({ W }) => W));
    for (const event of history.filter(({ rv }) => rv > from)) sendEvent(event);
    leader.rv = Math.max(leader.rv, from);
  }
  const nextFence = (): number => Math.max(stored.fence, leader.fence) + 1;
  function grow(): void {
    if (!leader.alive || leader.fixed !== undefined || stored.fence !== leader.fence || leader.twin) return;
    if (has("single") ? stored.lanes.length !== SMALL : stored.lanes.length === FULL) return;
    const gateBefore = isServing();
    const wasFrozen = stored.lanes.some(({ frozen }) => frozen);
    if (!has("inPlace")) {
      leader.twin = opened(++epochs, nextFence(), FULL);
      return list({ ...leaderOf(leader.twin, FULL), rv: rvs });
    }
    const crashesAfter = faults.take && chance(0.3);
    if (has("fence")) lead(nextFence(), { grows: true, isProven: true });
    else {
      spread(stored, FULL);
      stored.lanes.forEach((each, number) => (each.last = number === 0 ? (leader.sequences[0] ?? 0) : 0));
      leader.sequences.push(0, 0);
      leader.sentS.push(nowS, nowS);
    }
    if (gateBefore && !wasFrozen && !isServing()) violated("open", "the gate closed when the lanes grew");
    if (crashesAfter) leader.alive = false;
  }
  const isServing = (): boolean =>
    stored.isOpen && stored.lanes.every(({ tsS, holeS }) => nowS - tsS <= SILENCE_S && (holeS === undefined || nowS - holeS <= 2));

  function writeThrough(): void {
    const key = upTo(KEYS - 1);
    const rv = truth.get(key);
    if (rv === undefined) return;
    const epoch = stored.epoch;
    let lanes = stored.lanes.length;
    fly(
      20,
      () => {
        if (stored.epoch !== epoch) return true;
        if (has("count")) lanes = stored.lanes.length;
        const at = stored.lanes[laneOf(key, lanes)];
        if (at) put(at, key, rv);
        return true;
      },
      false,
    );
  }
  /** A run of the owner's key: it counts landed pods on a live list, and creates the others; their creation lands later. */
  function takeKey(): void {
    if (!isServing() || (stored.run && stored.run.untilS > nowS)) return;
    const [id, epoch, missing] = [++runs, stored.epoch, WANTED - landed - stored.intents];
    stored.run = { id, untilS: nowS + RUN_LEASE_S };
    if (missing <= 0) return void (stored.run = undefined);
    stored.intents += missing;
    fly(
      LANDING_S,
      () => {
        landed += missing;
        if (stored.epoch === epoch) stored.intents = Math.max(0, stored.intents - missing);
        if (stored.run?.id === id) stored.run = undefined;
        if (landed > WANTED && !replaced) violated("surplus", `${landed} pods instead of ${WANTED}`);
        return true;
      },
      false,
    );
  }

  function tend(): void {
    if (!leader.alive) {
      if (isQuiet || chance(0.1)) lead(nextFence(), {});
      return;
    }
    if (stored.epoch !== leader.epoch || stored.fence !== leader.fence || stored.number < leader.number) {
      if (stored.epoch === leader.epoch && stored.fence > leader.fence) leader.alive = false;
      else lead(nextFence(), { fixed: leader.fixed }); // set back: everything is listed
      return;
    }
    leader.number = ++stored.number;
    if (stored.lanes.some(({ holeS, frozen }) => (holeS !== undefined && nowS - holeS > HOLE_RAISE_S) || (frozen && chance(0.1))))
      return lead(nextFence(), { fixed: leader.fixed, isProven: true });
    const { epoch, fence, rv } = leader;
    const quiet = stored.lanes.flatMap(({ last }, number) => (last === leader.sequences[number] ? [{ number, last }] : []));
    if (chance(0.07)) fly(DELIVERY_S, () => beat(epoch, fence, rv, quiet));
    leader.sentS.forEach((sentS, number) => {
      if (nowS - sentS >= BEAT_S) send(leader, number, []);
    });
  }
  function fault(): void {
    if (faults.back && chance(0.02)) snapshots.push(copied(stored));
    const snapshot = faults.back && !leader.twin && chance(0.01) ? snapshots[upTo(snapshots.length - 1)] : undefined;
    if (snapshot?.epoch === stored.epoch) {
      [stored, replaced] = [copied(snapshot), true];
      deleted.clear();
      trace?.(`${nowS} the Store is set back to fence ${stored.fence} with ${stored.lanes.length} lanes`);
    }
    if (leader.twin) return;
    if (faults.take && chance(0.008)) lead(nextFence(), { isProven: chance(0.5) && stored.number === leader.number });
    if (faults.take && chance(0.004)) leader.alive = false;
    if (faults.old && chance(0.005)) lead(nextFence(), { fixed: chance(0.3) ? ODD : FULL });
    if (faults.freeze && chance(0.01) && stored.fence === leader.fence) {
      // A list finds that the row of a listed object is missing, and its manifest freezes the lane.
      const at = stored.lanes[upTo(stored.lanes.length - 1)] as Lane;
      const keys = [...at.rows].flatMap(([key, rv]) => (rv <= at.W && truth.get(key) === rv ? [key] : []));
      const key = keys[upTo(keys.length - 1)];
      if (key !== undefined) {
        at.rows.delete(key);
        at.frozen = true;
      }
    }
  }
  function check(): void {
    const count = stored.lanes.length;
    for (const [number, { W, rows, frozen }] of stored.lanes.entries()) {
      for (const key of rows.keys()) {
        if (laneOf(key, count) !== number) violated("placed", `key ${key} is in lane ${number} of ${count}`);
      }
      if (frozen) continue;
      for (let key = number; key < KEYS; key += count) {
        const last = history.findLast((event) => event.key === key && event.rv <= W);
        const row = rows.get(key);
        if (!last || (row !== undefined && row > last.rv)) continue;
        const isGone = last.isDelete || history.some((event) => event.key === key && event.isDelete && event.rv > last.rv);
        if (row === undefined ? !isGone : last.isDelete || row < last.rv)
          violated("sound", `lane ${number} of ${count} has watermark ${W}, key ${key} is cached at ${row}, and changed at ${last.rv}`);
      }
    }
  }

  for (; nowS < CALM_S + QUIET_S; nowS++) {
    isQuiet = nowS >= CALM_S;
    if (!isQuiet) {
      fault();
      if (chance(0.02)) grow();
      if (chance(0.3)) {
        const key = upTo(KEYS - 1);
        const isDelete = truth.has(key) && chance(0.4);
        const event = { key, rv: ++rvs, isDelete };
        history.push(event);
        if (isDelete) truth.delete(key);
        else truth.set(key, event.rv);
        if (leader.alive) sendEvent(event);
      }
      if (chance(0.2)) writeThrough();
      if (faults.runs && chance(0.2)) takeKey();
      if (faults.runs && chance(0.03) && landed > 0) landed--; // a user deletes a pod
    }
    tend();
    const due = flights.filter(({ atS }) => atS <= nowS);
    flights = flights.filter(({ atS }) => atS > nowS);
    for (const { act } of due.toSorted(() => random.next() - 0.5)) if (!act()) flights.push({ atS: nowS + 2, act });
    check();
  }
  const cached = new Map(stored.lanes.flatMap(({ rows }) => [...rows]));
  for (const key of new Set([...truth.keys(), ...cached.keys()]))
    if (cached.get(key) !== truth.get(key)) violated("rest", `key ${key} is cached at ${cached.get(key)} and exists at ${truth.get(key)}`);
  return found;
}
