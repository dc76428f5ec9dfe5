/**
 * The watcher: one leader per cluster that turns lists and watches into delta messages and keeps the Store's epochs, fences and
 * lists in order (informer §10.6, §10.7, §11.7, §14).
 *
 * WA1 nothing is sent before every resource's fence is open, and nothing once the Lease is lost or was not renewed in time.
 * WA2 a new stream resumes from the least watermark of the resource's lanes, or lists; never from the last sent version.
 * WA3 after a gap in a lane's sequence that is older than its limit, or for a SUSPECT resource, the leader raises the fence, and all
 *     streams restart under it. No two terms share a fence: each numbers its messages from 1, so an applier would treat the second term's
 *     as duplicates.
 * WA4 a missing or foreign epoch, another digest key, projection or hash layout, and a history that went back lead to a new epoch with
 *     fresh keys, so that no old data survives.
 * WA5 a leader sends to every lane at least every 15 s and sweeps lost doorbells every 2 s.
 * WA7 a full Store is reported, and data of older epochs is deleted at once. The watcher lists again, to send the skipped objects, once the
 *     Store has had room for FULL_SETTLE_MS; earlier, they would be skipped again.
 * WA8 nothing is sent into an epoch that another cluster's leader works on (lineage.ts EN1, EN2). While it waits, the leader keeps its
 *    Lease. If the epoch changes meanwhile, `runWatcher` releases the Lease and throws a SharedCacheError, and the supervisor restarts it.
 * WA9 an unproven takeover lists: `openFence` marks every resource SUSPECT, and the list that ends the mark is a quorum read after the
 *    fence was opened, so it is not older than the fence.
 * WA10 a written-through version above the API server's newest one is from another history and leads to a new epoch.
 * WA11 with `heartbeats`, quiet lanes travel with those of other clusters. A quiet cluster writes checkpoints and sweeps every
 *    QUIET_CHECKPOINT_MS; the first message that it sends ends the wait.
 * WA12 with `lanes`, the lanes of a small cluster grow with a term that raises the fence; its streams resume, so growth itself closes no
 *    gate. As after each raise, WA9 or a lane that stays silent may close it (lane-policy.ts).
 * WA13 a term writes its first checkpoint before it sends: the Store's time stands still without checkpoints (ST2), so a lane whose messages
 *    are applied before would seem silent until its next heartbeat.
 * WA6 a term begins with the fence of a Lease write that this process made, and got answered, after its last term ended. So a process that
 *     was paused in a lost history, whose fence exceeds any new one, opens no term.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { laneOf, lanesOf } from "@deltaloop/store/ports";
import { BUILT_IN, CACHED_RESOURCES, compareResourceVersions, maxResourceVersion, minResourceVersion } from "@deltaloop/kube/objects";
import type { Signer, DeltaQueue, Doorbells, EpochRecord, Lineage, Proof, ResourceHealth, Store } from "@deltaloop/store/ports";
import type { Resource, View } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import { CHECKPOINT_MS, FORGET_PERIOD_MS, FULL_SETTLE_MS, QUIET_CHECKPOINT_MS, SWEEP_PERIOD_MS } from "@deltaloop/base";
import { lookingAtRelease } from "./cluster-release.ts";
import type { ClusterRelease } from "./cluster-release.ts";
import { resourceOf } from "../cache-registry.ts";
import type { CacheRegistry } from "../cache-registry.ts";
import type { ForeignWriteGuard } from "./foreign-write-guard.ts";
import { informerLabels } from "../informer-labels.ts";
import { heartbeatLine } from "../messages/heartbeats.ts";
import type { Heartbeats } from "./heartbeats.ts";
import { initialLanes, LaneGrowth } from "./lane-policy.ts";
import type { LanePolicy } from "./lane-policy.ts";
import { LaneSender } from "./lane-sender.ts";
import type { Leadership } from "./leader-election.ts";
import { decideEpoch, STILL_MS } from "./lineage.ts";
import type { OwnLineage, Sighting } from "./lineage.ts";
import { HistoryRegressedError } from "@deltaloop/kube/list-watch";
import { VersionSet } from "./listed-rows.ts";
import { ResourceStream } from "./resource-stream.ts";
import type { Feed } from "./resource-stream.ts";
import { ring } from "../ring.ts";
import { runUpkeep } from "./upkeep.ts";
import type { UpkeepPorts, UpkeepTimes } from "./upkeep.ts";

export interface WatcherPorts {
  readonly kube: KubeWatch<Resource>;
  readonly store: Store;
  readonly queue: DeltaQueue;
  readonly doorbells: Doorbells;
  readonly clock: Clock;
  readonly random: Random;
  readonly digester: Digester;
  readonly signer: Signer;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** Acquires the Lease. In shadow mode and replay it obtains a fence without a Lease. Returns undefined when `signal` aborts first. */
  readonly lead: (signal: AbortSignal) => Promise<Leadership | undefined>;
  /** Looks for another controller's writes. If absent, the guard is disabled. */
  readonly guard?: Pick<ForeignWriteGuard, "look" | "beforeTerm">;
  /** Sends heartbeats of quiet lanes with those of other clusters; absent: each lane sends its own, every 15 s. */
  readonly heartbeats?: Heartbeats;
  /** If absent, no release is published, as in a replay. */
  readonly release?: ClusterRelease;
  /** The views to feed. By default, the views of the built-in controllers. */
  readonly registry?: Pick<CacheRegistry, "catalog" | "views">;
}

export interface WatcherOptions {
  /** Cluster id. */
  readonly cluster: string;
  readonly clusterUid: string;
  readonly identity: Pick<EpochRecord, "projection" | "digestPrefix" | "hashLayout">;
  /** A gap in a lane's sequence that is older than this raises the fence: 60 s on FIFO, 150 s on standard queues. */
  readonly holeRelistMs: number;
  /** How long live events may wait for further events, at most BATCHING_WINDOW_MS_MAX. If absent, the window adapts, up to 100 ms. */
  readonly batchingWindowMs?: number;
  /** False if nothing is written through, as in a replay; own writes then have the normal batching window. Default true. */
  readonly knowsOwn?: boolean;
  /** When epochs begin with one lane per resource, and when lanes grow. If absent, each epoch begins with LANES, and nothing grows. */
  readonly lanes?: LanePolicy;
  /** Settings of resync and audit (informer §15); if absent, both are off. */
  readonly upkeep?: UpkeepTimes & Pick<UpkeepPorts, "reader" | "registry">;
}

const FORGET_EVERY_CHECKPOINTS = FORGET_PERIOD_MS / CHECKPOINT_MS;
const SWEEP_EVERY_CHECKPOINTS = SWEEP_PERIOD_MS / CHECKPOINT_MS;
/** Consecutive lists of one resource that may leave a lane frozen before the fence is raised. */
const FAILED_LISTS_MAX = 5;
/** If a lane is still frozen this long after a list was requested, the watcher lists the resource again. */
const LIST_PATIENCE_MS = 15_000;
const RETRY_MS = 1000;
const HEARTBEAT_MS = 15_000;
/** A cluster is quiet once nothing was sent for this long: longer than it takes to sweep a lost doorbell. */
const QUIET_AFTER_MS = 10_000;
/** Clusters that are quiet do their work in this many groups, each in one event-loop turn, so that their commands share a write. */
const QUIET_GROUPS = 10;
/** How long a written-through version may be newer than its stream's version before the API server's newest version is read (WA10). */
const ABOVE_STREAM_MS = 15_000;
/** Digits that a double represents exactly, as upstream reports them. Source: client-go tools/cache/the_real_fifo.go. */
const VERSION_DIGITS = 15;

const CORE: Pick<CacheRegistry, "catalog" | "views"> = { catalog: BUILT_IN, views: new Map() };

/** Why a term ended, which decides how the next term starts. */
type End =
  | { readonly kind: "stopped" }
  | { readonly kind: "raise"; readonly why: string }
  | { readonly kind: "grow"; readonly why: string }
  /** `forgets`: the API server's history went back, so the earlier terms are dropped from the Lease. */
  | { readonly kind: "newEpoch"; readonly why: string; readonly forgets?: true }
  /** The stored fence is greater than this leader's. */
  | { readonly kind: "fenced"; readonly fence: string; readonly isOpening?: true }
  /** Another leader has taken the epoch since it was read. */
  | { readonly kind: "foreign" };

/**
 * Another cluster's leader works on this cache: a clone, a restored backup, or a collision of cluster ids. A user must decide which cluster
 * continues. The process exits and is restarted, so that this cluster takes over within minutes after the other cluster stops.
 */
export class SharedCacheError extends Error {
  override readonly name = "SharedCacheError";
  constructor() {
    super("two clusters share this cache: another cluster's watcher works on its epoch");
  }
}

/** Runs until `signal` aborts; then releases the Lease. */
export async function runWatcher(ports: WatcherPorts, options: WatcherOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const leadership = await ports.lead(signal);
    if (!leadership) return;
    ports.log.info("leading", { cluster: options.cluster, fence: leadership.fence() });
    let fenced = false;
    let final: Proof | undefined;
    try {
      ({ fenced, final } = await leadUntilLost({ ...ports, queue: whileLeading(ports.queue, leadership) }, options, leadership, signal));
      const why = fenced ? "another watcher has a newer fence" : describeError(leadership.lost.reason);
      if (!signal.aborted) ports.log.warn("no longer leading", { fence: leadership.fence(), why });
    } finally {
      await leadership
        .release(final)
        .catch((error: unknown) => ports.log.warn("failed to release the Lease", { error: describeError(error) }));
    }
    if (fenced) await ports.clock.after(RETRY_MS, signal).catch(() => undefined);
  }
}

/**
 * The queue with a check of the Lease before each send (WA1): after a pause of the process, sends may run before the timer that detects a
 * lost Lease.
 */
function whileLeading(queue: DeltaQueue, leadership: Leadership): DeltaQueue {
  return { send: (entries) => (leadership.holds() ? queue.send(entries) : Promise.reject(leadership.lost.reason as Error)) };
}

/**
 * Runs terms until the Lease is lost.
 *
 * @returns whether another watcher has a newer fence, and the final checkpoint of an orderly end.
 * @throws {SharedCacheError} (WA8)
 */
async function leadUntilLost(
  ports: WatcherPorts,
  options: WatcherOptions,
  leadership: Leadership,
  signal: AbortSignal,
): Promise<{ readonly fenced: boolean; readonly final?: Proof }> {
  const leading = AbortSignal.any([signal, leadership.lost]);
  const { lineage } = leadership;
  let epoch: string | undefined;
  let replaceEpoch: string | undefined;
  let raises = false;
  let grows = false;
  let forgets = false;
  let wentBack = 0;
  let proof = lineage?.final;
  while (!leading.aborted) {
    try {
      // WA6: until this succeeds, it is unknown whether this process still leads.
      if (raises) await leadership.raise(forgets);
      [raises, forgets] = [false, false];
      if (lineage && lineage.wentBack() > wentBack) [wentBack, replaceEpoch] = [lineage.wentBack(), epoch]; // LE7
      await ports.guard?.beforeTerm(); // FG4
      const chosen = await chooseEpoch(ports, options, leadership, replaceEpoch, leading);
      if (chosen === undefined) break;
      epoch = chosen.epoch;
      replaceEpoch = undefined;
      const term: Term = new Term(ports, options, leadership, { ...chosen, proof, grows });
      const end: End = await term.run(leading);
      grows = end.kind === "grow";
      ports.metrics?.count("deltaloop_terms_total", { end: end.kind });
      if (end.kind === "stopped") {
        const final = leadership.holds() ? await term.lastCheckpoint() : undefined;
        return { fenced: false, ...(final && { final }) };
      }
      proof = term.proof;
      if (end.kind === "foreign") continue;
      if (end.kind === "fenced") {
        if (lineage && !end.isOpening) return { fenced: true };
        const why = await provesRegression(leadership, end.fence);
        if (why === undefined) return { fenced: true };
        ports.log.error("opening a new epoch", { why });
        replaceEpoch = epoch;
        continue;
      }
      if (end.kind === "grow") ports.log.info("raising the fence; the lanes grow", { why: end.why });
      else ports.log.warn(end.kind === "raise" ? "raising the fence" : "opening a new epoch", { why: end.why });
      if (end.kind === "newEpoch") [replaceEpoch, forgets] = [epoch, end.forgets === true];
      raises = true;
    } catch (error) {
      if (error instanceof SharedCacheError) throw error;
      ports.metrics?.count("deltaloop_terms_total", { end: "failed" });
      ports.log.error("the watcher's term ended; starting again", { error: describeError(error) });
      raises = true;
      await ports.clock.after(RETRY_MS, leading).catch(() => undefined);
    }
  }
  return { fenced: false };
}

/**
 * Whether the stored fence is from a lost history. A fence is the version of a Lease write, so in the same history a later write gets a
 * greater version. This writes the held Lease; a lower version in the response proves that the history went back.
 */
async function provesRegression(leadership: Leadership, stored: string): Promise<string | undefined> {
  const renewed = await leadership.raise().catch(() => undefined); // another process holds the Lease
  if (renewed === undefined || compareResourceVersions(renewed, stored) >= 0) return undefined;
  return `the API server was restored to an older revision: the Lease was renewed at ${renewed}, the stored fence is ${stored}`;
}

/** The versions up to which the cache of a view is complete. */
interface From {
  readonly least: string;
  readonly greatest: string;
}

interface ChosenEpoch {
  readonly epoch: string;
  /** The term that the Store is expected to hold. */
  readonly expected: string | undefined;
  /** Number of lanes with which a resource begins; undefined: LANES. */
  readonly lanes: number | undefined;
}

/**
 * Returns the Store's epoch if a leader of this cluster opened it, otherwise a new epoch that replaces it (WA4, WA8); undefined when
 * `leading` aborted.
 * @throws {SharedCacheError}
 */
async function chooseEpoch(
  ports: WatcherPorts,
  options: WatcherOptions,
  { lineage, fence }: Leadership,
  replaces: string | undefined,
  leading: AbortSignal,
): Promise<ChosenEpoch | undefined> {
  const { store, random, log, clock, metrics } = ports;
  let seen: Sighting | undefined;
  try {
    while (!leading.aborted) {
      const { current } = await store.lineage();
      const decision = decideEpoch(current, ownLineage(lineage, replaces, options), seen, clock.now());
      switch (decision.kind) {
        case "resume":
          return { ...decision, lanes: current?.record.lanes };
        case "exit":
          throw new SharedCacheError();
        case "wait":
          if (seen === undefined) {
            log.error("two clusters share this cache: sending nothing", {
              epoch: current?.record.epoch,
              why: `the Lease does not list the epoch's term: a clone, a restored backup, or a second Lease of this deployment; a new epoch is opened if nothing changes for ${STILL_MS / 1_000} s`,
            });
            metrics?.set("deltaloop_foreign_epoch", {}, 1);
          }
          seen = decision.sighting;
          await clock.after(RETRY_MS, leading).catch(() => undefined);
          break;
        case "open": {
          const lanes = options.lanes && (await initialLanes(ports, options.lanes, leading));
          if (leading.aborted) break;
          const release = ports.release?.current();
          const opening = { epoch: randomEpoch(random), clusterUid: options.clusterUid, fence: fence() };
          const record = {
            ...options.identity,
            ...opening,
            ...(release !== undefined && { release }),
            ...(lanes !== undefined && { lanes }),
          };
          const token = lineage?.token();
          lineage?.use();
          const opened = await store.openEpoch(record, lineage ? decision.over : decision.over?.record.epoch, token);
          if (opened.kind === "exists") break; // the epoch changed: decide again
          log.info("epoch opened", { epoch: record.epoch, over: decision.over?.record.epoch, why: decision.why });
          return { epoch: record.epoch, expected: token?.term, lanes };
        }
        default:
          decision satisfies never;
      }
    }
    return undefined;
  } finally {
    if (seen) metrics?.set("deltaloop_foreign_epoch", {}, 0);
  }
}

function ownLineage(lineage: Leadership["lineage"], replaces: string | undefined, options: WatcherOptions): OwnLineage {
  const approved = lineage?.approved();
  return {
    ...(lineage && { lease: { listed: lineage.listed(), minted: lineage.minted, ...(approved !== undefined && { approved }) } }),
    ...(replaces !== undefined && { replaces }),
    isSameIdentity: ({ record }: Lineage) => sameIdentity(record, options),
  };
}

function sameIdentity(record: EpochRecord, { clusterUid, identity }: WatcherOptions): boolean {
  return (
    record.clusterUid === clusterUid &&
    (record.lanes ?? 1) === 1 && // LG3
    record.projection === identity.projection &&
    record.digestPrefix === identity.digestPrefix &&
    record.hashLayout === identity.hashLayout
  );
}

function randomEpoch(random: Random): string {
  return Array.from({ length: 10 }, () => Math.floor(random.next() * 36).toString(36)).join("");
}

interface Opening extends ChosenEpoch {
  readonly proof: Proof | undefined;
  /** Whether the lanes are to grow (LG2). */
  readonly grows: boolean;
}

/** One period of leading under one epoch and one fence. */
class Term {
  readonly #ports: WatcherPorts;
  readonly #options: WatcherOptions;
  readonly #epoch: string;
  readonly #fence: string;
  readonly #leadership: Leadership;
  readonly #opening: Omit<Opening, "epoch">;
  readonly #growth: LaneGrowth | undefined;
  readonly #wentBack: number;
  /** When a written-through version was first seen to be newer than the stream's version, by resource (WA10). */
  readonly #aboveSinceMs = new Map<View, number>();
  readonly #streams = new Map<View, { readonly resource: Resource; readonly stream: ResourceStream; readonly sender: LaneSender }>();
  readonly #failedLists = new Map<View, { readonly lists: number; readonly askedMs: number }>();
  readonly #ended = new AbortController();
  #end: End = { kind: "stopped" };
  #beat = 0;
  /** Number of the last checkpoint that the Store has confirmed and must therefore still have. */
  #answered = 0;
  /** Time at which the Store was last full. */
  #fullMs = Number.NEGATIVE_INFINITY;
  #isFull = false;
  /** Whether the last checkpoint found all resources synced, without holes and frozen lanes. */
  #isWhole = false;
  #heartbeatMs: number;
  #wake: (() => void) | undefined;

  /** The Store's last response: the proof for this leader's next term. */
  proof: Proof | undefined;

  constructor(ports: WatcherPorts, options: WatcherOptions, leadership: Leadership, { epoch, ...opening }: Opening) {
    this.#ports = ports;
    this.#options = options;
    this.#leadership = leadership;
    this.#epoch = epoch;
    this.#fence = leadership.fence();
    this.#opening = opening;
    this.#growth = options.lanes && new LaneGrowth(options.lanes, ports.clock, opening.grows);
    this.#wentBack = leadership.lineage?.wentBack() ?? 0;
    this.#heartbeatMs = ports.clock.now();
  }

  async run(leading: AbortSignal): Promise<End> {
    const signal = AbortSignal.any([leading, this.#ended.signal]);
    const { catalog, ...views } = this.#ports.registry ?? CORE;
    const froms = new Map<View, From | undefined>();
    const lanes = new Map<View, number>();
    const { lineage } = this.#leadership;
    const token = lineage?.token();
    let { expected } = this.#opening;
    lineage?.use();
    for (const resource of catalog.views) {
      const lanesMax = lanesOf(resource);
      const count = { lanes: Math.min(this.#opening.lanes ?? lanesMax, lanesMax), lanesMax, grows: this.#opening.grows };
      const stored = { epoch: this.#epoch, fence: this.#fence, resource, ...count };
      const terms = token && { token, expected, proof: this.#opening.proof };
      const opened = await this.#ports.store.openFence({ ...stored, ...terms });
      expected = token?.term;
      if (opened.kind === "fenced") return { ...opened, isOpening: true };
      if (opened.kind === "foreign") return opened;
      if (opened.kind === "equalFence") return { kind: "raise", why: "the fence is stored under another term" };
      if (opened.kind === "noEpoch") return { kind: "newEpoch", why: "the epoch no longer exists" };
      if (opened.kind === "otherLanes")
        return {
          kind: "newEpoch",
          why: `another build opened the epoch: ${resource} has ${opened.lanes} lanes in it, not ${lanesMax}`,
        };
      if (opened.kind === "damaged") return { kind: "newEpoch", why: `the store is damaged: ${opened.why}` };
      const whole = opened.state === "SYNCED" && opened.syncedGeneration > 0 && opened.lanes.every((lane) => !lane.frozen);
      lanes.set(resource, opened.lanes.length);
      const watermarks = opened.lanes.map((lane) => lane.watermark);
      const from = whole ? { least: watermarks.reduce(minResourceVersion), greatest: watermarks.reduce(maxResourceVersion) } : undefined;
      froms.set(resource, from);
    }
    if (token) lineage?.confirm(token.count);
    await this.#confirmCheckpoint().catch((error: unknown) => this.#failed(error)); // WA13
    if (this.#ended.signal.aborted) return this.#end;
    for (const [resource, fed] of Map.groupBy(froms, ([view]) => resourceOf(views, view)))
      this.#start(resource, new Map(fed), lanes, signal);
    const streams = new Map([...this.#streams.values()].map(({ resource, stream }) => [stream, resource]));
    const running = [...streams].map(([stream, resource]) => this.#guard(resource, stream.run(signal)));
    await Promise.all([...running, this.#tend(signal), this.#keepUp(signal)]);
    return this.#end;
  }

  /** Starts the stream that feeds all views of a resource: it resumes where all of them are complete, or lists. */
  #start(resource: Resource, fed: ReadonlyMap<View, From | undefined>, lanes: ReadonlyMap<View, number>, signal: AbortSignal): void {
    const { store, clock, random, digester, log, metrics, guard, release, registry = CORE } = this.#ports;
    const kube = lookingAtRelease(this.#ports.kube, release);
    const cached = CACHED_RESOURCES.find((each) => each === resource);
    const look = guard && cached && ((object: unknown) => guard.look(cached, object));
    const feeds = [...fed.keys()].map((view) => this.#feed(view, lanes.get(view) ?? lanesOf(view), signal));
    const quarantine = async (what: string, where: string, why: string): Promise<void> => {
      log.error("quarantined", { what, where, why });
      await store.quarantine({ what, where, why, atMs: clock.now() });
    };
    const from = [...fed.values()].reduce(
      (a, b) => a && b && { least: minResourceVersion(a.least, b.least), greatest: maxResourceVersion(a.greatest, b.greatest) },
    );
    const stream = new ResourceStream(
      { kube, feeds, registry, clock, random, digester, log, metrics, quarantine, look },
      resource,
      from?.least,
      from?.greatest,
    );
    for (const { view, sink } of feeds) this.#streams.set(view, { resource, stream, sender: sink });
  }

  #feed(resource: View, count: number, signal: AbortSignal): Feed & { readonly sink: LaneSender } {
    const { store } = this.#ports;
    const { cluster, batchingWindowMs, knowsOwn } = this.#options;
    const lanes = { cluster, resource, lanes: count, epoch: this.#epoch, fence: this.#fence };
    const waits = { ...(batchingWindowMs !== undefined && { batchingWindowMs }), ...(knowsOwn !== undefined && { knowsOwn }) };
    const sender = new LaneSender(
      { ...this.#ports, onMessage: () => this.#wake?.() },
      { ...lanes, ...waits, restsWhenApplied: this.#ports.heartbeats !== undefined },
      signal,
    );
    const openGeneration = async (): Promise<{ generation: number; floor: string }> => {
      const opened = await store.openGeneration({ epoch: this.#epoch, fence: this.#fence, resource });
      if (opened.kind === "open") return opened;
      this.#finish(opened.kind === "fenced" ? opened : { kind: "newEpoch", why: "the epoch no longer exists" });
      throw new Error("failed to start a list: the Store did not open its generation");
    };
    return { view: resource, sink: sender, openGeneration, cachedVersions: () => readVersions(store, resource) };
  }

  async #guard(resource: Resource, running: Promise<void>): Promise<void> {
    try {
      await running;
    } catch (error) {
      if (error instanceof HistoryRegressedError) return this.#finish({ kind: "newEpoch", why: error.message, forgets: true });
      this.#finish({ kind: "raise", why: `the stream of ${resource} failed: ${describeError(error)}` });
    }
  }

  async #keepUp(signal: AbortSignal): Promise<void> {
    const { upkeep } = this.#options;
    if (!upkeep) return;
    const relist = (resource: View, why: string): void => this.#streams.get(resource)?.stream.relist(why);
    await runUpkeep({ ...this.#ports, ...upkeep }, { epoch: this.#epoch, times: upkeep, relist }, signal);
  }

  /** Writes checkpoints and heartbeats and runs the sweeper, about once a second, of a quiet cluster every QUIET_CHECKPOINT_MS. */
  async #tend(signal: AbortSignal): Promise<void> {
    for (let beat = 1; !signal.aborted; beat++) {
      const isQuiet = this.#isQuiet();
      this.#leadership.setQuiet?.(isQuiet);
      if (isQuiet) await this.#rest(signal);
      else await this.#ports.clock.after(CHECKPOINT_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        this.#heartbeat();
        await this.#checkpoint();
        if (isQuiet || beat % SWEEP_EVERY_CHECKPOINTS === 0) await this.#sweep();
      } catch (error) {
        this.#failed(error);
      }
      if (this.#isFull || beat % FORGET_EVERY_CHECKPOINTS === 0) await this.#forget();
    }
  }

  /** WA11. */
  #isQuiet(): boolean {
    const { heartbeats, clock } = this.#ports;
    if (!heartbeats || !this.#isWhole || this.#isFull || this.#aboveSinceMs.size > 0) return false;
    const untilMs = clock.now() - QUIET_AFTER_MS;
    return [...this.#streams.values()].every(({ sender: { quietSinceMs } }) => quietSinceMs !== undefined && quietSinceMs <= untilMs);
  }

  /** Waits until the time of this cluster's group, at most QUIET_CHECKPOINT_MS, or until it sends a message. */
  async #rest(signal: AbortSignal): Promise<void> {
    const { clock } = this.#ports;
    const group = laneOf(this.#options.cluster, QUIET_GROUPS) * (QUIET_CHECKPOINT_MS / QUIET_GROUPS);
    const waitMs = QUIET_CHECKPOINT_MS - ((clock.now() + QUIET_CHECKPOINT_MS - group) % QUIET_CHECKPOINT_MS);
    const woken = new AbortController();
    this.#wake = () => woken.abort(new Error("a message is sent"));
    const ends = (): void => woken.abort(signal.reason);
    signal.addEventListener("abort", ends, { once: true });
    await clock.after(waitMs, woken.signal).catch(() => undefined);
    signal.removeEventListener("abort", ends);
    this.#wake = undefined;
  }

  #heartbeat(): void {
    const { heartbeats, clock, signer } = this.#ports;
    const senders = [...this.#streams.values()].map(({ sender }) => sender);
    for (const sender of senders) sender.heartbeat();
    if (!heartbeats || clock.now() - this.#heartbeatMs < HEARTBEAT_MS) return;
    this.#heartbeatMs = clock.now();
    const lanes = senders.flatMap((sender) => sender.quietLanes());
    if (lanes.length === 0) return;
    const heartbeat = { epoch: this.#epoch, fence: this.#fence, sentMs: this.#heartbeatMs, lanes };
    heartbeats.add(heartbeatLine(signer, this.#options.cluster, heartbeat), () => !this.#ended.signal.aborted && this.#leadership.holds());
  }

  #failed(error: unknown): void {
    this.#isWhole = false;
    this.#ports.metrics?.count("deltaloop_checkpoints_total", { result: "failed" });
    this.#ports.log.warn("checkpoint failed; trying again with the next one", { error: describeError(error) });
  }

  /** Writes a checkpoint and repairs what it finds. */
  async #checkpoint(): Promise<void> {
    const resources = await this.#confirmCheckpoint();
    if (!resources) return;
    this.#isWhole = resources.every(
      ({ state, holeForMs, frozenLanes }) => state === "SYNCED" && holeForMs === undefined && frozenLanes.length === 0,
    );
    for (const health of resources) {
      const { sender } = this.#streams.get(health.resource) ?? {};
      if (sender && sender.lanes !== health.applied.length) {
        const why = `the store is damaged: ${health.resource} have ${health.applied.length} lanes, not ${sender.lanes}`;
        return this.#finish({ kind: "newEpoch", why }); // LG3
      }
      sender?.confirm(health.applied);
      this.#tell(health);
      this.#repair(health);
      await this.#compareWritten(health);
    }
    this.#grow(resources);
  }

  /** Writes a checkpoint. Returns the state of each resource; undefined when the term ends. */
  async #confirmCheckpoint(): Promise<readonly ResourceHealth[] | undefined> {
    const sent = Object.fromEntries([...this.#streams].map(([resource, { sender }]) => [resource, sender.sentRV]));
    const beat = ++this.#beat;
    const { lineage } = this.#leadership;
    if (lineage && lineage.wentBack() > this.#wentBack) {
      this.#finish({ kind: "newEpoch", why: "the Lease has an older state: the API server was restored" });
      return undefined;
    }
    const token = lineage?.token();
    const terms = token && { token, confirmed: lineage?.confirmed() ?? 0 };
    const release = this.#ports.release?.current();
    const given = { ...terms, ...(release !== undefined && { release }) };
    const request = {
      epoch: this.#epoch,
      fence: this.#fence,
      sent,
      beat,
      answered: this.#answered,
      nowMs: this.#ports.clock.now(),
      ...given,
    };
    const result = await this.#ports.store.checkpoint(request);
    this.#ports.metrics?.count("deltaloop_checkpoints_total", { result: result.kind });
    if (result.kind !== "ok") {
      this.#finish(endAfter(result));
      return undefined;
    }
    this.#answered = beat;
    if (token) lineage?.confirm(token.count);
    this.proof = token && { token, checkpoint: { fence: this.#fence, number: beat }, isExact: false };
    this.#noteFull(result.full ?? false);
    return result.resources;
  }

  /** WA12. A full Store has no room, and a term that raises its fence for another reason comes first. */
  #grow(resources: readonly ResourceHealth[]): void {
    if (this.#isFull || !this.#growth) return;
    const measured = resources.map((health) => ({ ...health, unapplied: this.#streams.get(health.resource)?.sender.unapplied ?? 0 }));
    const why = this.#growth.decide(measured);
    if (why !== undefined) this.#finish({ kind: "grow", why });
  }

  /** The final checkpoint of an orderly end; undefined when the Store does not confirm it. */
  async lastCheckpoint(): Promise<Proof | undefined> {
    const before = this.#answered;
    await this.#checkpoint().catch((error: unknown) => this.#ports.log.warn("final checkpoint failed", { error: describeError(error) }));
    return this.#answered > before ? this.proof : undefined;
  }

  /**
   * Detects a written-through version from another history (WA10). Reads the server's newest version first, because the stream may only
   * lag.
   */
  async #compareWritten({ resource, written }: ResourceHealth): Promise<void> {
    const { clock, kube } = this.#ports;
    const { stream, resource: fed } = this.#streams.get(resource) ?? {};
    const accepted = stream?.accepted;
    if (
      !this.#leadership.lineage ||
      fed === undefined ||
      written === undefined ||
      accepted === undefined ||
      compareResourceVersions(written, accepted) <= 0
    )
      return void this.#aboveSinceMs.delete(resource);
    const sinceMs = this.#aboveSinceMs.get(resource) ?? clock.now();
    this.#aboveSinceMs.set(resource, sinceMs);
    if (clock.now() - sinceMs < ABOVE_STREAM_MS) return;
    const { resourceVersion } = await kube.listPage(fed, { limit: 1, metadataOnly: true }, this.#ended.signal);
    this.#aboveSinceMs.delete(resource);
    if (compareResourceVersions(resourceVersion, written) < 0)
      this.#finish({
        kind: "newEpoch",
        why: `${resource} are cached at resourceVersion ${written}, and the API server is at the older ${resourceVersion}`,
      });
  }

  #noteFull(isFull: boolean): void {
    const { clock, log, metrics } = this.#ports;
    metrics?.set("deltaloop_store_full", {}, isFull ? 1 : 0);
    if (isFull) this.#fullMs = clock.now();
    if (isFull && !this.#isFull) log.error("the store is full: objects are skipped and gates close until it has room");
    if (!isFull && this.#isFull) log.info("the store has room again");
    this.#isFull = isFull;
  }

  #tell({ resource, state, holeForMs = 0, frozenLanes, watermarks }: ResourceHealth): void {
    const { metrics } = this.#ports;
    metrics?.set("deltaloop_resource_synced", { resource }, state === "SYNCED" ? 1 : 0);
    metrics?.set("deltaloop_hole_seconds", { resource }, holeForMs / 1000);
    metrics?.set("deltaloop_frozen_lanes", { resource }, frozenLanes.length);
    const version = Number(watermarks.reduce(maxResourceVersion, "0").slice(-VERSION_DIGITS));
    metrics?.set("informer_store_resource_version", informerLabels(resource), version);
  }

  #repair(health: ResourceHealth): void {
    const { resource } = health;
    if ((health.holeForMs ?? 0) > this.#options.holeRelistMs)
      return this.#finish({ kind: "raise", why: `a message of ${resource} never arrived` });
    if (this.#ports.clock.now() - this.#fullMs < FULL_SETTLE_MS) return;
    if (health.state === "SUSPECT" && health.generation <= health.syncedGeneration) {
      return this.#finish({ kind: "raise", why: `the cache of ${resource} is suspect` });
    }
    if (health.frozenLanes.length === 0) return void this.#failedLists.delete(resource);
    const now = this.#ports.clock.now();
    const failed = this.#failedLists.get(resource);
    if (failed && now - failed.askedMs < LIST_PATIENCE_MS) return;
    if (failed && failed.lists >= FAILED_LISTS_MAX)
      return this.#finish({ kind: "raise", why: `lists of ${resource} keep leaving lanes frozen` });
    this.#failedLists.set(resource, { lists: (failed?.lists ?? 0) + 1, askedMs: now });
    this.#streams
      .get(resource)
      ?.stream.relist(`lanes ${health.frozenLanes.join(", ")} are frozen: they have no rows for some listed objects`);
  }

  async #sweep(): Promise<void> {
    const bells = await this.#ports.store.sweep(this.#epoch);
    if (bells.length === 0) return;
    this.#ports.metrics?.count("deltaloop_sweeper_rings_total", {}, bells.length);
    await ring({ ...this.#ports, metrics: undefined }, bells);
  }

  /** Removes keys of older epochs; a full Store may need that memory to accept checkpoints. */
  async #forget(): Promise<void> {
    const { store, log } = this.#ports;
    try {
      const keys = await store.forgetEpochs(this.#epoch, this.#isFull);
      if (keys > 0) log.info("keys of older epochs removed", { keys });
    } catch (error) {
      log.warn("failed to remove keys of older epochs, retrying", { error: describeError(error) });
    }
  }

  #finish(end: End): void {
    if (this.#ended.signal.aborted) return;
    this.#end = end;
    this.#ended.abort(new Error(end.kind));
  }
}

/** How a term ends whose checkpoint was rejected. */
function endAfter(result: Exclude<Awaited<ReturnType<Store["checkpoint"]>>, { readonly kind: "ok" }>): End {
  switch (result.kind) {
    case "fenced":
      return result;
    case "setBack":
      return { kind: "raise", why: `the store was restored to an older state: ${result.why}` };
    case "damaged":
      return { kind: "newEpoch", why: `the store is damaged: ${result.why}` };
    case "noEpoch":
      return { kind: "newEpoch", why: "the epoch no longer exists: the store was flushed or replaced" };
  }
}

/** Returns the cached versions. A listed object with the same version is not sent again. */
async function readVersions(store: Store, resource: View): Promise<VersionSet> {
  const hashes: number[] = [];
  for (let lane = 0, lanes = 1; lane < lanes; lane++) {
    const read = await store.readLane(resource, lane);
    ({ lanes } = read);
    for (const { key, uid, rv } of read.rows) hashes.push(VersionSet.hashOf(key, uid, rv));
  }
  return new VersionSet(hashes);
}
