/**
 * Feeds a capture through the real watcher and the real functions under a virtual clock, in shadow: every sync is shown with
 * its reasons and the writes it decided, nothing is sent, and only the stream changes the cache (design decision 9).
 *
 * The same capture and seed give the same lines; another seed may order syncs differently, the final cache is the same.
 */
import { createHash } from "node:crypto";
import { createMemoryDeltaQueue } from "../adapters/memory/queue/delta-queue.ts";
import { createMemoryDoorbells } from "../adapters/memory/queue/doorbells.ts";
import type { QueueFaults } from "../adapters/memory/queue/queue.ts";
import { createVirtualClock } from "../adapters/memory/clock.ts";
import { createSeededRandom } from "../adapters/memory/random.ts";
import { createMemoryStore } from "../adapters/memory/store/store.ts";
import type { Digester } from "../api/digest.ts";
import { LANES } from "../api/lane.ts";
import { CACHED_RESOURCES, tableOf } from "../api/resources.ts";
import type { CachedResource } from "../api/resources.ts";
import type { ApplierPorts } from "../cache/applier.ts";
import { createSigner } from "../api/signer.ts";
import { cacheIdentity } from "../cache/identity.ts";
import { runWatcher } from "../cache/watcher.ts";
import { serving } from "../lambda/wiring.ts";
import type { FunctionWiring } from "../lambda/wiring.ts";
import { startFunctionHost } from "../local/function-host.ts";
import type { FunctionHandlers } from "../local/function-host.ts";
import type { KubeWriter } from "../ports/kube.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";
import { HOLE_LIMIT_MS, HOLE_RELIST_MS } from "../ports/times.ts";
import { captureCluster, play } from "./capture-cluster.ts";
import type { CaptureCluster, PlayOptions } from "./capture-cluster.ts";
import type { Capture } from "./capture-stream.ts";
import { SyncLog } from "./sync-log.ts";
import type { ReplayedSync } from "./sync-log.ts";

export type { ReplayedSync } from "./sync-log.ts";

export interface ReplaySummary {
  readonly syncs: number;
  readonly decided: number;
  readonly objects: { readonly [R in CachedResource]: number };
  readonly quarantined: number;
  /** SHA-256 over the canonical final cache: equal for every seed. */
  readonly cacheDigest: string;
}

export interface ReplayOptions {
  readonly digester: Digester;
  readonly seed: number;
  readonly log: Log;
  /** Makes the functions; shared/ knows none (cli/functions/functions.ts). */
  readonly functions: (
    wiring: (functionName: string) => FunctionWiring,
    onChanges: NonNullable<ApplierPorts["onChanges"]>,
  ) => FunctionHandlers;
  readonly onSync: (sync: ReplayedSync) => void;
  /** What befalls messages and doorbells; default: as the seed chooses, in another order and some of them twice. */
  readonly faults?: () => QueueFaults;
  /** Milliseconds since the epoch: nothing later is told, and nothing waited for. */
  readonly untilMs?: number;
  /** How long to go on after the last event, or after the cache holds it: deadlines and re-checks fall due. Default 30 s. */
  readonly tailMs?: number;
  /** Sees the records as they are told. */
  readonly see?: PlayOptions["see"];
  /** Asked again and again, while nothing moves; false ends the replay there. */
  readonly goesOn?: PlayOptions["goesOn"];
}

const CLUSTER = "replay000000";
const TAIL_MS = 30_000;
/** Until lost or reordered messages are missed and listed again; what is quarantined never comes. */
const CAUGHT_UP_MS_MAX = 120_000;
const STEP_MS = 5_000;
/** What the seed chooses: the order in which messages and doorbells come, and which of them come twice. */
const SEEDED = (): QueueFaults => ({ reorder: 1 / 2, duplicate: 1 / 10, delayMsMax: 1000 });

export async function replay(capture: Capture, options: ReplayOptions): Promise<ReplaySummary> {
  const { digester, log, seed, faults = SEEDED, untilMs = Infinity } = options;
  const clock = createVirtualClock(Number.isFinite(capture.startMs) ? capture.startMs : 0);
  const random = createSeededRandom(seed);
  const cluster = captureCluster(capture, CACHED_RESOURCES, clock);
  const identity = cacheIdentity(digester);
  // Queue and Store live in this process alone, and so may their key.
  const signer = createSigner([`replay ${seed}`], CLUSTER);
  const store = createMemoryStore({ deployment: "replay", cluster: CLUSTER, identity, holeLimitMs: HOLE_LIMIT_MS, clock });
  const queue = createMemoryDeltaQueue({ clock, random, faults });
  // A doorbell that is lost is rung again by the sweep, which a replay is too short for.
  const doorbells = createMemoryDoorbells({ clock, random, cluster: CLUSTER, faults: () => ({ ...faults(), drop: 0 }) });
  const syncs = new SyncLog(options.onSync, () => clock.now());
  const served = serving(CLUSTER, { ...cluster, ...NOBODY }, "shadow", { store, signer, doorbells });
  const wiring = (): FunctionWiring => ({ clock, random, log, digester, ...served, trace: (line) => syncs.trace(line) });
  const handlers = options.functions(wiring, (resource, items) => syncs.changed(resource, items));
  const host = startFunctionHost({ sources: { deltas: queue, doorbells: doorbells.sources }, handlers, clock, log });
  const ends = new AbortController();
  let fence = 1;
  const leadership = {
    fence: () => String(fence),
    holds: () => true,
    raise: () => Promise.resolve(String(++fence)),
    lost: new AbortController().signal,
    release: () => Promise.resolve(),
  };
  const watching = runWatcher(
    { kube: cluster, store, queue, doorbells, clock, random, digester, signer, log, lead: () => Promise.resolve(leadership) },
    { cluster: CLUSTER, clusterUid: "replay", identity, holeRelistMs: HOLE_RELIST_MS, batchingWindowMs: 0, knowsOwn: false },
    ends.signal,
  );
  const { see, goesOn } = options;
  const isPlayed = await play(capture, cluster, clock, { untilMs, ...(see && { see }), ...(goesOn && { goesOn }) });
  const isWhole = isPlayed && untilMs === Infinity;
  for (let waitedMs = 0; isWhole && waitedMs < CAUGHT_UP_MS_MAX && !(await holdsAll(store, cluster)); waitedMs += STEP_MS)
    await clock.advance(STEP_MS);
  await clock.advance(isWhole ? (options.tailMs ?? TAIL_MS) : 0);
  const summary = {
    ...(await summarise(store)),
    syncs: syncs.count,
    decided: syncs.decided,
    quarantined: (await store.quarantined()).length,
  };
  ends.abort(new Error("the capture ended"));
  const stopped = Promise.all([watching, host.stop()]);
  await clock.advance(TAIL_MS);
  await stopped;
  return summary;
}

/** Nothing leaves a shadow gateway, so nobody is ever called. */
const NOBODY: KubeWriter = {
  create: () => Promise.reject(new Error("a replay sends nothing")),
  patch: () => Promise.reject(new Error("a replay sends nothing")),
  delete: () => Promise.reject(new Error("a replay sends nothing")),
  replace: () => Promise.reject(new Error("a replay sends nothing")),
};

/** Whether the cache is what the stream has told. */
async function holdsAll(store: Store, cluster: CaptureCluster): Promise<boolean> {
  for (const resource of CACHED_RESOURCES) {
    const [rows, told] = [await rowsOf(store, resource), cluster.versions(resource)];
    if (rows.length !== told.size || rows.some(({ key, rv }) => told.get(key) !== rv)) return false;
  }
  return true;
}

async function rowsOf(store: Store, resource: CachedResource): Promise<LaneRows> {
  const lanes = await Promise.all(Array.from({ length: LANES[resource] }, (_, lane) => store.readLane(resource, lane)));
  return lanes.flatMap((lane) => lane.rows);
}

type LaneRows = Awaited<ReturnType<Store["readLane"]>>["rows"];

/** The whole cache in canonical order. */
async function summarise(store: Store): Promise<Pick<ReplaySummary, "objects" | "cacheDigest">> {
  const hash = createHash("sha256");
  const objects: Record<CachedResource, number> = { ...tableOf(CACHED_RESOURCES, () => 0) };
  for (const resource of CACHED_RESOURCES) {
    const rows = (await rowsOf(store, resource)).toSorted((a, b) => (a.key < b.key ? -1 : 1));
    objects[resource] = rows.length;
    for (const { key, uid, rv, owner } of rows) hash.update(`${resource} ${key} ${uid} ${rv} ${owner ?? "-"}\n`);
  }
  return { objects, cacheDigest: hash.digest("hex") };
}
