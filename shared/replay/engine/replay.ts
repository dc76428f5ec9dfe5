/**
 * Feeds a capture through the real watcher and functions under a virtual clock, in shadow mode: every sync is reported with
 * its reasons and decided writes, nothing is sent, and only the stream changes the cache (design decision 9).
 *
 * The same capture, faults and seed give the same output; with faults, other seeds order syncs differently, with the same final cache.
 */
import { createHash } from "node:crypto";
import type { QueueFaults } from "@deltaloop/store/memory";
import { createVirtualClock, createSeededRandom } from "@deltaloop/base/memory";
import type { ReleaseAt } from "@deltaloop/kube/releases";
import type { Digester } from "@deltaloop/kube/pod-template";
import { LANES, SIGNATURE_CHARACTERS } from "@deltaloop/store/ports";
import { CACHED_RESOURCES, tableOf } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import { assembleSystem, memoryBackend } from "@deltaloop/local";
import type { MakeHandlers, SystemPorts } from "@deltaloop/local";
import type { KubeWriter } from "@deltaloop/kube/client";
import type { Clock, Log } from "@deltaloop/base";
import type { Signer, Store } from "@deltaloop/store/ports";
import { captureCluster, play } from "../capture-format/capture-cluster.ts";
import type { CaptureCluster, PlayOptions } from "../capture-format/capture-cluster.ts";
import type { CaptureRecord } from "../capture-format/capture.ts";
import type { Capture } from "../capture-format/capture-stream.ts";
import { SyncLog } from "./sync-log.ts";
import type { ReplayedSync } from "./sync-log.ts";

export interface ReplaySummary {
  readonly syncs: number;
  readonly decided: number;
  readonly objects: { readonly [R in CachedResource]: number };
  readonly quarantined: number;
  /** SHA-256 of the canonical final cache: the same for every seed. */
  readonly cacheDigest: string;
}

export interface ReplayOptions {
  readonly digester: Digester;
  readonly seed: number;
  readonly log: Log;
  readonly functions: MakeHandlers;
  /** The release of the recorded cluster at each time. Default: OWN_RELEASE. */
  readonly release?: ReleaseAt;
  readonly onSync: (sync: ReplayedSync) => void;
  /** Faults of messages and doorbells. Default: none. A reordered list keeps the cache incomplete for seconds of recorded time. */
  readonly faults?: () => QueueFaults;
  /** Milliseconds since the epoch: the replay ends here. */
  readonly untilMs?: number;
  /**
   * How long to continue after the last event, or after the cache is complete, so that deadlines and delayed keys become due. Default 30 s.
   */
  readonly tailMs?: number;
  /** Called with the records before they are delivered. */
  readonly see?: PlayOptions["see"];
  /** Returns false for records to leave out of the replayed cluster, because no reported sync depends on their objects. */
  readonly holds?: (record: CaptureRecord) => boolean;
  /** Called between steps; false ends the replay. */
  readonly goesOn?: PlayOptions["goesOn"];
}

const CLUSTER = "replay000000";
const TAIL_MS = 30_000;
/** Time to detect and relist lost or reordered messages; quarantined objects never arrive. */
const CAUGHT_UP_MS_MAX = 120_000;
const STEP_MS = 5_000;

export async function replay(capture: Capture, options: ReplayOptions): Promise<ReplaySummary> {
  const { digester, log, seed, faults = (): QueueFaults => ({}), untilMs = Infinity } = options;
  const clock = createVirtualClock(Number.isFinite(capture.startMs) ? capture.startMs : 0);
  const random = createSeededRandom(seed);
  const cluster = captureCluster(capture, CACHED_RESOURCES, clock, options.holds);
  // Doorbells are not dropped, because a replay is too short for the sweeper to ring them again.
  const doorbellFaults = (): QueueFaults => ({ ...faults(), drop: 0 });
  const cache = { deployment: "replay", cluster: CLUSTER, deltaFaults: faults, doorbellFaults };
  const backend = memoryBackend({ clock, random, digester, ...cache });
  const { store } = backend;
  const syncs = new SyncLog(options.onSync, () => clock.now());
  const kube = { ...cluster, ...NO_WRITER };
  const published = publishedRelease(options.release, clock);
  const system = assembleSystem(
    { clock, random, digester, signer: IN_PROCESS, log, ...backend, ...published, kube: () => kube, functions: options.functions },
    {
      cluster: CLUSTER,
      clusterUid: "replay",
      mode: "shadow",
      batchingWindowMs: 0,
      knowsOwn: false,
      trace: (line) => syncs.trace(line),
      onChanges: (resource, items) => syncs.changed(resource, items),
    },
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
  const stopped = system.stop();
  await clock.advance(TAIL_MS);
  await stopped;
  return summary;
}

/** The port through which a watcher publishes the recorded release. */
export function publishedRelease(release: ReleaseAt | undefined, clock: Pick<Clock, "now">): Pick<SystemPorts, "release"> {
  return release === undefined ? {} : { release: { look: () => Promise.resolve(), current: () => release(clock.now()).name } };
}

/** Signs nothing: queue and Store exist only in this process, so no other client can forge their values. */
const IN_PROCESS: Signer = {
  keyId: "re",
  sign: () => "re".padEnd(SIGNATURE_CHARACTERS, "-"),
  verify: () => "current",
};

const rejectWrite = (): Promise<never> => Promise.reject(new Error("unexpected write during a replay"));
/** A shadow gateway sends nothing, so this is never called. */
const NO_WRITER: KubeWriter = { create: rejectWrite, patch: rejectWrite, delete: rejectWrite, replace: rejectWrite };

/** Whether the cache equals the delivered stream. */
async function holdsAll(store: Store, cluster: CaptureCluster): Promise<boolean> {
  for (const resource of CACHED_RESOURCES) {
    const [rows, versions] = [await rowsOf(store, resource), cluster.versions(resource)];
    if (rows.length !== versions.size || rows.some(({ key, rv }) => versions.get(key) !== rv)) return false;
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
