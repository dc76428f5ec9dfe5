/**
 * An API server simulated from a capture, for the replaying watcher and live reads: lists return the initial state,
 * watches yield each event at its time, reads return the newest state (design decision 9).
 */
import type { CachedResource, Resource, KubeObject } from "@deltaloop/kube/objects";
import { parseLabelSelector } from "@deltaloop/api-server";
import type { VirtualClock } from "@deltaloop/base/memory";
import type { Clock } from "@deltaloop/base";
import { KubeApiError } from "@deltaloop/kube/client";
import type { KubeList, KubeReader, KubeWatch } from "@deltaloop/kube/client";
import type { CaptureRecord } from "./capture.ts";
import type { Capture } from "./capture-stream.ts";
import { labelsOf, versionOf } from "./captured-object.ts";
import type { CapturedObject } from "./capture.ts";
import { Timeline } from "./timeline.ts";

export interface CaptureCluster extends KubeWatch, KubeReader {
  /** Versions, by key, of the objects in the stream so far. */
  versions(resource: CachedResource): ReadonlyMap<string, string>;
  /** Appends records, sorted by time. */
  feed(records: readonly CaptureRecord[]): void;
  /** Marks the end of the stream. */
  end(): void;
  /** Number of buffered events. */
  readonly buffered: number;
  /** Whether every first list has been delivered. */
  readonly isListed: boolean;
}

/** @param holds returns false for records to leave out of the simulated cluster; default: none */
export function captureCluster(
  { firstLists }: Pick<Capture, "firstLists">,
  resources: readonly CachedResource[],
  clock: Clock,
  holds: (record: CaptureRecord) => boolean = () => true,
): CaptureCluster {
  const timelines = new Map<Resource, Timeline>(resources.map((each) => [each, new Timeline(firstLists.get(each) ?? 0, clock)]));
  const of = (resource: Resource): Timeline => timelines.get(resource) ?? new Timeline(0, clock);
  const standing = (resource: Resource): ReadonlyMap<string, CapturedObject> => of(resource).standing();
  return {
    versions: (resource) => new Map([...standing(resource)].map(([key, object]) => [key, versionOf(object)])),
    feed(records) {
      for (const record of records) {
        const { atMs, resource, kind } = record;
        timelines.get(resource)?.feed(holds(record) ? record : { atMs, resource, kind });
      }
    },
    end() {
      for (const timeline of timelines.values()) timeline.end();
    },
    get buffered() {
      return [...timelines.values()].reduce((sum, { buffered }) => sum + buffered, 0);
    },
    get isListed() {
      return [...timelines.values()].every(({ isComplete }) => isComplete);
    },
    listPage: (resource, _query, signal) => of(resource).list(signal),
    newestVersion: (resource) => Promise.resolve(of(resource).newestVersion()),
    watch(resource, query, signal) {
      if (query.sendInitialEvents)
        throw new KubeApiError({ code: 422, reason: "Invalid", message: "a capture supports paginated lists only" });
      return of(resource).watch(query.resourceVersion ?? "0", signal);
    },
    get: (resource, namespace, name) => Promise.resolve(standing(resource).get(`${namespace}/${name}`) as KubeObject | undefined),
    list: (resource, namespace, options) => {
      const selected = parseLabelSelector(options?.labelSelector ?? "");
      const items = [...standing(resource)]
        .filter(([key, object]) => key.startsWith(`${namespace}/`) && selected(labelsOf(object)))
        .map(([, object]) => object);
      const list: KubeList = { resourceVersion: "0", items: items as unknown as KubeObject[] }; // captured objects are API objects
      return Promise.resolve(list);
    },
  };
}

/** Limit of buffered events: those that are fed before their time, and those that the watcher has not received yet. */
export const HELD_MAX = 2_000;
/** Poll interval while the watcher's lanes are full. */
const FULL_STEP_MS = 100;
const FULL_MS_MAX = 120_000;

export interface PlayOptions {
  /** Records after this time are not delivered. */
  readonly untilMs: number;
  /** Receives records before they are delivered. */
  readonly see?: (records: readonly CaptureRecord[]) => void;
  /** Called between two steps; returning false ends the replay. */
  readonly goesOn?: () => Promise<boolean>;
}

/**
 * Feeds the records of a capture to a cluster, batch by batch, and advances the clock to the last record. The records of the first lists
 * are delivered before the clock advances, as far as the buffer allows.
 *
 * @returns whether the capture was played to its end
 */
export async function play(capture: Capture, cluster: CaptureCluster, clock: VirtualClock, options: PlayOptions): Promise<boolean> {
  const { untilMs, see, goesOn } = options;
  const lastMs = Math.min(untilMs, capture.endMs);
  const moveTo = (ms: number): Promise<void> => clock.advance(Math.max(0, Math.min(ms, lastMs) - clock.now()));
  let deliveredMs = -Infinity;
  for await (const batch of capture.batches()) {
    see?.(batch);
    cluster.feed(batch);
    deliveredMs = batch.at(-1)?.atMs ?? deliveredMs;
    if (!cluster.isListed && cluster.buffered < HELD_MAX) continue;
    await moveTo(deliveredMs);
    for (let waitedMs = 0; cluster.buffered > HELD_MAX && clock.now() < lastMs; waitedMs += FULL_STEP_MS) {
      if (waitedMs > FULL_MS_MAX) throw new Error("the replaying watcher does not consume the capture's events");
      await clock.advance(FULL_STEP_MS);
    }
    if (deliveredMs > untilMs) break;
    if (goesOn && !(await goesOn())) return false;
  }
  cluster.end();
  await moveTo(lastMs);
  return goesOn === undefined || goesOn();
}
