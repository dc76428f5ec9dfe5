/**
 * The watcher: one leader per cluster that turns lists and watches into Q1 messages and keeps the Store's epochs, fences and
 * generations in order (informer §10.6, §10.7, §11.7, §14).
 *
 * WA1 nothing is sent before every resource's fence is open, and nothing once the Lease is lost or was not renewed in time.
 * WA2 a new stream resumes from the least watermark of the resource's lanes, or lists; never from what was merely sent.
 * WA3 a hole that outlives its limit, and a suspect resource, lead to a raised fence: all streams start again under it. No two
 *    terms send under one fence: each numbers its messages from 1, and an applier would take the second one's for repeats.
 * WA4 a missing or foreign epoch, another digest key, projection or hash layout, and a history that went back lead to a new
 *    epoch: fresh keys, so that nothing old can win.
 * WA5 while it leads, every lane hears from it at least each 15 s, and lost doorbells are swept each 2 s.
 * WA7 a full Store is told, and what older epochs have left goes at once. What it left out is listed once it has had room for
 *    FULL_SETTLE_MS: before that a list would only be left out again.
 * WA6 a term begins with the fence of a Lease that was written by us, and answered, after the last one ended. So one that was paused
 *    in a history that is no more, whose fence is greater than any new one, opens nothing.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { LANES } from "@deltaloop/store/ports";
import { CACHED_RESOURCES, compareResourceVersions, maxResourceVersion, minResourceVersion } from "@deltaloop/kube/objects";
import type { Signer, DeltaQueue, Doorbells, EpochRecord, ResourceHealth, Store } from "@deltaloop/store/ports";
import type { CachedResource } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import { CHECKPOINT_MS, FORGET_PERIOD_MS, FULL_SETTLE_MS, SWEEP_PERIOD_MS } from "@deltaloop/base";
import type { ForeignWriteGuard } from "./foreign-write-guard.ts";
import { informerLabels } from "../informer-labels.ts";
import { LaneSender } from "./lane-sender.ts";
import type { Leadership } from "./leader-election.ts";
import { HistoryRegressedError } from "@deltaloop/kube/list-watch";
import { VersionSet } from "./listed-rows.ts";
import { ResourceStream } from "./resource-stream.ts";
import { ring } from "../ring.ts";
import { runUpkeep } from "./upkeep.ts";
import type { UpkeepPorts, UpkeepTimes } from "./upkeep.ts";

export interface WatcherPorts {
  readonly kube: KubeWatch;
  readonly store: Store;
  readonly queue: DeltaQueue;
  readonly doorbells: Doorbells;
  readonly clock: Clock;
  readonly random: Random;
  readonly digester: Digester;
  readonly signer: Signer;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** Takes the Lease, or in shadow and replay a fence from elsewhere; undefined when `signal` aborted first. */
  readonly lead: (signal: AbortSignal) => Promise<Leadership | undefined>;
  /** Looks for another controller's writes; absent: nobody does. */
  readonly guard?: Pick<ForeignWriteGuard, "look" | "beforeTerm">;
}

export interface WatcherOptions {
  /** Cluster id. */
  readonly cluster: string;
  readonly clusterUid: string;
  readonly identity: Pick<EpochRecord, "projection" | "digestPrefix" | "hashLayout">;
  /** A hole older than this raises the fence: 60 s on FIFO, 150 s on standard queues. */
  readonly holeRelistMs: number;
  /** How long live events wait for company, in all at most BATCHING_WINDOW_MS_MAX; absent: up to 100 ms, as it is worth it. */
  readonly batchingWindowMs?: number;
  /** False: nothing is written through, as in a replay, so own writes wait no longer than others. Default true. */
  readonly knowsOwn?: boolean;
  /** Resync and audit (informer §15); absent: neither. */
  readonly upkeep?: UpkeepTimes & Pick<UpkeepPorts, "reader" | "registry">;
}

const FORGET_EVERY_CHECKPOINTS = FORGET_PERIOD_MS / CHECKPOINT_MS;
const SWEEP_EVERY_CHECKPOINTS = SWEEP_PERIOD_MS / CHECKPOINT_MS;
/** Lists of one resource that may leave a lane frozen in a row before the fence is raised. */
const FAILED_LISTS_MAX = 5;
/** How long a list and its manifests get before a lane that is still frozen asks for the next one. */
const LIST_PATIENCE_MS = 15_000;
const RETRY_MS = 1000;
/** What a double holds exactly, as upstream tells it. Source: client-go tools/cache/the_real_fifo.go. */
const VERSION_DIGITS = 15;

/** Why a term of leading ended: the next one starts accordingly. */
type End =
  | { readonly kind: "stopped" }
  | { readonly kind: "raise"; readonly why: string }
  | { readonly kind: "newEpoch"; readonly why: string }
  /** The stored one is greater than ours. */
  | { readonly kind: "fenced"; readonly fence: string };

/** Runs until `signal` aborts; gives the Lease back at the end. */
export async function runWatcher(ports: WatcherPorts, options: WatcherOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const leadership = await ports.lead(signal);
    if (!leadership) return;
    ports.log.info("leading", { cluster: options.cluster, fence: leadership.fence() });
    let fenced = false;
    try {
      fenced = await leadUntilLost({ ...ports, queue: whileLeading(ports.queue, leadership) }, options, leadership, signal);
      const why = fenced ? "another watcher has a newer fence" : describeError(leadership.lost.reason);
      if (!signal.aborted) ports.log.warn("not leading any more", { fence: leadership.fence(), why });
    } finally {
      await leadership.release().catch((error: unknown) => ports.log.warn("the Lease was not given back", { error: describeError(error) }));
    }
    if (fenced) await ports.clock.after(RETRY_MS, signal).catch(() => undefined);
  }
}

/** WA1: after a standstill, calls whose time has come are made before any timer tells us that another one leads. */
function whileLeading(queue: DeltaQueue, leadership: Leadership): DeltaQueue {
  return { send: (entries) => (leadership.holds() ? queue.send(entries) : Promise.reject(leadership.lost.reason as Error)) };
}

/** @returns whether another watcher has a newer fence */
async function leadUntilLost(ports: WatcherPorts, options: WatcherOptions, leadership: Leadership, signal: AbortSignal): Promise<boolean> {
  const leading = AbortSignal.any([signal, leadership.lost]);
  let replaceEpoch: string | undefined;
  let raises = false;
  while (!leading.aborted) {
    try {
      // WA6: until this has succeeded we do not know that we still lead.
      if (raises) await leadership.raise();
      raises = false;
      await ports.guard?.beforeTerm(); // FG4
      const epoch = await openEpoch(ports, options, leadership.fence(), replaceEpoch);
      replaceEpoch = undefined;
      const end = await new Term(ports, options, epoch, leadership.fence()).run(leading);
      ports.metrics?.count("deltaloop_terms_total", { end: end.kind });
      if (end.kind === "stopped") return false;
      if (end.kind === "fenced") {
        const why = await provesRegression(leadership, end.fence);
        if (why === undefined) return true;
        ports.log.error("opening a new epoch", { why });
        replaceEpoch = epoch;
        continue;
      }
      ports.log.warn(end.kind === "raise" ? "raising the fence" : "opening a new epoch", { why: end.why });
      if (end.kind === "newEpoch") replaceEpoch = epoch;
      raises = true;
    } catch (error) {
      ports.metrics?.count("deltaloop_terms_total", { end: "failed" });
      ports.log.error("the watcher's term ended, it starts again", { error: describeError(error) });
      raises = true;
      await ports.clock.after(RETRY_MS, leading).catch(() => undefined);
    }
  }
  return false;
}

/**
 * Whether the stored fence is of a history that is no more. It was the version of an answered write of the Lease, so within one history
 * every later write of it gets a greater one; we write it now, and if that is ours to do and the answer is below, time went back.
 */
async function provesRegression(leadership: Leadership, stored: string): Promise<string | undefined> {
  const renewed = await leadership.raise().catch(() => undefined); // somebody else holds it
  if (renewed === undefined || compareResourceVersions(renewed, stored) >= 0) return undefined;
  return `the server's history went back: the Lease was renewed at ${renewed}, the stored fence is ${stored}`;
}

/** The epoch to work in: the one in place if it is of our making, else a new one over it (WA4). */
async function openEpoch(ports: WatcherPorts, options: WatcherOptions, fence: string, replace: string | undefined): Promise<string> {
  const { store, random, log } = ports;
  const current = await store.epoch();
  if (current && current.epoch !== replace && sameIdentity(current, options)) return current.epoch;
  const record = { ...options.identity, epoch: randomEpoch(random), clusterUid: options.clusterUid, fence };
  const opened = await store.openEpoch(record, current?.epoch);
  if (opened.kind === "exists") return opened.record.epoch;
  log.info("epoch opened", { epoch: record.epoch, over: current?.epoch });
  return record.epoch;
}

function sameIdentity(record: EpochRecord, { clusterUid, identity }: WatcherOptions): boolean {
  return (
    record.clusterUid === clusterUid &&
    record.projection === identity.projection &&
    record.digestPrefix === identity.digestPrefix &&
    record.hashLayout === identity.hashLayout
  );
}

function randomEpoch(random: Random): string {
  return Array.from({ length: 10 }, () => Math.floor(random.next() * 36).toString(36)).join("");
}

/** One stretch of leading under one epoch and one fence. */
class Term {
  readonly #ports: WatcherPorts;
  readonly #options: WatcherOptions;
  readonly #epoch: string;
  readonly #fence: string;
  readonly #streams = new Map<CachedResource, { readonly stream: ResourceStream; readonly sender: LaneSender }>();
  readonly #failedLists = new Map<CachedResource, { readonly lists: number; readonly askedMs: number }>();
  readonly #ended = new AbortController();
  #end: End = { kind: "stopped" };
  #beat = 0;
  /** The last beat that the Store has answered: it must go on holding it. */
  #answered = 0;
  /** When the Store was full last. */
  #fullMs = Number.NEGATIVE_INFINITY;
  #isFull = false;

  constructor(ports: WatcherPorts, options: WatcherOptions, epoch: string, fence: string) {
    this.#ports = ports;
    this.#options = options;
    this.#epoch = epoch;
    this.#fence = fence;
  }

  async run(leading: AbortSignal): Promise<End> {
    const signal = AbortSignal.any([leading, this.#ended.signal]);
    const starts: (() => void)[] = [];
    for (const resource of CACHED_RESOURCES) {
      const opened = await this.#ports.store.openFence({ epoch: this.#epoch, fence: this.#fence, resource, lanes: LANES[resource] });
      if (opened.kind === "fenced") return opened;
      if (opened.kind === "noEpoch") return { kind: "newEpoch", why: "the epoch vanished" };
      if (opened.kind === "damaged") return { kind: "newEpoch", why: `the store is damaged: ${opened.why}` };
      const whole = opened.state === "SYNCED" && opened.syncedGeneration > 0 && opened.lanes.every((lane) => !lane.frozen);
      const watermarks = opened.lanes.map((lane) => lane.watermark);
      const from = whole ? { least: watermarks.reduce(minResourceVersion), greatest: watermarks.reduce(maxResourceVersion) } : undefined;
      starts.push(() => this.#start(resource, from, signal));
    }
    for (const start of starts) start();
    const running = [...this.#streams].map(([resource, { stream }]) => this.#guard(resource, stream.run(signal)));
    await Promise.all([...running, this.#tend(signal), this.#keepUp(signal)]);
    return this.#end;
  }

  /** `from`: the resource's watermarks, if it is whole up to there. */
  #start(resource: CachedResource, from: { readonly least: string; readonly greatest: string } | undefined, signal: AbortSignal): void {
    const { store, kube, clock, random, digester, log, metrics, guard } = this.#ports;
    const { cluster, batchingWindowMs, knowsOwn } = this.#options;
    const lanes = { cluster, resource, lanes: LANES[resource], epoch: this.#epoch, fence: this.#fence };
    const waits = { ...(batchingWindowMs !== undefined && { batchingWindowMs }), ...(knowsOwn !== undefined && { knowsOwn }) };
    const sender = new LaneSender(this.#ports, { ...lanes, ...waits }, signal);
    const openGeneration = async (): Promise<{ generation: number; floor: string }> => {
      const opened = await store.openGeneration({ epoch: this.#epoch, fence: this.#fence, resource });
      if (opened.kind === "open") return opened;
      this.#finish(opened.kind === "fenced" ? opened : { kind: "newEpoch", why: "the epoch vanished" });
      throw new Error("the generation cannot be opened");
    };
    const quarantine = async (what: string, where: string, why: string): Promise<void> => {
      log.error("quarantined", { what, where, why });
      await store.quarantine({ what, where, why, atMs: clock.now() });
    };
    const cachedVersions = (): Promise<VersionSet> => readVersions(store, resource);
    const stream = new ResourceStream(
      { kube, sink: sender, clock, random, digester, log, metrics, openGeneration, cachedVersions, quarantine, look: guard?.look },
      resource,
      from?.least,
      from?.greatest,
    );
    this.#streams.set(resource, { stream, sender });
  }

  async #guard(resource: CachedResource, running: Promise<void>): Promise<void> {
    try {
      await running;
    } catch (error) {
      if (error instanceof HistoryRegressedError) return this.#finish({ kind: "newEpoch", why: error.message });
      this.#finish({ kind: "raise", why: `the stream of ${resource} failed: ${describeError(error)}` });
    }
  }

  async #keepUp(signal: AbortSignal): Promise<void> {
    const { upkeep } = this.#options;
    if (!upkeep) return;
    const relist = (resource: CachedResource, why: string): void => this.#streams.get(resource)?.stream.relist(why);
    await runUpkeep({ ...this.#ports, ...upkeep }, { epoch: this.#epoch, times: upkeep, relist }, signal);
  }

  /** Checkpoints, heartbeats and the sweeper, once a second or so. */
  async #tend(signal: AbortSignal): Promise<void> {
    for (let beat = 1; !signal.aborted; beat++) {
      await this.#ports.clock.after(CHECKPOINT_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        for (const { sender } of this.#streams.values()) sender.heartbeat();
        await this.#checkpoint();
        if (beat % SWEEP_EVERY_CHECKPOINTS === 0) await this.#sweep();
      } catch (error) {
        this.#ports.metrics?.count("deltaloop_checkpoints_total", { result: "failed" });
        this.#ports.log.warn("checkpoint failed, the next one tries again", { error: describeError(error) });
      }
      if (this.#isFull || beat % FORGET_EVERY_CHECKPOINTS === 0) await this.#forget();
    }
  }

  async #checkpoint(): Promise<void> {
    const sent = Object.fromEntries([...this.#streams].map(([resource, { sender }]) => [resource, sender.sentRV]));
    const beat = ++this.#beat;
    const result = await this.#ports.store.checkpoint({ epoch: this.#epoch, fence: this.#fence, sent, beat, answered: this.#answered });
    this.#ports.metrics?.count("deltaloop_checkpoints_total", { result: result.kind });
    if (result.kind === "fenced") return this.#finish(result);
    if (result.kind === "setBack") return this.#finish({ kind: "raise", why: `the store was set back: ${result.why}` });
    if (result.kind === "damaged") return this.#finish({ kind: "newEpoch", why: `the store is damaged: ${result.why}` });
    if (result.kind === "noEpoch") return this.#finish({ kind: "newEpoch", why: "the epoch vanished: the store was flushed or replaced" });
    this.#answered = beat;
    this.#noteFull(result.full ?? false);
    for (const health of result.resources) {
      this.#tell(health);
      this.#mend(health);
    }
  }

  #noteFull(isFull: boolean): void {
    const { clock, log, metrics } = this.#ports;
    metrics?.set("deltaloop_store_full", {}, isFull ? 1 : 0);
    if (isFull) this.#fullMs = clock.now();
    if (isFull && !this.#isFull) log.error("the store is full: what comes is left out and gates shut until it has room");
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

  #mend(health: ResourceHealth): void {
    const { resource } = health;
    if ((health.holeForMs ?? 0) > this.#options.holeRelistMs)
      return this.#finish({ kind: "raise", why: `a message of ${resource} never arrived` });
    if (this.#ports.clock.now() - this.#fullMs < FULL_SETTLE_MS) return;
    if (health.state === "SUSPECT" && health.generation === health.syncedGeneration) {
      return this.#finish({ kind: "raise", why: `the cache of ${resource} is suspect` });
    }
    if (health.frozenLanes.length === 0) return void this.#failedLists.delete(resource);
    const now = this.#ports.clock.now();
    const failed = this.#failedLists.get(resource);
    if (failed && now - failed.askedMs < LIST_PATIENCE_MS) return;
    if (failed && failed.lists >= FAILED_LISTS_MAX)
      return this.#finish({ kind: "raise", why: `lists of ${resource} keep leaving lanes frozen` });
    this.#failedLists.set(resource, { lists: (failed?.lists ?? 0) + 1, askedMs: now });
    this.#streams.get(resource)?.stream.relist(`lanes ${health.frozenLanes.join(", ")} miss listed objects`);
  }

  async #sweep(): Promise<void> {
    const bells = await this.#ports.store.sweep(this.#epoch);
    if (bells.length === 0) return;
    this.#ports.metrics?.count("deltaloop_sweeper_rings_total", {}, bells.length);
    await ring({ ...this.#ports, metrics: undefined }, bells);
  }

  /** What older epochs have left: it may be what a Store that refuses checkpoints lacks. */
  async #forget(): Promise<void> {
    const { store, log } = this.#ports;
    try {
      const keys = await store.forgetEpochs(this.#epoch, this.#isFull);
      if (keys > 0) log.info("keys of older epochs removed", { keys });
    } catch (error) {
      log.warn("keys of older epochs were not removed, it is tried again", { error: describeError(error) });
    }
  }

  #finish(end: End): void {
    if (this.#ended.signal.aborted) return;
    this.#end = end;
    this.#ended.abort(new Error(end.kind));
  }
}

/** What the cache holds: a listed object at that version need not travel again. */
async function readVersions(store: Store, resource: CachedResource): Promise<VersionSet> {
  const hashes: number[] = [];
  for (let lane = 0; lane < LANES[resource]; lane++)
    for (const { key, uid, rv } of (await store.readLane(resource, lane)).rows) hashes.push(VersionSet.hashOf(key, uid, rv));
  return new VersionSet(hashes);
}
