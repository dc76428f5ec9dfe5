/**
 * The whole system in one process, from one seed, on a virtual clock: an API server, watchers with a real Lease, queues, the Store, the
 * deployed handlers behind event source mappings, nodes and users, with every kind of fault between them. It uses the method of the
 * protocol's model, but with the product's code.
 *
 * A run has three bursts of 30 s with faults and user requests, each followed by 45 s without them. A quiet phase then lasts until no work
 * is outstanding, plus 40 s. One seed of ten is thorough: its quiet phase lasts at least 250 s, its messages are signed, requests and
 * watches carry text, stored objects are frozen, and the Store's counters are checked after each call.
 */
import type { ControllerName } from "../../shared/kube/objects/resources.ts";
import { testSigner } from "../support/signer.ts";
import { createApplyDeltas } from "../../functions/apply-deltas/handler.ts";
import { createDeadDeltas } from "../../functions/dead-deltas/handler.ts";
import { createSyncDeployment } from "../../functions/sync-deployment/handler.ts";
import { createSyncReplicaSet } from "../../functions/sync-replicaset/handler.ts";
import { createSyncReplicationController } from "../../functions/sync-replicationcontroller/handler.ts";
import { createSweep } from "../../functions/sweep/handler.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import type { Clock } from "../../shared/base/clock.ts";
import type { VirtualClock } from "../../shared/base/memory/clock.ts";
import { createMemoryData } from "../../shared/store/memory/store/data.ts";
import type { MemoryData } from "../../shared/store/memory/store/data.ts";
import { createMemoryDeltaQueue } from "../../shared/store/memory/queue/delta-queue.ts";
import type { MemoryDeltaQueue } from "../../shared/store/memory/queue/delta-queue.ts";
import { createMemoryDoorbells } from "../../shared/store/memory/queue/doorbells.ts";
import type { MemoryDoorbells } from "../../shared/store/memory/queue/doorbells.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import type { MemoryStoreOptions } from "../../shared/store/memory/store/store-time.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import { cacheIdentity } from "../../shared/controllers/cache/identity.ts";
import { acquireLease } from "../../shared/controllers/cache/watcher/leader-election.ts";
import { runWatcher } from "../../shared/controllers/cache/watcher/watcher.ts";
import { createLeaseProof } from "../../shared/controllers/kit/lease-proof.ts";
import type { LeaseProof } from "../../shared/controllers/kit/lease-proof.ts";
import { createWriteGateway } from "../../shared/controllers/kit/write-gateway/write-gateway.ts";
import type { GatewayContract } from "../../shared/controllers/kit/write-gateway/write-gateway.ts";
import type { FunctionWiring } from "../../shared/controllers/lambda/wiring.ts";
import type { SqsHandler } from "../../shared/controllers/lambda/sqs-handler.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import { startFunctionHost } from "../../shared/local/function-host.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { UnansweredError } from "../../shared/kube/client/errors.ts";
import type { KubeReader, KubeWatch, KubeWriter } from "../../shared/kube/client/kube.ts";
import type { Log, LogFields } from "../../shared/base/log.ts";
import type { Random } from "../../shared/base/random.ts";
import type { Store, Taken, TakeResult } from "../../shared/store/ports/store.ts";
import { HOLE_RELIST_MS } from "../../shared/base/times.ts";
import { SIGNATURE_CHARACTERS } from "../../shared/store/signer.ts";
import type { Signer } from "../../shared/store/signer.ts";
import type { StoreIdentity } from "../../shared/store/store-options.ts";
import { countsOf, unbalanced, Witness } from "../support/account.ts";
import { Checks } from "./checks.ts";
import type { Violation } from "./checks.ts";
import { DISTURBANCES, drawDisturbances, frequentUpkeep, HostileSender, Rotation, skewed, stopAndResume, Upgrade } from "./disturbances.ts";
import type { Disturbance } from "./disturbances.ts";
import { Fate } from "./fates.ts";
import { FullStore } from "./full-store.ts";
import { drawMix } from "./faults.ts";
import type { Mix } from "./faults.ts";
import { createSimulatedKube } from "./kube.ts";
import { damage, drawLoss, drawsClock, flush, LOSSES, snapshot } from "./losses.ts";
import type { ChosenFault, Loss } from "./losses.ts";
import type { ClusterPart } from "./clusters/part.ts";
import { Mirror } from "./mirror.ts";
import { withoutRules } from "./rules.ts";
import type { Rule } from "./rules.ts";
import { backUp, BACKUP_AGE_MS, startSecondCluster } from "./second-cluster.ts";
import { hasTenant, Tenant } from "./tenant.ts";
import { drawHabits, Users } from "./users.ts";

export interface SimulationOptions {
  readonly seed: number;
  readonly off?: ReadonlySet<Rule>;
  /** Replaces the drawn fault. */
  readonly fault?: ChosenFault;
  /** Epochs begin with one lane per resource, which grow after a few objects. */
  readonly grows?: boolean;
  /** Present when the cluster is one of several in a deployment (clusters/). */
  readonly part?: ClusterPart;
  readonly trace?: (line: string) => void;
}

export interface SimulationResult {
  readonly seed: number;
  readonly mix: string;
  readonly violations: readonly Violation[];
  readonly stats: Readonly<Record<string, number>>;
}

const START_MS = Date.UTC(2026, 2, 1, 10);
const BUSY_MS = 30_000;
const CYCLE_MS = 75_000;
const CYCLES = 3;
const QUIET_AT_MS = (CYCLES - 1) * CYCLE_MS + BUSY_MS;
/** The seeds with this last digit are thorough; `check` always includes seed 4. */
const THOROUGH = 4;
/** Time after a burst until the last suspended process has continued and the last late call was executed. */
const REST_MS = 45_000;
/** Limit of the wait for outstanding work: longer than the sweeper, lists after gaps and lost streams take for it. */
const REST_MS_MAX = 150_000;
const REST_STEP_MS = 1_500;
/** Time in which no write may happen; calls in flight may still end in its first part. */
const QUIET_MS = { thorough: 100_000, other: 40_000 };
const SETTLES_MS = 20_000;
/** Limit of the quiet phase: a key that failed often may be delayed for 1,000 s. */
const END_MS_MAX = 2_400_000;
const CLOCK_JUMP_MS = 300_000;
const ROTATION_MS_MAX = 90_000;
const UPGRADE_MS_MAX = 120_000;
const STALE_SHARE = 0.7;
const BACKUP_AGE_MS_MAX = 20_000;
const RESTORES = 2;
/** User agents whose requests are the user requests of a run. */
const PEOPLE: ReadonlySet<string> = new Set(["kubectl", "tenant"]);
const CLUSTER = "c1";
/** No fault forges or corrupts messages, so most seeds need no MAC. */
const SIGNERS = { thorough: testSigner(CLUSTER), other: constantSigner() };
const LEASE = { namespace: "kube-system", name: "deltaloop-watcher-sim" };

type Kube = KubeReader & KubeWriter & KubeWatch;

const FUNCTIONS = {
  "apply-deltas": createApplyDeltas,
  "dead-deltas": createDeadDeltas,
  "sync-deployment": createSyncDeployment,
  "sync-replicaset": createSyncReplicaSet,
  "sync-replicationcontroller": createSyncReplicationController,
} as const satisfies Readonly<Record<string, (wiring: FunctionWiring) => SqsHandler>>;
type FunctionName = keyof typeof FUNCTIONS;
const FUNCTION_NAMES = Object.keys(FUNCTIONS) as FunctionName[]; // Object.keys loses the type

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const world = new World(options);
  return await world.run();
}

class World {
  readonly #options: SimulationOptions;
  readonly #off: ReadonlySet<Rule>;
  readonly #isThorough: boolean;
  readonly #quietMs: number;
  readonly #disturbances: ReadonlySet<Disturbance>;
  readonly #hostile: HostileSender | undefined;
  readonly #full: FullStore | undefined;
  readonly #upgrade: Upgrade | undefined;
  /** The signer of a new process. */
  readonly #signer: () => Signer;
  readonly #random: Random;
  readonly #part: ClusterPart | undefined;
  #hasSettled = false;
  readonly #cid: string;
  readonly #clock: VirtualClock;
  readonly #startMs: number;
  readonly #mix: Mix;
  readonly #loss: Loss | undefined;
  readonly #clockJumps: boolean;
  /** Milliseconds by which the clock of the Store's server is ahead. */
  #serverAheadMs = 0;
  readonly #server: ApiServer;
  readonly #data: MemoryData;
  readonly #witness = new Witness();
  readonly #queue: MemoryDeltaQueue;
  readonly #doorbells: Pick<MemoryDoorbells, "ring" | "sources">;
  readonly #digester = createDigester("simulation");
  readonly #mirror: Mirror;
  readonly #checks: Checks;
  readonly #users: Users;
  readonly #tenant: Tenant | undefined;
  readonly #violations: Violation[] = [];
  readonly #stats: Record<string, number> = {};
  readonly #ends = new AbortController();
  readonly #proofs = new Map<string, LeaseProof>();
  readonly #functionSigners = new Map<string, Signer>();
  /** By the source of the calls' faults. */
  readonly #stores = new Map<Random, Store>();
  readonly #skews: Random;
  readonly #lags: Random;
  #watchers = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#off = options.off ?? new Set();
    this.#part = options.part;
    this.#cid = options.part?.cid ?? CLUSTER;
    this.#data = options.part?.data ?? createMemoryData();
    this.#isThorough = options.seed % 10 === THOROUGH;
    this.#clock = options.part?.clock ?? createVirtualClock(START_MS, { withoutIo: !this.#isThorough });
    this.#startMs = this.#clock.now();
    this.#quietMs = this.#isThorough ? QUIET_MS.thorough : QUIET_MS.other;
    this.#random = createSeededRandom(options.seed * 7919 + 13);
    const mix = drawMix(this.#fork());
    this.#mix = options.part ? { ...mix, fifo: options.part.fifo } : mix;
    const { seed } = options;
    const fault = options.part ? (options.part.loss ?? "none") : options.fault;
    this.#loss = fault === undefined ? drawLoss(createSeededRandom(seed * 15_487_469 + 7)) : LOSSES.find((loss) => loss === fault);
    this.#clockJumps = fault === undefined ? drawsClock(createSeededRandom(seed * 32_452_843 + 5)) : fault === "clock";
    this.#disturbances =
      fault === undefined ? drawDisturbances(seed) : new Set(DISTURBANCES.filter((disturbance) => disturbance === fault));
    this.#signer = this.#signers(options.part?.signer);
    if (this.#disturbances.has("full"))
      this.#full = new FullStore({
        ...{ data: this.#data, clock: this.#serverClock(), forgetsPuts: this.#off.has("full") },
        onFault: (what) => this.#fault(what),
      });
    if (this.#disturbances.has("builds")) {
      const random = createSeededRandom(seed * 160_481_183 + 12);
      const startMs = this.#startMs + random.next() * UPGRADE_MS_MAX;
      this.#upgrade = new Upgrade({ clock: this.#clock, random, startMs, identity: cacheIdentity(this.#digester) });
    }
    this.#lags = createSeededRandom(seed * 217_645_199 + 20);
    this.#skews = createSeededRandom(seed * 198_491_317 + 6);
    const habits = drawHabits(this.#fork());
    const uids = this.#fork();
    this.#server = createApiServer({
      clock: this.#clock,
      random: options.part?.uids ?? uids,
      freezes: this.#isThorough,
      firstRevision: this.#fork().next() < 0.2 ? 9_007_199_254_740_000n : 1n,
    });
    const queueFaults = (given: object) => () => ({ ...(this.#faulty() ? given : {}), ...(this.#mix.fifo ? {} : { reorder: 0.7 }) });
    const queue = createMemoryDeltaQueue({
      clock: this.#clock,
      random: this.#fork(),
      faults: queueFaults(this.#mix.deltas),
      onFault: (what) => this.#fault(`delta queue: ${what}`),
    });
    this.#queue = options.part?.queue ?? queue;
    if (this.#disturbances.has("hostile"))
      this.#hostile = new HostileSender(this.#queue, this.#cid, createSeededRandom(seed * 179_424_673 + 4));
    const doorbells = createMemoryDoorbells({
      clock: this.#clock,
      random: this.#fork(),
      cluster: CLUSTER,
      leavesLate: true,
      faults: () => (this.#faulty() ? this.#mix.doorbells : {}),
      onFault: (what) => this.#fault(`doorbells: ${what}`),
    });
    this.#doorbells = options.part?.doorbells ?? doorbells;
    this.#mirror = new Mirror(this.#clock, (change) => {
      const { metadata } = change.object;
      const state = metadata.deletionTimestamp === undefined ? "" : " terminating";
      this.#trace(
        "api",
        () => `${change.type} ${change.resource} ${metadata.name} uid ${metadata.uid.slice(0, 8)} rv ${metadata.resourceVersion}${state}`,
      );
      this.#checks.changed(change);
    });
    this.#checks = new Checks({
      clock: this.#clock,
      mirror: this.#mirror,
      data: this.#data,
      habits,
      onViolation: (violation) => {
        this.#trace("!!", () => `${violation.rule} ${violation.what}`);
        this.#violations.push({ ...violation, atMs: violation.atMs - this.#startMs });
      },
    });
    this.#users = new Users(this.#server, this.#fork(), this.#mirror, habits);
    const tenant = createSeededRandom(options.seed * 104_729 + 22); // the seeds of FAILED_ONCE have no tenant
    this.#tenant = hasTenant(tenant) ? new Tenant(this.#server, tenant, this.#mirror) : undefined;
  }

  #signers(given: Signer | undefined): () => Signer {
    if (this.#disturbances.has("keys")) {
      const random = createSeededRandom(this.#options.seed * 141_650_939 + 2);
      const rotation = new Rotation(this.#cid, {
        ...{ clock: this.#clock, random, startMs: this.#startMs + random.next() * ROTATION_MS_MAX },
        onUnknown: () => this.#fault("texts signed with an unknown key"),
      });
      return () => rotation.signer();
    }
    const signer = given ?? (this.#isThorough || this.#disturbances.has("hostile") ? SIGNERS.thorough : SIGNERS.other);
    const believing = this.#off.has("signature") ? { ...signer, verify: () => "current" as const } : signer;
    return () => believing;
  }

  async run(): Promise<SimulationResult> {
    const clock = this.#clock;
    await this.#mirror.start(this.#server);
    this.#part?.start({
      ...{ server: this.#server, mirror: this.#mirror, lease: LEASE },
      lost: (loss) => this.#checks.lost(loss),
      restored: async () => (this.#hasSettled ? await this.#users.settle() : undefined),
    });
    this.#server.onRequest((record) => {
      this.#step();
      this.#part?.requested(record);
      if (PEOPLE.has(record.userAgent)) this.#count("operations", 1);
      if (record.verb !== "get" && record.verb !== "list" && record.verb !== "watch")
        this.#trace(
          "request",
          () => `${record.userAgent} ${record.verb} ${record.resource}/${record.subresource} ${record.name} -> ${record.status}`,
        );
      this.#mirror.update();
      this.#checks.request(record);
    });
    await this.#users.setUp();
    await this.#tenant?.setUp();
    this.#mirror.update();
    this.#checks.rememberDecoys();
    this.#startNodes();
    this.#startFunctions();
    this.#startWatchers();
    this.#startPeople();
    this.#startLosses();
    this.#startClockJumps();
    this.#startBackups();
    this.#startDisturbances();
    const stopClone = this.#startClone();
    for (let cycle = 1; cycle < CYCLES; cycle++) {
      await this.#pass(this.#startMs + cycle * CYCLE_MS - 1 - clock.now());
      this.#lookBetween();
    }
    await this.#pass(this.#startMs + QUIET_AT_MS - clock.now());
    stopClone();
    this.#hasSettled = true;
    await this.#users.settle();
    await this.#rest();
    await this.#pass(this.#quietMs);
    while (clock.now() - this.#startMs < END_MS_MAX && this.#busy()) await this.#pass(this.#quietMs);
    this.#mirror.update();
    this.#checks.end(this.#quietMs - SETTLES_MS);
    await this.#queueIsEmpty();
    this.#accountAtTheEnd();
    this.#ends.abort(new Error("the run is over"));
    this.#server.close();
    this.#count("virtual seconds", Math.round((clock.now() - this.#startMs) / 1000));
    return {
      seed: this.#options.seed,
      mix: `${this.#mix.name} ${this.#mix.fifo ? "fifo" : "standard"}${this.#tenant ? " tenant" : ""}${this.#loss === undefined ? "" : ` ${this.#loss}`}${this.#clockJumps ? " clock" : ""}${[...this.#disturbances].map((each) => ` ${each}`).join("")}`,
      violations: this.#violations,
      stats: this.#stats,
    };
  }

  /** Lets time pass. A cluster of several waits until the deployment advances their clock. */
  async #pass(ms: number): Promise<void> {
    await (this.#part ? this.#clock.after(ms) : this.#clock.advance(ms));
  }

  /** Waits until nothing is outstanding. The final checks report whatever still is. */
  async #rest(): Promise<void> {
    await this.#pass(this.#isThorough ? REST_MS_MAX : REST_MS);
    const untilMs = this.#startMs + QUIET_AT_MS + REST_MS_MAX;
    while (this.#clock.now() < untilMs && (this.#queue.size() > 0 || !this.#isAtRest())) await this.#pass(REST_STEP_MS);
  }

  #isAtRest(): boolean {
    this.#mirror.update();
    return this.#checks.isAtRest();
  }

  /** Returns whether work is due after the start of the quiet phase: long back-offs. */
  #busy(): boolean {
    const due = CONTROLLERS.some(
      (controller) => (this.#data.epoch?.queues[controller].ready.size ?? 0) + (this.#data.epoch?.queues[controller].runs.size ?? 0) > 0,
    );
    return due || this.#clock.now() - Math.max(this.#checks.lastWriteMs, this.#checks.lastSyncMs) < this.#quietMs - SETTLES_MS;
  }

  /**
   * Checks the state between bursts. If no key is dirty and the cache equals the API server, but the desired state is not reached, a
   * wake-up was lost, even if a later sync would hide that.
   */
  #lookBetween(): void {
    this.#mirror.update();
    if (this.#busyNow()) return;
    this.#count("looks between", 1);
    const resting = this.#mirror
      .all("deployments")
      .every(({ spec }) => spec?.paused !== true && spec?.template.spec?.containers[0]?.image !== "web:bad");
    if (resting) this.#checks.desired("SE2between");
  }

  #busyNow(): boolean {
    const { epoch } = this.#data;
    if (!epoch) return true;
    if (CONTROLLERS.some((controller) => epoch.queues[controller].ready.size + epoch.queues[controller].runs.size > 0)) return true;
    if (this.#mirror.all("pods").some(({ metadata, status }) => metadata.deletionTimestamp !== undefined || status?.phase === "Pending"))
      return true;
    return (["deployments", "replicasets", "replicationcontrollers", "pods"] as const).some((resource) => {
      const rows = new Map(epoch.resources.get(resource)?.lanes.flatMap((lane) => [...lane.rows]) ?? []);
      const objects = this.#mirror.all(resource);
      return (
        rows.size !== objects.length ||
        objects.some(({ metadata }) => rows.get(`${metadata.namespace}/${metadata.name}`)?.rv !== metadata.resourceVersion)
      );
    });
  }

  /**
   * Waits until the delta queue is empty. Heartbeats come and go, but a message that stays for a minute never leaves. Doorbells may wait,
   * for example those of progress deadlines.
   */
  async #queueIsEmpty(): Promise<void> {
    for (let waitedMs = 0; this.#queue.size() > 0 && waitedMs < 60_000; waitedMs += 500) await this.#pass(500);
    if (this.#queue.size() > 0) this.#checks.bad("SE1queue", `${this.#queue.size()} deltas are left`);
    if (this.#queue.deadLetters().length > 0) this.#checks.bad("SE1queue", `${this.#queue.deadLetters().length} dead letters`);
  }

  #startNodes(): void {
    const kube = createInProcessKube(this.#server, { component: "nodes", passesObjects: !this.#isThorough });
    void runScriptedNodes(
      kube,
      { count: 3, clock: this.#clock, random: this.#fork(), bindPods: true, readyAfterMs: [200, 2_000], deleteAfterMs: [150, 1_500] },
      this.#ends.signal,
    );
  }

  #startPeople(): void {
    const random = this.#fork();
    const roll = random.next();
    // Usually about one request per second; sometimes a storm.
    const paceMs = roll < 0.15 ? 80 : 300 + roll * 2_500;
    this.#repeat(
      () => random.next() * 2 * paceMs,
      () => this.#users.act(),
    );
    this.#repeat(
      () => 300 + random.next() * 1_500,
      () => this.#users.deleteFresh(),
    );
    if (!this.#tenant) return;
    const [tenant, itsRandom] = [this.#tenant, createSeededRandom(this.#options.seed * 15_485_863 + 3)];
    this.#repeat(
      () => 100 + itsRandom.next() * 1_400,
      () => {
        this.#count("acts of a tenant", 1);
        return tenant.act();
      },
    );
  }

  #startLosses(): void {
    const loss = this.#loss;
    if (loss === undefined) return;
    const random = createSeededRandom((this.#part?.lossSeed ?? this.#options.seed) * 15_487_469 + 8);
    this.#repeat(
      () => 8_000 + random.next() * 40_000,
      async () => {
        const backMs = random.next() < 0.5 ? random.next() * 500 : random.next() * 10_000;
        const { record } = this.#data.epoch ?? {};
        const restore = snapshot(this.#data);
        if (loss === "restore" || loss === "rewind") await this.#clock.after(backMs);
        // No deleted object exists that the clone could recreate.
        if (record === undefined) return;
        if (loss === "flush") flush(this.#data);
        else if (loss === "damage") damage(this.#data, random);
        else restore();
        if (loss === "restore") this.#data.primary = `primary-${this.#clock.now()}`;
        this.#fault(`losses: ${loss}`);
        this.#trace("fault", () => `the Store is hit: ${loss} ${Math.round(backMs)}`);
        this.#checks.lost(loss);
      },
    );
  }

  #startClockJumps(): void {
    if (!this.#clockJumps) return;
    const random = createSeededRandom(this.#options.seed * 32_452_843 + 6);
    this.#repeat(
      () => 3_000 + random.next() * 17_000,
      async () => {
        const jumpMs = random.next() < 0.5 ? CLOCK_JUMP_MS : -CLOCK_JUMP_MS;
        this.#serverAheadMs += jumpMs;
        this.#fault("jumps of the Store's clock");
        this.#trace("fault", () => `the Store's clock jumps by ${jumpMs} ms`);
      },
    );
  }

  #startDisturbances(): void {
    const random = createSeededRandom(this.#options.seed * 122_949_823 + 14);
    if (this.#disturbances.has("stops")) {
      const onStop = (sinceMs: number | undefined): void => {
        this.#trace("fault", () => (sinceMs === undefined ? "resumed" : "stopped"));
        this.#checks.stopped(sinceMs);
      };
      const store = createMemoryStore(this.#storeOptions("guard"), this.#data);
      this.#repeat(
        () => 5_000 + random.next() * 20_000,
        () => {
          this.#fault("stops");
          return stopAndResume({ store, clock: this.#clock, random, onStop });
        },
      );
    }
    const full = this.#full;
    if (full) {
      this.#repeat(
        () => 3_000 + random.next() * 20_000,
        async () => {
          full.isFull = true;
          this.#fault("full Store");
          this.#trace("fault", () => "the Store is full");
          await this.#clock.after(random.next() < 0.5 ? random.next() * 5_000 : random.next() * 40_000);
          full.isFull = false;
          this.#trace("fault", () => "the Store has room");
        },
      );
    }
    if (this.#disturbances.has("big")) {
      this.#repeat(
        () => 2_000 + random.next() * 10_000,
        () => {
          this.#fault("objects that grew");
          return this.#users.grow();
        },
      );
    }
    const hostile = this.#hostile;
    if (hostile) {
      this.#repeat(
        () => 100 + random.next() * 1_400,
        async () => {
          const what = await hostile.act();
          if (what === undefined) return;
          this.#fault(`hostile messages: ${what}`);
          this.#trace("fault", () => `a hostile message: ${what}`);
        },
      );
    }
  }

  /** Restores etcd from backups that are up to BACKUP_AGE_MS_MAX old; twice, because four epochs in ten minutes stop creates and deletes. */
  #startBackups(): void {
    if (this.#options.fault !== "etcd") return;
    const random = createSeededRandom(this.#options.seed * 67_867_967 + 11);
    let left = RESTORES;
    this.#repeat(
      () => 5_000 + random.next() * 25_000,
      async () => {
        if (left-- <= 0) return;
        const restore = this.#server.backup();
        await this.#clock.after(random.next() * BACKUP_AGE_MS_MAX);
        this.#mirror.update();
        this.#trace("fault", () => "etcd is restored");
        restore();
        this.#fault("restores of etcd");
        this.#checks.lost("restore");
        await this.#mirror.restart(this.#server);
        if (this.#hasSettled) await this.#users.settle();
      },
    );
  }

  /** The clone runs from the first burst to the last. @returns a function that stops it */
  #startClone(): () => void {
    const stops = new AbortController();
    if (this.#options.fault !== "clone") return () => undefined;
    const random = createSeededRandom(this.#options.seed * 49_979_687 + 9);
    const run = async (): Promise<void> => {
      await this.#clock.after(6_000 + random.next() * 10_000);
      const backup = await backUp(this.#server);
      await this.#clock.after(BACKUP_AGE_MS);
      const system = startSecondCluster(backup, {
        ports: {
          ...{ clock: this.#clock, random, digester: this.#digester, signer: this.#signer(), log: this.#log("clone") },
          ...{ store: this.#store(random, "clone"), queue: this.#queue, doorbells: this.#doorbells },
          sources: { deltas: this.#queue, doorbells: this.#doorbells.sources },
        },
        options: { cluster: this.#cid, clusterUid: "cluster-uid", lease: LEASE, holeRelistMs: this.#mix.fifo ? HOLE_RELIST_MS : 150_000 },
        seed: this.#options.seed,
        onWrite: (what, lease) => this.#clonedWrite(what, JSON.stringify(lease)),
      });
      this.#count("second clusters", 1);
      stops.signal.addEventListener("abort", () => void system.stop(), { once: true });
    };
    run().catch((error: unknown) => this.#checks.bad("simulation", String(error)));
    return () => stops.abort();
  }

  /** SC11: the clone's functions write only while the Store holds a term of the clone's own Lease. */
  #clonedWrite(what: string, lease: string): void {
    this.#count("writes of a second cluster", 1);
    const term = this.#data.epoch?.token?.term;
    if (term !== undefined && !lease.includes(term)) this.#checks.bad("SC11", `the clone's ${what}: its Lease does not list ${term}`);
  }

  /** Repeats `act` while faults are active. */
  #repeat(everyMs: () => number, act: () => Promise<void>): void {
    const go = async (): Promise<void> => {
      while (!this.#ends.signal.aborted) {
        await this.#clock.after(everyMs(), this.#ends.signal);
        this.#mirror.update();
        if (this.#busyTime()) await act();
      }
    };
    go().catch((error: unknown) => {
      if (!this.#ends.signal.aborted) this.#checks.bad("simulation", String(error));
    });
  }

  #startFunctions(): void {
    const handler = (name: FunctionName): SqsHandler => {
      const random = this.#fork();
      const at = FUNCTION_NAMES.indexOf(name);
      return async (event, context) => {
        const fate = this.#fate(random, () => this.#mix, context.functionName);
        const died = new Promise<never>((_, reject) =>
          fate.died.addEventListener("abort", () => reject(new Error("the process died")), { once: true }),
        );
        // Draws one number for each function before this one, as if a process created all functions, so that older seeds still produce the
        // same runs.
        for (let i = 0; i < at; i++) random.next();
        const wiring = this.#wiring(name, fate, random);
        for (let i = at + 1; i < FUNCTION_NAMES.length; i++) random.next();
        return await Promise.race([FUNCTIONS[name](wiring)(event, context), died]);
      };
    };
    const handlers = {
      applyDeltas: handler("apply-deltas"),
      // In-memory queues have no dead-letter queue; the checks look for dead messages themselves.
      deadDeltas: () => Promise.reject(new Error("unexpected call")),
      sync: {
        deployment: handler("sync-deployment"),
        replicaset: handler("sync-replicaset"),
        replicationcontroller: handler("sync-replicationcontroller"),
      },
    };
    const sources = { deltas: this.#queue, doorbells: this.#doorbells.sources };
    if (this.#part) this.#part.serve(handlers);
    else startFunctionHost({ sources, handlers, clock: this.#clock, log: this.#log("host") });
    const sweep = createSweep(this.#wiring("sweep", new Fate({ clock: this.#clock, draw: () => "live" }), this.#fork()));
    void (async () => {
      while (!this.#ends.signal.aborted) {
        await this.#clock.after(60_000);
        await sweep().catch(() => undefined); // the next sweep tries again
      }
    })();
  }

  /** The lease proof of a process, which is kept across its invocations. */
  #proof(name: string): LeaseProof {
    let proof = this.#proofs.get(name);
    if (!proof) {
      const reader = createInProcessKube(this.#server, { component: `deltaloop-${name}` });
      const store = this.#store(createSeededRandom(this.#options.seed), name);
      proof = createLeaseProof({ reader, store, clock: this.#clock, log: this.#log(name) }, LEASE);
      this.#proofs.set(name, proof);
    }
    return proof;
  }

  /** The signer of a function, which is kept across its processes. */
  #signerOf(name: string): Signer {
    const signer = this.#functionSigners.get(name) ?? this.#signer();
    this.#functionSigners.set(name, signer);
    return signer;
  }

  #wiring(name: string, fate: Fate, random: Random): FunctionWiring {
    const kube = fate.over(this.#kube(`deltaloop-${name}`, random));
    const cluster = {
      signer: this.#signerOf(name),
      store: fate.over(this.#store(random, name)),
      doorbells: fate.over(this.#doorbells),
      reader: this.#off.has("livePods") && name === "sync-deployment" ? blindToPods(kube) : kube,
      proof: this.#proof(name),
      gateway: (controller: ControllerName, contract: GatewayContract | undefined) => createWriteGateway(kube, controller, "act", contract),
    };
    const source =
      name === "apply-deltas" ? this.#queue : name.startsWith("sync-") ? this.#doorbells.sources[controllerNamed(name)] : undefined;
    return {
      clock: fate.clock(),
      random,
      log: this.#log(name),
      digester: this.#digester,
      cluster: (cid) => (cid === this.#cid ? cluster : undefined),
      clusters: [this.#cid],
      ...(source && { source }),
      trace: (line) => {
        if (line.kind === "started") {
          // A resync starts syncs without need, about every 100 s.
          if (!this.#disturbances.has("upkeep")) this.#checks.lastSyncMs = this.#clock.now();
          this.#count("syncs", 1);
        }
        this.#trace("sync", () => `${line.controller} ${line.key} ${JSON.stringify({ ...line, controller: undefined, key: undefined })}`);
      },
    };
  }

  /** Starts two watchers, one of which leads. A watcher that dies is replaced by one with another identity. */
  #startWatchers(): void {
    for (let i = 0; i < 2; i++) void this.#keepWatcher(`watcher ${i}`, this.#fork());
  }

  /** `slot`: the process that replaces a dead one has the same. */
  async #keepWatcher(slot: string, random: Random): Promise<void> {
    const queue = this.#hostile?.watched ?? this.#queue;
    while (!this.#ends.signal.aborted) {
      const identity = `watcher-${++this.#watchers}`;
      const fate = this.#fate(random, () => ({ crash: this.#mix.watcherCrash, freeze: this.#mix.watcherCrash / 2 }), identity);
      const kube = fate.over(this.#kube("deltaloop-watcher", random));
      const isSkewed = this.#disturbances.has("skew");
      const clock = isSkewed ? skewed(fate.clock(), this.#skews) : fate.clock();
      if (isSkewed) this.#fault("watchers with a wrong clock");
      const log = this.#auditLog(this.#log(identity));
      const terms = createSeededRandom(this.#options.seed * 6_700_417 + this.#watchers);
      const leasePorts = { reader: kube, writer: kube, clock, random: terms, log };
      const ports = {
        kube,
        store: fate.over(this.#store(random, slot)),
        queue: fate.over({
          send: (entries: Parameters<MemoryDeltaQueue["send"]>[0]) => queue.send(this.#mix.fifo ? entries : entries.map(ungrouped)),
        }),
        doorbells: fate.over(this.#doorbells),
        clock,
        random,
        digester: this.#digester,
        log: this.#growthLog(log),
        signer: this.#signer(),
        lead: (signal: AbortSignal) => acquireLease(leasePorts, { ...LEASE, identity }, signal),
      };
      const options = {
        cluster: this.#cid,
        clusterUid: "cluster-uid",
        identity: { ...this.#identity(slot) },
        holeRelistMs: this.#mix.fifo ? HOLE_RELIST_MS : 150_000,
        ...(this.#disturbances.has("upkeep") && { upkeep: frequentUpkeep(kube) }),
        ...(this.#options.grows === true && { lanes: { smallMax: 1_000, rowsMax: 1 + (this.#options.seed % 8), unappliedMax: 20 } }),
      };
      const died = new Promise<void>((resolve) => fate.died.addEventListener("abort", () => resolve(), { once: true }));
      const running = runWatcher(ports, options, this.#untilReplaced(slot)).catch((error: unknown) =>
        this.#trace("watcher", () => `${identity} ended: ${String(error)}`),
      );
      await Promise.race([running, died]);
      this.#part?.processes.delete(fate);
      await this.#clock.after(500 + random.next() * 10_000);
    }
  }

  /** Aborts at the end of the run, and when another build replaces the process in an orderly way. */
  #untilReplaced(slot: string): AbortSignal {
    const inMs = (this.#upgrade?.replacedMs(slot) ?? Number.NEGATIVE_INFINITY) - this.#clock.now();
    if (inMs <= 0) return this.#ends.signal;
    const replaced = new AbortController();
    void this.#clock.after(inMs).then(() => {
      this.#fault("watchers of another build");
      replaced.abort(new Error("another build replaces it"));
    });
    return AbortSignal.any([this.#ends.signal, replaced.signal]);
  }

  /** Switches the comparison of projections off: always that of the epoch. */
  #anyIdentity(): StoreIdentity {
    const [own, data] = [cacheIdentity(this.#digester), this.#data];
    return {
      ...own,
      get projection() {
        return data.epoch?.record.projection ?? own.projection;
      },
    };
  }

  #identity(process: string): StoreIdentity {
    return this.#upgrade?.identity(process) ?? cacheIdentity(this.#digester);
  }

  /** SC13: an audit finds no difference between the API server and a cache that has lost nothing. */
  #auditLog(log: Log): Log {
    if (!this.#disturbances.has("upkeep")) return log;
    const info = (message: string, fields?: LogFields): void => {
      if (message === "audit" || message === "resync") this.#count(`${message}s`, 1);
      log.info(message, fields);
    };
    const error = (message: string, fields?: LogFields): void => {
      if (message.includes("the cache differs") && this.#loss === undefined) this.#checks.bad("SC13", JSON.stringify(fields));
      log.error(message, fields);
    };
    return { ...log, info, error };
  }

  #growthLog(log: Log): Log {
    const info = (message: string, fields?: LogFields): void => {
      if (message.includes("the lanes grow")) this.#count("growths of lanes", 1);
      log.info(message, fields);
    };
    return { ...log, info };
  }

  #kube(component: string, random: Random): Kube {
    const kube = createSimulatedKube({
      server: this.#server,
      clock: this.#clock,
      random,
      component,
      faults: () => (this.#faulty() ? this.#mix : { api: 0, watch: 0 }),
      observer: {
        late: this.#checks.late,
        executing: this.#checks.executing,
        denied: this.#checks.denied,
        fault: (what) => this.#fault(what),
      },
      dropPreconditions: this.#off.has("deletePrecondition"),
      passesObjects: !this.#isThorough,
      ...(this.#disturbances.has("stale") && { lags: () => this.#lags.next() < STALE_SHARE }),
      ...(this.#part && { outages: this.#part.outages }),
    });
    return this.#part?.overKube(component, kube) ?? kube;
  }

  /** The Store as one process sees it: a call or its response may be lost. */
  #store(random: Random, process: string): Store {
    let store = this.#stores.get(random);
    if (!store) {
      store = this.#unreliableStore(random, process);
      this.#stores.set(random, store);
    }
    return store;
  }

  #serverClock(): Clock {
    return { ...this.#clock, now: () => this.#clock.now() + this.#serverAheadMs };
  }

  #storeOptions(process: string): MemoryStoreOptions {
    return {
      deployment: "sim",
      cluster: this.#cid,
      identity: this.#off.has("identity") ? this.#anyIdentity() : this.#identity(process),
      holeLimitMs: this.#mix.fifo ? 2_000 : 15_000,
      ignoresStop: this.#off.has("stop"),
      clock: this.#serverClock(),
    };
  }

  #unreliableStore(random: Random, process: string): Store {
    const complete = withoutRules(createMemoryStore(this.#storeOptions(process), this.#data), this.#data, this.#off);
    const store = this.#full?.over(complete) ?? complete;
    const touched = this.#part?.touched;
    const clock = this.#clock;
    const identity = this.#identity(process);
    // All members of a Store are methods that return a promise.
    const verbs = Object.entries(store) as [string, (...parameters: readonly unknown[]) => Promise<unknown>][];
    const wrapped = verbs.map(([name, verb]) => [
      name,
      async (...parameters: readonly unknown[]): Promise<unknown> => {
        this.#step();
        touched?.(name);
        const fails = this.#faulty() && this.#mix.store > 0 && random.next() < this.#mix.store;
        const before = fails && random.next() < 0.5;
        if (fails) this.#fault(before ? "Store: not reached" : "Store: answer lost");
        const [share, msMax] = this.#mix.slow ? [0.3, 600] : [0.05, 60];
        await clock.after(random.next() < share ? random.next() * msMax : random.next() * 3);
        if (before) throw new UnansweredError("simulated: the call to the Store was lost");
        const askedMs = clock.now();
        const isOther = this.#upgrade !== undefined && this.#data.epoch?.record.projection !== identity.projection;
        const answer = await Reflect.apply(verb, store, parameters);
        if (isOther) this.#usedByOther(process, name, answer);
        this.#heard(name, parameters, answer, askedMs);
        if (this.#isThorough) this.#accounted(name, parameters, answer);
        if (fails) throw new UnansweredError("simulated: the Store's response was lost");
        await clock.after(random.next() * 2);
        return answer;
      },
    ]);
    return Object.fromEntries(wrapped) as Store; // the same methods
  }

  /** SC10: after every call, the Store's counters add up. */
  #accounted(verb: string, parameters: readonly unknown[], answer: unknown): void {
    this.#witness.heard(verb, parameters, answer);
    for (const what of unbalanced(this.#data.tallies.values())) this.#checks.bad("SC10", `${verb}: ${what}`);
  }

  /** At the end of a run without losses, compares the Store's counters with those of an observer of each call and its result. */
  #accountAtTheEnd(): void {
    if (this.#loss !== undefined || !this.#isThorough) return;
    const kept = countsOf(this.#data.tallies.values());
    for (const id of new Set([...Object.keys(kept), ...Object.keys(this.#witness.counts)])) {
      const [here, seen] = [kept[id] ?? 0, this.#witness.counts[id] ?? 0];
      if (here !== seen) this.#checks.bad("SC10", `${id}: ${here} are counted, ${seen} were seen`);
    }
    for (const [id, items] of Object.entries(kept)) this.#count(`items ${id.slice(id.indexOf(" ") + 1)}`, items);
  }

  /** Informs the checks about Store calls: taken keys, and checkpoints that may reveal a loss. */
  #heard(verb: string, [asked]: readonly unknown[], answer: unknown, atMs: number): void {
    // Parameters and results of the verbs named here.
    if (verb === "checkpoint") this.#checks.checkpointed();
    if (verb !== "take" || (answer as TakeResult).kind !== "ok") return;
    const { controller, key } = asked as Taken;
    this.#checks.taken(controller, key, atMs);
  }

  /** SC14. */
  #usedByOther(process: string, verb: string, answer: unknown): void {
    const { kind } = (answer ?? {}) as { readonly kind?: unknown }; // the results of the verbs named here
    const isUse = (verb === "take" && kind === "ok") || ((verb === "applyPack" || verb === "applyManifest") && kind === "applied");
    if (kind === "otherProjection") this.#count("messages left for another build", 1);
    if (isUse) this.#checks.bad("SC14", `${process}: ${verb} in an epoch with another projection`);
  }

  #fate(random: Random, mix: () => Pick<Mix, "crash" | "freeze">, name: string): Fate {
    const draw = (): "live" | "die" | number => {
      if (!this.#faulty()) return "live";
      const { crash, freeze } = mix();
      if (crash > 0 && random.next() < crash) return "die";
      if (freeze > 0 && random.next() < freeze) return random.next() < 0.5 ? 500 + random.next() * 8_000 : 8_000 + random.next() * 35_000;
      return "live";
    };
    return new Fate({
      clock: this.#clock,
      draw,
      onFate: (what, ms) => {
        this.#fault(what === "die" ? "crashes" : "freezes");
        this.#trace("fault", () => `${name} ${what} ${Math.round(ms)}`);
      },
    });
  }

  #busyTime(): boolean {
    const sinceMs = this.#clock.now() - this.#startMs;
    return sinceMs < QUIET_AT_MS && sinceMs % CYCLE_MS < BUSY_MS;
  }

  /** Whether faults are active; not during the start-up. */
  #faulty(): boolean {
    return this.#busyTime() && this.#clock.now() - this.#startMs > 1_500;
  }

  #fork(): Random {
    return createSeededRandom(Math.floor(this.#random.next() * 2 ** 32));
  }

  #fault(what: string): void {
    this.#count("faults", 1);
    this.#count(what, 1);
  }

  /** Counts a call of the API server or the Store, until the last burst is over. */
  #step(): void {
    if (this.#clock.now() - this.#startMs < QUIET_AT_MS) this.#count("steps", 1);
  }

  #count(what: string, by: number): void {
    this.#stats[what] = (this.#stats[what] ?? 0) + by;
  }

  #trace(who: string, line: () => string): void {
    this.#options.trace?.(`${((this.#clock.now() - this.#startMs) / 1000).toFixed(3).padStart(8)} ${who.padEnd(8)} ${line()}`);
  }

  #log(who: string): Log {
    const at =
      (level: string) =>
      (message: string, fields: LogFields = {}): void =>
        this.#trace(who, () => `${level} ${message} ${JSON.stringify(fields)}`);
    return { debug: () => undefined, info: at("info"), warn: at("warn"), error: at("error") };
  }
}

function constantSigner(): Signer {
  const keyId = "k1";
  const signature = keyId.padEnd(SIGNATURE_CHARACTERS, "0");
  return { keyId, sign: () => signature, verify: (_domain, _parts, given) => (given === signature ? "current" : "unknown") };
}

/** Makes every message its own group, because a standard queue has no groups. */
function ungrouped<T extends { readonly group: string; readonly id: string }>(entry: T): T {
  return { ...entry, group: entry.id };
}

function blindToPods(kube: Kube): KubeReader {
  return {
    get: (resource, namespace, name) => kube.get(resource, namespace, name),
    list: async (resource, namespace, options) => {
      const list = await kube.list(resource, namespace, options);
      return resource === "pods" ? { ...list, items: [] } : list;
    },
  };
}

function controllerNamed(functionName: string): (typeof CONTROLLERS)[number] {
  const controller = CONTROLLERS.find((each) => functionName === `sync-${each}`);
  if (!controller) throw new Error(functionName);
  return controller;
}
