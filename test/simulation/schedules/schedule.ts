/**
 * One random schedule on a real Store: watchers with fences, messages that are lost, repeated and reordered, appliers, workers that crash
 * or are late, users, and a Store that is rolled back; each Store call is a step, and between any two steps of a process other processes
 * may run. The scripts are the product's own; their callers are as small as possible, so that thousands of schedules can run. The
 * invariants are in ../invariants.ts.
 */
import { isBuiltIn } from "../../../shared/kube/objects/resources.ts";
import type { Cached, CachedPod, CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import { primaryAsOwner } from "../../../shared/kube/objects/owner-id.ts";
import { laneOf } from "../../../shared/store/lane.ts";
import { minResourceVersion } from "../../../shared/kube/objects/resource-version.ts";
import { objectKey } from "../../../shared/kube/objects/resources.ts";
import type { ObjectKey } from "../../../shared/kube/objects/resources.ts";
import { prepareChanges } from "../../../shared/controllers/cache/prepare.ts";
import type { Change } from "../../../shared/controllers/cache/prepare.ts";
import { podNames } from "../../../shared/controllers/kit/pod-names.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import type { Random } from "../../../shared/base/random.ts";
import type { DoneResult, Outcome, PackHeader, Snapshot, Store, Taken, WriteThrough } from "../../../shared/store/ports/store.ts";
import { LEASE_MS, MAY_LAND_MS } from "../../../shared/base/times.ts";
import { IDENTITY } from "../../harness/store/store.ts";
import { Api, KINDS, podKey, uidOf } from "./api.ts";
import type { Event, Kind } from "./api.ts";
import { ProtocolFaults } from "../protocol/faults.ts";
import type { ProtocolFault } from "../protocol/faults.ts";
import type { InvariantId } from "../invariants.ts";
import { apply } from "./applier.ts";
import type { Message } from "./applier.ts";
import { EPOCH, START_MS } from "./ground.ts";
import type { Ground } from "./ground.ts";
import { observed } from "./observed.ts";
import { Scheduler } from "./scheduler.ts";
import { NO_VARIANT, branched } from "./variant.ts";
import type { Variant } from "./variant.ts";

export interface ScheduleResult {
  readonly violations: readonly { readonly rule: InvariantId; readonly what: string }[];
  readonly stats: Readonly<Record<string, number>>;
}

export interface ScheduleOptions {
  readonly ground: Ground;
  readonly seed: number;
  /** Adds the faults of protocol seeds. */
  readonly faults?: boolean;
  readonly trace?: (line: string) => void;
  /** What differs from the seed's own schedule. */
  readonly variant?: Variant;
  /** Called with each count, faults among them. */
  readonly onCount?: (what: string) => void;
  /** Called with each changing call of the Store and its answer, such as `take: ok`, and the number of random numbers drawn so far. */
  readonly onStep?: (step: string, draws: number) => void;
}

const LANES: { readonly [K in Kind]: number } = { deployments: 1, replicasets: 1, pods: 2 };
const REPLICA_SETS = ["shop/a", "shop/b"] as const satisfies readonly ObjectKey[];
/** The epoch of a build with another cache identity. */
const OLD_EPOCH = "e0";
const OLD_SEQUENCE = 2;
/** Steps before the quiet phase. */
export const STEPS = 140;
const QUIET_MS_MAX = 400_000;
const [TICK_MS, HEARTBEAT_MS, HOLE_RAISE_MS] = [1_000, 15_000, 10_000];
const REQUEST_MS = 12_000;
const LOSS_MS = 60_000;
/**
 * Rounds of 5 s in the quiet phase: enough for a heartbeat to reveal that a lane's last message was lost, and for the gap to close the
 * gate.
 */
const CALM_ROUNDS = 4;
const RUNS_AT_REST_MAX = 60;
const RETRIES_MAX = 5;

/** A watcher's term; it uses one fence. */
interface Term {
  readonly fence: string;
  readonly epoch: string;
  /** For each kind, the version up to which its events have been read, or "listing". */
  readonly read: Map<Kind, number | "listing">;
  readonly sequences: Map<string, number>;
  readonly generations: Map<Kind, number>;
  readonly listedMs: Map<Kind, number>;
  beat: number;
  answered: number;
  beatMs: number;
  heardMs: number;
  over: boolean;
}

/** The faults that a schedule may have; `calmPods`: no user deletes or releases pods. */
type Mix = Readonly<Record<"crashes" | "lossy" | "badApi" | "calmPods" | "quotaTail" | "setBack" | "leaders", boolean>>;

function mixOf(drawn: Mix, without: ReadonlySet<string>, also: ReadonlySet<string>): Mix {
  const has = (isDrawn: boolean, ...faults: readonly string[]): boolean =>
    (isDrawn && faults.some((fault) => !without.has(fault))) || faults.some((fault) => also.has(fault) && !without.has(fault));
  return {
    ...drawn,
    crashes: has(drawn.crashes, "processes that died"),
    lossy: has(drawn.lossy, "messages lost", "messages repeated", "doorbells lost", "doorbells repeated"),
    badApi: has(drawn.badApi, "calls refused", "calls unanswered"),
    quotaTail: has(drawn.quotaTail, "creates refused at the end"),
    setBack: has(drawn.setBack, "losses"),
    leaders: has(drawn.leaders, "leaders at once"),
  };
}

/** Thrown when a run ends without `done` because its lease or its epoch has expired. */
class Ended extends Error {}

export async function runSchedule(options: ScheduleOptions): Promise<ScheduleResult> {
  return await new Schedule(options).run();
}

class Schedule {
  readonly #options: ScheduleOptions;
  readonly #variant: Variant;
  readonly #random: Random & { readonly draws: number };
  /** Number of user actions, skipped ones included. */
  #actions = 0;
  readonly #scheduler: Scheduler;
  readonly #api: Api;
  readonly #store: Store;
  readonly #ground: Ground;
  readonly #violations = new Map<InvariantId, string>();
  readonly #stats: Record<string, number> = {};
  /** Before the last branch of the variant, and after it. */
  readonly #mixes: { readonly before: Mix; readonly after: Mix };
  readonly #faults: ProtocolFaults | undefined;
  /** Milliseconds by which the clock of the Store's server is ahead. */
  #skewMs = 0;
  /**
   * Sum of the clock's backward jumps in ms. Before the first checkpoint no jump is corrected, and keys wait for that additional time
   * (informer §12.5).
   */
  #backMs = 0;
  #messages: Message[] = [];
  #bells: (Doorbell & { readonly atMs: number })[] = [];
  #terms: Term[] = [];
  #quiet = false;
  #leading = false;
  #tokens = 0;
  #runs = 0;
  #lossMs = Number.NEGATIVE_INFINITY;
  #soundMs = Number.NEGATIVE_INFINITY;
  /**
   * The time of the last loss that no checkpoint can detect, because no checkpoint was written between the restored state and the loss
   * (informer §11.7).
   */
  #unseenLossMs = Number.NEGATIVE_INFINITY;
  #checkpoints = 0;
  readonly #outran = new Set<ObjectKey>();
  /** Whether the Deployment has read an empty list of pods since the last pod was created. */
  #sawEmpty = true;

  constructor(options: ScheduleOptions) {
    this.#options = options;
    this.#variant = options.variant ?? NO_VARIANT;
    this.#random = branched(options.seed, this.#variant.branches);
    this.#scheduler = new Scheduler(
      this.#random,
      START_MS,
      (error) => {
        if (!(error instanceof Ended)) this.#bad("error", error instanceof Error ? (error.stack ?? error.message) : String(error));
      },
      () => this.#count("processes that died"),
    );
    this.#ground = options.ground;
    const { onStep, ground } = options;
    this.#store = onStep ? observed(ground.store, (step) => onStep(step, this.#random.draws)) : ground.store;
    this.#ground.clock.now = () => Math.floor(this.#scheduler.nowMs + this.#skewMs);
    this.#faults = options.faults ? new ProtocolFaults(options.seed) : undefined;
    this.#api = new Api(() => this.#scheduler.nowMs, [1, 90, 9_950][this.#below(3)] ?? 1);
    const chance = (share: number): boolean => this.#random.next() < share;
    const mix = {
      crashes: chance(0.5),
      lossy: chance(0.5),
      badApi: chance(0.6),
      calmPods: chance(0.35),
      quotaTail: chance(0.1),
      setBack: chance(0.15),
      leaders: chance(0.5),
    };
    const { without, also } = this.#variant;
    this.#mixes = { before: mixOf(mix, without, NO_VARIANT.also), after: mixOf(mix, without, also) };
  }

  get #isBranched(): boolean {
    return this.#random.draws >= (this.#variant.branches.at(-1)?.at ?? 0);
  }

  get #mix(): Mix {
    return this.#isBranched ? this.#mixes.after : this.#mixes.before;
  }

  async run(): Promise<ScheduleResult> {
    const api = this.#api;
    api.createDeployment();
    for (const key of REPLICA_SETS) api.createReplicaSet(key, this.#sized(1 + this.#below(2)));
    await this.#store.openEpoch({ ...IDENTITY, epoch: EPOCH, clusterUid: "uid", fence: "1" });
    this.#leadLater();
    await this.#settle();
    for (let step = 0; step < Math.min(STEPS, this.#variant.steps); step++) {
      this.#scheduler.deaths = this.#mix.crashes ? 0.015 : 0;
      this.#scheduler.advance(this.#chance(0.03) ? this.#random.next() * 20_000 : this.#random.next() * 80);
      for (const fault of this.#faults?.step(this.#isBranched ? this.#variant.also : NO_VARIANT.also) ?? []) await this.#inject(fault);
      await this.#act();
      if (this.#chance(0.05)) await this.#claimHolds();
    }
    await this.#comeToRest();
    await this.#ground.clear();
    return { violations: [...this.#violations].map(([rule, what]) => ({ rule, what })), stats: this.#stats };
  }

  async #act(): Promise<void> {
    await this.#beat();
    const roll = this.#random.next();
    if (roll < 0.06) this.#person();
    else if (roll < 0.1) this.#api.touch(this.#pick(this.#api.pods()));
    else if (roll < 0.17) this.#stream();
    else if (roll < 0.3) this.#deliver();
    else if (roll < 0.42) this.#answerBell();
    else if (roll < 0.44) await this.#sweep();
    else if (roll < 0.455 && this.#mix.leaders) this.#leadLater();
    else if (roll < 0.47) this.#list(this.#pick(KINDS), this.#pick(this.#terms));
    else if (roll < 0.48 && this.#mix.setBack) await this.#setBack();
    else await this.#scheduler.step();
  }

  async #inject(fault: ProtocolFault): Promise<void> {
    if (this.#variant.without.has(fault)) return;
    this.#count(fault);
    switch (fault) {
      case "clock jumps": {
        const jumpMs = this.#faults?.jumpMs() ?? 0;
        this.#skewMs += jumpMs;
        this.#backMs += Math.max(0, -jumpMs);
        return;
      }
      case "restores":
        return this.#setBack(true);
      // The new watcher numbers its messages from the start.
      case "messages of an old build":
        return void this.#messages.push(
          ...this.#messages.slice(0, 1).map((message) => ({ ...message, epoch: OLD_EPOCH, sequence: message.sequence + OLD_SEQUENCE })),
        );
      case "doorbells of an old build":
        return void this.#bells.push(...this.#bells.slice(0, 1).map((bell) => ({ ...bell, epoch: OLD_EPOCH })));
    }
  }

  async #settle(): Promise<void> {
    for (let i = 0; i < 400; i++) {
      while (await this.#scheduler.step());
      this.#stream();
      this.#deliver();
      if (this.#messages.length === 0 && this.#scheduler.size === 0) return;
    }
  }

  #person(): void {
    this.#count("user actions");
    const act = this.#drawAction();
    if (!this.#variant.skip.has(this.#actions++)) act?.();
  }

  /** Draws all random numbers of the action, so that a skipped one leaves the rest of the schedule as it is. */
  #drawAction(): (() => void) | undefined {
    const api = this.#api;
    const key = REPLICA_SETS[this.#below(REPLICA_SETS.length)] ?? REPLICA_SETS[0];
    const create = (size: number) => (): void => api.createReplicaSet(key, size);
    if (!api.replicaSet(key)) return create(this.#sized(this.#below(3)));
    const roll = this.#random.next();
    if (roll < 0.5) {
      const size = this.#sized(this.#below(4));
      return () => api.scale(key, size);
    }
    if (roll < 0.58) {
      const orphan = this.#chance(0.6);
      const again = this.#chance(0.5) ? create(this.#sized(this.#below(3))) : undefined;
      return () => {
        api.deleteReplicaSet(key, orphan);
        again?.();
      };
    }
    if (this.#mix.calmPods) return undefined;
    const pod = this.#pick(api.pods());
    if (!pod) return undefined;
    if (roll < 0.85) {
      const graceful = this.#chance(0.3);
      return () => void api.deletePod(podKey(pod), undefined, graceful);
    }
    return () => void (pod.deletionTimestamp === undefined && api.setOwner(podKey(pod), undefined));
  }

  #sized(replicas: number): number {
    return Math.min(replicas, this.#variant.replicas);
  }

  get #term(): Term | undefined {
    return this.#terms.at(-1);
  }

  #leadLater(): void {
    if (this.#leading) return;
    this.#leading = true;
    this.#scheduler.spawn(() => this.#lead().finally(() => (this.#leading = false)));
  }

  async #lead(epoch = EPOCH): Promise<void> {
    const fence = String(this.#api.tick());
    const term: Term = {
      fence,
      epoch,
      read: new Map(),
      sequences: new Map(),
      generations: new Map(),
      listedMs: new Map(),
      beat: 0,
      answered: 0,
      beatMs: this.#scheduler.nowMs,
      heardMs: this.#scheduler.nowMs,
      over: false,
    };
    const read = new Map<Kind, number | undefined>();
    for (const resource of KINDS) {
      const opened = await this.#store.openFence({ epoch, fence, resource, lanes: LANES[resource] });
      if (opened.kind !== "open") return this.#count("leaders that came late");
      const whole = opened.state === "SYNCED" && opened.syncedGeneration > 0 && opened.lanes.every(({ frozen }) => !frozen);
      read.set(resource, whole ? Number(opened.lanes.map(({ watermark }) => watermark).reduce(minResourceVersion)) : undefined);
      if (this.#term) await this.#undying();
    }
    // The previous leader may not know yet that it was replaced, and continues for a while.
    const before = this.#term;
    if (before && (this.#quiet || !this.#chance(0.5))) before.over = true;
    else if (before) this.#count("leaders at once");
    this.#terms = [...this.#terms.filter(({ over }) => !over), term];
    for (const [resource, from] of read) {
      if (from === undefined) this.#list(resource, term);
      else term.read.set(resource, from);
    }
    this.#count("terms");
  }

  /** Sends some of the pending events. */
  #stream(): void {
    const term = this.#quiet ? this.#term : this.#pick(this.#terms);
    if (!term) return;
    for (const kind of KINDS) {
      const from = term.read.get(kind);
      if (typeof from !== "number") continue;
      const left = this.#api.events.filter((event) => event.kind === kind && event.rv > from);
      const events = this.#quiet ? left : left.slice(0, 1 + this.#below(3));
      const rv = events.length === left.length ? this.#api.version : (events.at(-1)?.rv ?? from);
      term.read.set(kind, rv);
      for (let lane = 0; lane < LANES[kind]; lane++) {
        const items = events.filter(({ key }) => laneOf(key, LANES[kind]) === lane);
        for (const pack of packs(items)) {
          this.#send(term, { kind: "D", resource: kind, lane, items: pack });
        }
        if (items.length === 0 && rv > from && (this.#quiet || this.#chance(0.1)))
          this.#send(term, { kind: "W", resource: kind, lane, watermark: String(rv) });
      }
    }
  }

  #send(term: Term, message: DistributiveOmit<Message, "fence" | "epoch" | "generation" | "sequence" | "atMs">): void {
    const { resource, lane } = message;
    const id = `${resource} ${lane}`;
    const sequence = (term.sequences.get(id) ?? 0) + 1;
    term.sequences.set(id, sequence);
    const { fence, epoch } = term;
    const generation = term.generations.get(resource as Kind) ?? 0;
    if (!this.#quiet && this.#mix.lossy && this.#strikes("messages lost", 0.01)) return this.#count("messages lost");
    this.#messages.push({ ...message, fence, epoch, generation, sequence, atMs: this.#scheduler.nowMs });
  }

  #list(resource: Kind | undefined, term: Term | undefined): void {
    if (!term || !resource || term.over || term.read.get(resource) === "listing") return;
    const read = Number(term.read.get(resource) ?? 0);
    term.read.set(resource, "listing");
    term.listedMs.set(resource, this.#scheduler.nowMs);
    // If the watcher dies here, the list ends unfinished, and a new watcher replaces it.
    this.#scheduler.spawn(async () => {
      const opened = await this.#store.openGeneration({ epoch: term.epoch, fence: term.fence, resource });
      if (opened.kind !== "open") return void (term.over = true);
      term.generations.set(resource, opened.generation);
      await this.#undying();
      // A server that lags may return any version that is not below the requested minimum.
      const floor = Math.max(Number(opened.floor), read); // as the watcher asks (informer §10.7 step 2)
      const least = Math.max(floor, Number(term.fence));
      const rv = this.#quiet ? this.#api.version : Math.max(Math.min(floor, this.#api.version), this.#api.version - this.#below(12));
      const version = floor === 0 && !this.#chance(0.3) ? Math.max(rv, Math.min(least, this.#api.version)) : rv;
      const state = this.#api.at(resource, version);
      await this.#undying();
      const listRV = String(version);
      for (let lane = 0; lane < LANES[resource]; lane++) {
        const cached = new Map((await this.#store.readLane(resource, lane)).rows.map(({ key, uid, rv: at }) => [key, `${uid} ${at}`]));
        const here = [...state.values()].filter(({ key }) => laneOf(key, LANES[resource]) === lane);
        // Sometimes the watcher is wrong about the cached objects, and omits a payload (informer T05).
        const omits = !this.#quiet && this.#mix.lossy && this.#chance(0.15);
        const fresh = here.filter(({ key, uid, rv: at }) => cached.get(key) !== `${uid} ${at}`).slice(omits ? 1 : 0);
        if (fresh.length > 0) this.#send(term, { kind: "L", resource, lane, items: fresh, listRV });
        this.#send(term, { kind: "M", resource, lane, rows: here.map(({ key, uid, rv: at }) => ({ key, uid, rv: String(at) })), listRV });
      }
      term.read.set(resource, version);
      this.#count("lists");
    });
  }

  /** Sends checkpoints, a second apart, and acts on their results; sends heartbeats. */
  async #beat(): Promise<void> {
    for (const term of this.#terms) {
      if (term.over || this.#scheduler.nowMs - term.beatMs < TICK_MS) continue;
      // A watcher that is no longer the leader notices that late.
      if (term !== this.#term && !this.#quiet && !this.#chance(0.1)) continue;
      term.beatMs = this.#scheduler.nowMs;
      if (this.#scheduler.nowMs - term.heardMs >= HEARTBEAT_MS) {
        term.heardMs = this.#scheduler.nowMs;
        for (const kind of KINDS)
          for (let lane = 0; lane < LANES[kind]; lane++) this.#send(term, { kind: "W", resource: kind, lane, watermark: "0" });
      }
      await this.#checkpoint(term);
    }
    this.#terms = this.#terms.filter(({ over }) => !over);
    if (this.#terms.length === 0) this.#leadLater(); // one leader at a time, because the previous one may still be sending
  }

  async #checkpoint(term: Term): Promise<void> {
    const { epoch, fence, answered } = term;
    const sent = Object.fromEntries(KINDS.map((kind) => [kind, "0"]));
    const beat = ++term.beat;
    const result = await this.#store.checkpoint({
      epoch,
      fence,
      sent,
      beat,
      answered,
      ...(this.#faults && { nowMs: Math.floor(this.#scheduler.nowMs) }),
    });
    if (this.#soundMs === Number.POSITIVE_INFINITY) this.#soundMs = this.#scheduler.nowMs;
    if (result.kind === "fenced" || result.kind === "noEpoch") return void (term.over = true);
    if (result.kind !== "ok") return this.#raise(term);
    this.#checkpoints++;
    term.answered = beat;
    for (const { resource, holeForMs = 0, state, generation, syncedGeneration, frozenLanes } of result.resources) {
      if (holeForMs > HOLE_RAISE_MS || (state === "SUSPECT" && generation <= syncedGeneration)) return this.#raise(term);
      const kind = resource as Kind; // fences of other resources are not open
      if (frozenLanes.length > 0 && this.#scheduler.nowMs - (term.listedMs.get(kind) ?? 0) > 3_000) this.#list(kind, term);
    }
  }

  #raise(term: Term): void {
    term.over = true;
    this.#leadLater();
  }

  #deliver(): void {
    const due = this.#messages.filter(({ atMs }) => atMs <= this.#scheduler.nowMs);
    for (const message of this.#quiet ? due : [this.#pick(due)]) {
      if (!message) return;
      const at = this.#messages.indexOf(message);
      const overtakes = ({ resource, lane }: Message): boolean => resource === message.resource && lane === message.lane;
      if (this.#messages.slice(0, at).some(overtakes)) this.#count("messages reordered");
      this.#messages.splice(at, 1);
      if (!this.#quiet && this.#mix.lossy && this.#strikes("messages repeated", message.kind === "L" ? 0.4 : 0.15)) {
        this.#messages.push({ ...message, atMs: this.#scheduler.nowMs + this.#random.next() ** 2 * 20_000 });
        this.#count("messages repeated");
      }
      // Unacknowledged messages are redelivered.
      const again = (): void => void this.#messages.push({ ...message, atMs: this.#scheduler.nowMs + 2_000 });
      this.#scheduler.spawn(async () => {
        const dies = !this.#quiet && this.#scheduler.deaths > 0 && this.#chance(0.05);
        if (dies) this.#messages.push({ ...message, atMs: this.#scheduler.nowMs + 5_000 });
        const verdict = await this.#apply(message);
        if (verdict === "again" && !dies) again();
      });
    }
  }

  async #apply(message: Message): Promise<"done" | "again"> {
    const pause = async (): Promise<void> => (this.#quiet ? undefined : await this.#undying());
    const ring = (bells: readonly Doorbell[]): void => this.#ring(bells);
    const clock = { ...this.#ground.clock, now: () => this.#scheduler.nowMs };
    const { kind } = await apply({ store: this.#store, clock, ring, pause }, message);
    this.trace(`${message.kind} of ${message.resource} lane ${message.lane}, sequence ${message.sequence}: ${kind}`);
    return kind === "ack" ? "done" : "again";
  }

  /** Runs without crashes: the redelivery of a message simulates an applier's crash (#deliver). */
  async #undying(): Promise<void> {
    const { deaths } = this.#scheduler;
    this.#scheduler.deaths = 0;
    await this.#scheduler.pause(this.#chance(0.05) ? this.#random.next() * 3_000 : 0);
    // A wait that began before the quiet phase must not carry crashes into it.
    this.#scheduler.deaths = this.#quiet ? 0 : deaths;
  }

  #prepare(resource: PackHeader["resource"], changes: readonly Change[]): ReturnType<typeof prepareChanges> {
    const live = (key: ObjectKey): Promise<Change> => Promise.reject(new Error(`unexpected forged value: ${key}`));
    return prepareChanges(this.#store, CORE_CACHE, resource, changes, { live });
  }

  #ring(bells: readonly Doorbell[]): void {
    for (const bell of bells) {
      if (!this.#quiet && this.#mix.lossy && this.#strikes("doorbells lost", 0.15)) {
        this.#count("doorbells lost");
        continue;
      }
      this.#bells.push({ ...bell, atMs: this.#scheduler.nowMs + bell.delayMs });
      if (!this.#quiet && this.#mix.lossy && this.#strikes("doorbells repeated", 0.15)) {
        this.#count("doorbells repeated");
        this.#bells.push({ ...bell, atMs: this.#scheduler.nowMs });
      }
    }
  }

  #answerBell(): void {
    const due = this.#bells.filter(({ atMs }) => atMs <= this.#scheduler.nowMs);
    for (const bell of this.#quiet ? due : [this.#pick(due)]) {
      if (!bell) return;
      this.#bells.splice(this.#bells.indexOf(bell), 1);
      this.#scheduler.spawn(() => this.#work(bell));
    }
  }

  async #sweep(): Promise<void> {
    this.#ring(await this.#store.sweep(this.#term?.epoch ?? EPOCH));
  }

  async #work({ controller, key, uid, owner, epoch }: Doorbell): Promise<void> {
    if (!isBuiltIn(controller)) throw new TypeError(`no controller ${controller}`);
    const run = { epoch, controller, key, token: `t${++this.#tokens}` };
    let known = { ...(uid !== undefined && { uid }), ...(owner !== undefined && { owner }) };
    for (let i = 0; i < RETRIES_MAX; i++) {
      const taken = await this.#store.take(run, known);
      if (taken.kind === "moved") {
        const { kind: _, ...moved } = taken;
        known = moved;
        continue;
      }
      if (taken.kind === "notYet") return this.#ring([taken.bell]);
      if (taken.kind !== "ok" && taken.kind !== "recover") return this.#count(`takes: ${taken.kind}`);
      this.#count(`takes: ${taken.kind}`);
      this.#runs++;
      const worker = new Worker(this, run, {
        snapshot: taken.snapshot,
        leaseUntilMs: this.#scheduler.nowMs + LEASE_MS,
        takenMs: this.#scheduler.nowMs,
      });
      let outcome: Outcome = { kind: "requeueAfter", delayMs: 0 };
      if (taken.kind === "recover") await worker.recover();
      else if (controller === "deployment") outcome = await this.#lookForPods(taken.snapshot);
      else outcome = await worker.sync();
      this.trace(`${controller} ${key}: ${outcome.kind}`);
      const done = worker.done ?? (await this.#store.done(run, outcome));
      if (done.kind === "done" && done.bell) this.#ring([done.bell]);
      return;
    }
  }

  /** The Recreate Deployment's wait until its last pod is deleted. */
  async #lookForPods({ primary, dependents }: Snapshot): Promise<Outcome> {
    if (!primary) return { kind: "ok" };
    const slices = dependents.map(({ key, uid }) => ({
      resource: "pods" as const,
      owner: primaryAsOwner("replicaset", key, uid),
    }));
    const pods = (await this.#store.readSlices(slices)).flat();
    if (pods.length === 0) this.#sawEmpty = true;
    return { kind: "ok" };
  }

  // The interface of a schedule for its workers.
  get store(): Store {
    return this.#store;
  }
  get api(): Api {
    return this.#api;
  }
  get nowMs(): number {
    return this.#scheduler.nowMs;
  }
  chance(share: number): boolean {
    return this.#chance(share);
  }
  pause(ms?: number): Promise<void> {
    return this.#scheduler.pause(ms);
  }
  prepare(resource: PackHeader["resource"], changes: readonly Change[]): ReturnType<typeof prepareChanges> {
    return this.#prepare(resource, changes);
  }
  ring(bells: readonly Doorbell[]): void {
    this.#ring(bells);
  }
  trace(line: string): void {
    this.#options.trace?.(`${((this.nowMs - START_MS) / 1000).toFixed(3)} ${line}`);
  }

  /** Makes a call that may be lost, rejected, executed late, or answered. */
  async call<T>(
    execute: () => T,
  ): Promise<{ readonly kind: "answered"; readonly answer: T } | { readonly kind: "unanswered" | "refused" }> {
    await this.#scheduler.pause();
    const drawn = this.#quiet || !this.#mix.badApi ? 1 : this.#random.next();
    const kind = drawn < 0.05 ? "calls refused" : "calls unanswered";
    const roll = this.#variant.without.has(kind) ? 1 : drawn;
    if (roll < 0.05) {
      this.#count("calls refused");
      return { kind: "refused" };
    }
    if (roll < 0.17) {
      this.#count("calls unanswered");
      if (roll < 0.1) execute();
      // Executes the call later, within the time on which the Store relies (MAY_LAND_MS, OP_DEADLINE_MS).
      else if (roll < 0.15) this.#scheduler.spawn(async () => void execute(), 1 + this.#random.next() * (REQUEST_MS + MAY_LAND_MS / 2 - 2));
      await this.#scheduler.pause(REQUEST_MS);
      return { kind: "unanswered" };
    }
    const answer = execute();
    await this.#scheduler.pause();
    return { kind: "answered", answer };
  }

  /** Reads a pod from the API server. */
  async lookUp(key: ObjectKey): Promise<CachedPod | undefined> {
    await this.#scheduler.pause();
    return this.#api.pod(key);
  }

  /**
   * Creates a pod for a run that was taken at `takenMs`, and checks the number of pods. Pods adopted since do not count: the product's run
   * would have listed them before its first creates (replicaset §18), which the worker here does not do.
   */
  created(
    rs: CachedReplicaSet,
    name: string,
    { key, takenMs }: { readonly key: ObjectKey; readonly takenMs: number },
  ): CachedPod | "exists" | "refused" {
    if (this.#api.refusesCreates) return "refused";
    const reused = this.#api.names.has(name);
    const pod = this.#api.createPod(name, rs);
    if (pod === "exists") return pod;
    // the Recreate Deployment does not wait for pods of a deleted ReplicaSet
    if (this.#api.replicaSet("shop/a")?.metadata.uid === rs.metadata.uid) this.#sawEmpty = false;
    const own = this.#api.ownedBy(rs.metadata.uid).filter((each) => !this.#api.isAdoptedSince(each, takenMs));
    const highest = Math.max(0, ...this.#api.sizes(rs.metadata.uid));
    if (reused) this.#reused.add(pod.uid);
    if (own.length > highest && this.#mix.calmPods && !own.some(({ uid }) => this.#reused.has(uid)))
      this.#bad("above", `${key} has ${own.length} pods, highest size ${highest}, created ${name}`);
    return pod;
  }
  readonly #reused = new Set<string>();

  /** Checks the number of remaining pods when our delete is executed. */
  deleting(rs: CachedReplicaSet, pod: CachedPod, takenMs: number): void {
    const key = objectKey(rs.metadata.namespace, rs.metadata.name);
    const excuse = this.#excuse(key, takenMs);
    const left = this.#api.ownedBy(rs.metadata.uid).filter(({ uid }) => uid !== pod.uid).length;
    const lowest = Math.min(...this.#api.sizes(rs.metadata.uid));
    // Other controllers also delete pods of a deleted owner, and a run with the owner still in its cache counts them.
    if (this.#api.replicaSet(key)?.metadata.uid !== rs.metadata.uid) return;
    if (pod.deletionTimestamp === undefined && pod.owner?.uid === rs.metadata.uid && left < lowest && this.#mix.calmPods && !excuse)
      this.#bad("below", `${key} is left with ${left} pods, lowest size ${lowest}, deleted ${pod.name}`);
  }

  /** A run that started before a loss was detected may continue across it (simulation/checks.ts has more). */
  #excuse(key: ObjectKey, takenMs: number): boolean {
    if (this.#scheduler.nowMs - this.#unseenLossMs < LOSS_MS) return true;
    const isNear = this.#scheduler.nowMs - this.#lossMs < LOSS_MS;
    if (isNear && takenMs < this.#soundMs) this.#outran.add(key);
    return isNear && this.#outran.has(key);
  }

  /** Restores the Store's state from some steps ago; only its checkpoint and its fence reveal that. */
  async #setBack(onOtherPrimary = false): Promise<void> {
    const checkpoints = this.#checkpoints;
    const restore = await this.#ground.snapshot();
    const back = async (): Promise<void> => {
      await restore();
      if (onOtherPrimary) await this.#ground.failOver();
      this.#lossMs = this.#scheduler.nowMs;
      if (checkpoints === this.#checkpoints) this.#unseenLossMs = this.#lossMs;
      this.#soundMs = Number.POSITIVE_INFINITY;
      this.#outran.clear();
      this.#count("losses");
    };
    this.#scheduler.spawn(back, 200 + this.#random.next() * 4_000);
  }

  /** Checks the guarantee of informer §11.4. */
  async #claimHolds(): Promise<void> {
    for (const kind of KINDS) {
      for (let lane = 0; lane < LANES[kind]; lane++) {
        const watermark = Number(await this.#ground.watermark(kind, lane));
        const rows = new Map((await this.#store.readLane(kind, lane)).rows.map((row) => [row.key, Number(row.rv)]));
        const last = new Map<ObjectKey, Event>();
        for (const event of this.#api.events) {
          if (event.kind === kind && event.rv <= watermark && laneOf(event.key, LANES[kind]) === lane) last.set(event.key, event);
        }
        for (const [key, event] of last) {
          const cached = rows.get(key);
          const deletedSince = this.#api.events.some(
            (each) => each.kind === kind && each.key === key && each.type === "delete" && each.rv > event.rv,
          );
          const holds =
            event.type === "put" ? (cached === undefined ? deletedSince : cached >= event.rv) : cached === undefined || cached > event.rv;
          if (!holds) this.#bad("claim", `${kind} ${key}: ${event.type} at ${event.rv}, W ${watermark}, cached ${cached}`);
        }
      }
    }
  }

  async #comeToRest(): Promise<void> {
    this.#quiet = true;
    this.#scheduler.deaths = 0;
    this.#api.refusesCreates = this.#mix.quotaTail;
    if (this.#mix.quotaTail) this.#count("creates refused at the end");
    const sinceMs = this.#scheduler.nowMs;
    let runsBefore = -1;
    let calm = 0;
    if (this.#mix.quotaTail) {
      for (const key of REPLICA_SETS) this.#api.scale(key, 4);
      const [before, lossesBefore] = [this.#runs, this.#losses];
      // The number of failures is lost when the Store is rolled back.
      const tooMany = (): boolean => this.#runs - before > RUNS_AT_REST_MAX * (1 + this.#losses - lossesBefore);
      while (this.#scheduler.nowMs - sinceMs < 80_000 && !tooMany()) await this.#round();
      if (tooMany()) this.#bad("rest", `${this.#runs - before} runs in 80 s of refusals`);
      this.#api.refusesCreates = false;
      for (const key of REPLICA_SETS) this.#api.scale(key, 1);
    }
    const runsAtFirst = this.#runs;
    const restless = (): boolean => this.#runs - runsAtFirst > RUNS_AT_REST_MAX;
    while (calm < CALM_ROUNDS && this.#scheduler.nowMs - sinceMs < QUIET_MS_MAX + this.#backMs && !restless()) {
      await this.#round();
      calm =
        this.#runs === runsBefore && this.#messages.length === 0 && this.#scheduler.size === 0 && (await this.#isIdle()) ? calm + 1 : 0;
      runsBefore = this.#runs;
    }
    if (restless()) this.#bad("rest", `${this.#runs - runsAtFirst} runs and no rest`);
    await this.#isRight();
  }

  async #round(): Promise<void> {
    for (let i = 0; i < 6; i++) {
      this.#stream();
      this.#deliver();
      this.#answerBell();
      while (await this.#scheduler.step());
      if (!this.#bells.some(({ atMs }) => atMs <= this.#scheduler.nowMs) && this.#messages.length === 0) break;
    }
    const next = Math.min(5_000, ...this.#bells.map(({ atMs }) => Math.max(1, atMs - this.#scheduler.nowMs)));
    this.#scheduler.advance(next);
    await this.#beat();
    if (next === 5_000) await this.#sweep();
    this.#deliver();
    while (await this.#scheduler.step());
  }

  async #isIdle(): Promise<boolean> {
    for (const controller of ["replicaset", "deployment"] as const)
      if ((await this.#store.queued(controller)).length > 0 || !(await this.#store.gate(controller)).open) return false;
    return this.#term !== undefined && KINDS.every((kind) => this.#term?.read.get(kind) === this.#api.version);
  }

  async #isRight(): Promise<void> {
    await this.#claimHolds();
    const api = this.#api;
    for (const controller of ["replicaset", "deployment"] as const) {
      const gate = await this.#store.gate(controller);
      if (!gate.open) this.#bad("open", `the gate of ${controller} is shut: ${gate.reason}`);
      for (const { key } of await this.#store.queued(controller)) this.#bad("open", `${controller} ${key} is due or running`);
    }
    for (const kind of KINDS) {
      const rows = new Map<ObjectKey, string>();
      for (let lane = 0; lane < LANES[kind]; lane++)
        for (const { key, uid, rv, gone } of (await this.#store.readLane(kind, lane)).rows)
          rows.set(key, `${uid} ${rv}${gone ? " gone" : ""}`);
      const now = new Map([...api.at(kind, api.version).values()].map(({ key, uid, rv }) => [key, `${uid} ${rv}`]));
      for (const [key, state] of now)
        if (rows.get(key) !== state) this.#bad("cache", `${kind} ${key} is ${state}, cached ${rows.get(key)}`);
      for (const key of rows.keys()) if (!now.has(key)) this.#bad("cache", `${kind} ${key} is cached and does not exist`);
    }
    for (const key of REPLICA_SETS) {
      const rs = api.replicaSet(key);
      if (!rs) continue;
      const { length } = api.ownedBy(rs.metadata.uid);
      if (length !== rs.spec.replicas) this.#bad("wake", `${key} has ${length} pods, wants ${rs.spec.replicas}`);
      const orphan = api
        .pods()
        .find((pod) => !pod.owner && pod.deletionTimestamp === undefined && pod.labels?.["app"] === rs.metadata.name);
      if (orphan) this.#bad("wake", `${key} did not adopt ${orphan.name}`);
    }
    const a = api.replicaSet("shop/a");
    if (a && !api.pods().some(({ owner }) => owner?.uid === a.metadata.uid) && !this.#sawEmpty)
      this.#bad("wake", "the Deployment has not seen that its last pod is gone");
    await this.#nothingIsPending();
  }

  async #nothingIsPending(): Promise<void> {
    const owners = new Set(
      REPLICA_SETS.flatMap((key) => {
        const rs = this.#api.replicaSet(key);
        return rs ? [primaryAsOwner("replicaset", key, rs.metadata.uid)] : [];
      }),
    );
    for (const [owner, pending] of await this.#ground.intents()) {
      if (!owners.has(owner)) this.#bad("open", `intents of ${owner} are left`);
      if (pending > 0) this.#bad("open", `${owner} has pending ops`);
    }
  }

  #bad(rule: InvariantId, what: string): void {
    this.trace(`!! ${rule} ${what}`);
    if (!this.#violations.has(rule)) this.#violations.set(rule, what);
  }

  get #losses(): number {
    return this.#stats["losses"] ?? 0;
  }

  #count(what: string): void {
    this.trace(what);
    this.#stats[what] = (this.#stats[what] ?? 0) + 1;
    this.#options.onCount?.(what);
  }

  #chance(share: number): boolean {
    return this.#random.next() < share;
  }

  #strikes(fault: string, share: number): boolean {
    return this.#chance(share) && !this.#variant.without.has(fault);
  }

  #below(max: number): number {
    return Math.floor(this.#random.next() * max);
  }

  #pick<T>(all: readonly T[]): T | undefined {
    return all[this.#below(all.length)];
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/** The worker of a ReplicaSet: the protocol of informer §13, with pods that have no phases. */
class Worker {
  readonly #schedule: Schedule;
  readonly #run: Taken;
  readonly #snapshot: Snapshot;
  readonly #takenMs: number;
  #leaseUntilMs: number;
  /** The result of `done`, if the last write-through ended the run. */
  done: DoneResult | undefined;

  constructor(
    schedule: Schedule,
    run: Taken,
    taken: { readonly snapshot: Snapshot; readonly leaseUntilMs: number; readonly takenMs: number },
  ) {
    this.#schedule = schedule;
    this.#run = run;
    this.#snapshot = taken.snapshot;
    this.#leaseUntilMs = taken.leaseUntilMs;
    this.#takenMs = taken.takenMs;
  }

  async recover(): Promise<void> {
    const { primary, intents } = this.#snapshot;
    const uid = primary?.uid ?? "";
    for (const { id, verb, name, uid: podUid } of intents) {
      const key = objectKey("shop", name);
      await this.#schedule.pause();
      const pod = this.#schedule.api.pod(key);
      if (pod) await this.#through("pods", [pod], { uid, lower: verb === "delete" || pod.owner?.uid === uid ? [id] : [id] });
      else if (verb === "create") await this.#through("pods", [], { uid, plan: [{ id, mayLand: false }] });
      if (verb === "delete" && pod?.uid !== podUid)
        await this.#through("pods", [], { uid, lower: [id], gone: [{ key, uid: podUid ?? "" }] });
    }
  }

  async sync(): Promise<Outcome> {
    const { primary, dependents, orphans, intents } = this.#snapshot;
    if (!primary) return { kind: "ok" };
    const rs = primary.object as CachedReplicaSet; // the primary of this controller
    const { name, uid } = rs.metadata;
    const own = dependents.filter(({ gone }) => !gone).map(({ object }) => object as CachedPod); // the dependents of this controller
    let pods = own.filter(({ deletionTimestamp }) => deletionTimestamp === undefined);
    for (const { object, gone } of orphans) {
      const orphan = object as CachedPod; // orphans of the same kind
      if (gone || orphan.labels?.["app"] !== name || orphan.deletionTimestamp !== undefined) continue;
      await this.#mayWrite();
      const adopted = await this.#schedule.call(() => {
        const live = this.#schedule.api.replicaSet(primary.key);
        return live?.metadata.uid === uid && this.#schedule.api.pod(podKey(orphan))?.uid === orphan.uid
          ? this.#schedule.api.setOwner(podKey(orphan), live)
          : undefined;
      });
      if (adopted.kind !== "answered") return { kind: "retry" };
      if (!adopted.answer) continue;
      await this.#through("pods", [adopted.answer], { uid });
      if (adopted.answer.deletionTimestamp === undefined) pods = [...pods, adopted.answer];
    }
    let failed = false;
    if (!intents.some(({ state }) => state === "pending")) {
      const missing = (rs.spec.replicas ?? 1) - pods.length;
      if (missing > 0) failed = await this.#create(rs, missing, new Set(own.map((pod) => pod.name)));
      else failed = await this.#delete(rs, pods.slice(0, -missing));
      const shown = new Set(own.map((pod) => pod.name));
      // Drops unneeded names, except those of pods that may exist without being cached: a later create must reuse them to detect such a
      // pod.
      const unneeded = intents.filter((op) => op.state === "planned" && (op.mayLandUntilMs === undefined || shown.has(op.name)));
      if (missing <= 0 && unneeded.length > 0) await this.#through("pods", [], { uid, lower: unneeded.map(({ id }) => id) });
    }
    const size = pods.length;
    if (!failed && (rs.status?.replicas ?? 0) !== size) {
      await this.#mayWrite();
      const status = await this.#schedule.call(() => this.#schedule.api.status(primary.key, rs.metadata.resourceVersion, size));
      if (status.kind !== "answered" || !status.answer) return { kind: "retry" };
      // Most runs end with this write-through, as a sync without Events does.
      const ends = this.#run.token.endsWith("0") ? {} : { ends: { kind: "ok" } as const };
      await this.#through("replicasets", [status.answer], { uid, ownStatus: true, ...ends });
    }
    return failed ? { kind: "retry" } : { kind: "ok" };
  }

  /** @returns whether a call failed. */
  async #create(rs: CachedReplicaSet, missing: number, shown: ReadonlySet<string>): Promise<boolean> {
    const { uid } = rs.metadata;
    const key = this.#run.key;
    await this.#schedule.pause();
    const live = this.#schedule.api.replicaSet(key);
    if (live?.metadata.uid !== uid || live.metadata.generation !== rs.metadata.generation) throw new Ended();
    const planned = this.#snapshot.intents.filter(({ state, name }) => state === "planned" && !shown.has(name)).slice(0, missing);
    const { names: fresh, nextIndex } = podNames(
      rs.metadata.name,
      { ownerUid: uid, epoch: this.#run.epoch },
      {
        count: missing - planned.length,
        firstIndex: this.#snapshot.drawn ?? 0,
        taken: new Set([...shown, ...planned.map(({ name }) => name)]),
      },
    );
    const ops = [
      ...planned.map(({ name, mayLandUntilMs }) => ({ name, mayLandUntilMs })),
      ...fresh.map(({ name }) => ({ name, mayLandUntilMs: undefined })),
    ].map(({ name, mayLandUntilMs }) => ({
      id: `c:${name}`,
      verb: "create" as const,
      name,
      ...(mayLandUntilMs !== undefined && { mayLandUntilMs }),
    }));
    if ((await this.#schedule.store.registerIntents(this.#run, uid, ops, nextIndex)) === "stolen") throw new Ended();
    let failed = false;
    for (const { id, name, mayLandUntilMs } of ops) {
      await this.#mayWrite();
      const answered = await this.#schedule.call(() => this.#schedule.created(live, name, { key, takenMs: this.#takenMs }));
      const wasRefused = answered.kind === "refused" || (answered.kind === "answered" && answered.answer === "refused");
      // A quota is checked before the name: an earlier create without an answer may have created this pod.
      const existing = wasRefused && mayLandUntilMs !== undefined ? await this.#schedule.lookUp(objectKey("shop", name)) : undefined;
      const created = existing ? ({ kind: "answered", answer: existing } as const) : answered;
      const refused = wasRefused && !existing;
      if (refused || created.kind === "unanswered") failed = true;
      if (created.kind === "unanswered") await this.#through("pods", [], { uid, plan: [{ id, mayLand: true }] });
      else if (refused) {
        // Only a quota's rejection quotes the name, which is then given up.
        const keeps = answered.kind === "refused" || (mayLandUntilMs ?? 0) > this.#schedule.nowMs;
        await this.#through("pods", [], keeps ? { uid, plan: [{ id, mayLand: false }] } : { uid, lower: [id] });
      } else if (created.kind === "answered") {
        const pod = created.answer === "exists" ? this.#schedule.api.pod(objectKey("shop", name)) : created.answer;
        // The pod of that name has another owner: drops the name and tries another one.
        if (pod && pod !== "refused" && pod.owner?.uid !== uid) failed = true;
        await this.#through("pods", pod && pod !== "refused" ? [pod] : [], { uid, lower: [id] });
      }
    }
    return failed;
  }

  async #delete(rs: CachedReplicaSet, victims: readonly CachedPod[]): Promise<boolean> {
    if (victims.length === 0) return false;
    const { uid } = rs.metadata;
    const ops = victims.map((pod) => ({ id: `d:${pod.uid}`, verb: "delete" as const, name: pod.name, uid: pod.uid }));
    if ((await this.#schedule.store.registerIntents(this.#run, uid, ops)) === "stolen") throw new Ended();
    let failed = false;
    for (const pod of victims) {
      await this.#mayWrite();
      const graceful = this.#schedule.chance(0.4);
      const deleted = await this.#schedule.call(() => {
        const live = this.#schedule.api.pod(podKey(pod));
        if (live?.uid === pod.uid) this.#schedule.deleting(rs, live, this.#takenMs);
        return this.#schedule.api.deletePod(podKey(pod), pod.uid, graceful);
      });
      const lower = [`d:${pod.uid}`];
      if (deleted.kind !== "answered") failed = true;
      if (deleted.kind === "refused") await this.#through("pods", [], { uid, lower });
      else if (deleted.kind === "answered")
        await this.#through("pods", deleted.answer ? [deleted.answer] : [], {
          uid,
          lower,
          gone: deleted.answer ? [] : [{ key: podKey(pod), uid: pod.uid }],
        });
    }
    return failed;
  }

  /** A write must not start if it could end after the lease. */
  async #mayWrite(): Promise<void> {
    if (this.#leaseUntilMs - this.#schedule.nowMs < 20_000) {
      const untilMs = await this.#schedule.store.renew(this.#run);
      if (typeof untilMs !== "number") throw new Ended();
      this.#leaseUntilMs = this.#schedule.nowMs + LEASE_MS;
    }
    if (this.#leaseUntilMs - this.#schedule.nowMs < REQUEST_MS + 1_000) throw new Ended();
  }

  async #through(
    resource: WriteThrough["resource"],
    objects: readonly Cached[],
    ops: { readonly uid: string } & Partial<Pick<WriteThrough, "lower" | "plan" | "gone" | "ownStatus" | "ends">>,
  ): Promise<void> {
    const { uid, lower = [], plan = [], gone = [], ownStatus = false, ends } = ops;
    let changes: readonly Change[] = objects.map((object) => changeOf({ type: "put", ...identity(object), object }));
    for (let i = 0; i < RETRIES_MAX; i++) {
      const { items, counts } = await this.#schedule.prepare(resource, changes);
      await this.#schedule.pause();
      const result = await this.#schedule.store.writeThrough(this.#run, {
        resource,
        items,
        counts,
        ownerUid: uid,
        lower,
        plan,
        gone,
        ownStatus,
        ...(ends && { ends }),
      });
      if (result.kind === "otherEpoch") throw new Ended();
      this.#schedule.ring(result.bells);
      if (result.kind === "ok") return void (this.done = result.done);
      changes = changes.slice(result.index);
    }
    throw new Ended();
  }
}

function identity(object: Cached): { readonly key: ObjectKey; readonly uid: string; readonly rv: number } {
  const { namespace, name, resourceVersion } = "metadata" in object ? object.metadata : object;
  return { key: objectKey(namespace, name), uid: uidOf(object), rv: Number(resourceVersion) };
}

function changeOf({ type, key, uid, rv, object, isNew = false }: Omit<Event, "kind">): Change {
  return { type, key, uid, rv: String(rv), object, isNew };
}

/** Groups events in order, so that no key occurs twice in a pack. */
function packs(events: readonly Event[]): readonly (readonly Event[])[] {
  const all: Event[][] = [];
  for (const event of events) {
    const last = all.at(-1);
    if (last && !last.some(({ key }) => key === event.key)) last.push(event);
    else all.push([event]);
  }
  return all;
}
