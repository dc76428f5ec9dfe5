/**
 * An API server made of a capture, for the replaying watcher and for live reads: lists answer what the stream held when it
 * began, watches yield each event at its own time, reads answer the stream's newest state (design decision 9).
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
  /** By key: the versions of what the stream has told until now. */
  versions(resource: CachedResource): ReadonlyMap<string, string>;
  /** What comes next, by time. */
  feed(records: readonly CaptureRecord[]): void;
  /** Nothing more comes. */
  end(): void;
  /** Events that it holds. */
  readonly held: number;
  /** Whether each first list has ended. */
  readonly isListed: boolean;
}

export function captureCluster(
  { firstLists }: Pick<Capture, "firstLists">,
  resources: readonly CachedResource[],
  clock: Clock,
): CaptureCluster {
  const timelines = new Map<Resource, Timeline>(resources.map((each) => [each, new Timeline(firstLists.get(each) ?? 0, clock)]));
  const of = (resource: Resource): Timeline => timelines.get(resource) ?? new Timeline(0, clock);
  const standing = (resource: Resource): ReadonlyMap<string, CapturedObject> => of(resource).standing();
  return {
    versions: (resource) => new Map([...standing(resource)].map(([key, object]) => [key, versionOf(object)])),
    feed(records) {
      for (const record of records) timelines.get(record.resource)?.feed(record);
    },
    end() {
      for (const timeline of timelines.values()) timeline.end();
    },
    get held() {
      return [...timelines.values()].reduce((sum, { held }) => sum + held, 0);
    },
    get isListed() {
      return [...timelines.values()].every(({ isComplete }) => isComplete);
    },
    listPage: (resource, _query, signal) => of(resource).list(signal),
    newestVersion: (resource) => Promise.resolve(of(resource).newestVersion()),
    watch(resource, query, signal) {
      if (query.sendInitialEvents) throw new KubeApiError({ code: 422, reason: "Invalid", message: "a capture is listed by pages" });
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

/** Events that are told ahead of their time, and those that the watcher has not taken yet. */
export const HELD_MAX = 2_000;
/** The watcher's lanes are full: it takes more as soon as they are not. */
const FULL_STEP_MS = 100;
const FULL_MS_MAX = 120_000;

export interface PlayOptions {
  /** Nothing later is told. */
  readonly untilMs: number;
  /** Sees what is told, before it is. */
  readonly see?: (records: readonly CaptureRecord[]) => void;
  /** Between two steps; false ends it there. */
  readonly goesOn?: () => Promise<boolean>;
}

/**
 * Tells a cluster what its capture holds, a batch at a time, and moves the clock to the last of it. What leads to the first lists is told
 * before anything moves, as far as there is room.
 *
 * @returns whether it came to its end
 */
export async function play(capture: Capture, cluster: CaptureCluster, clock: VirtualClock, options: PlayOptions): Promise<boolean> {
  const { untilMs, see, goesOn } = options;
  const lastMs = Math.min(untilMs, capture.endMs);
  const moveTo = (ms: number): Promise<void> => clock.advance(Math.max(0, Math.min(ms, lastMs) - clock.now()));
  let toldMs = -Infinity;
  for await (const batch of capture.batches()) {
    see?.(batch);
    cluster.feed(batch);
    toldMs = batch.at(-1)?.atMs ?? toldMs;
    if (!cluster.isListed && cluster.held < HELD_MAX) continue;
    await moveTo(toldMs);
    for (let waitedMs = 0; cluster.held > HELD_MAX && clock.now() < lastMs; waitedMs += FULL_STEP_MS) {
      if (waitedMs > FULL_MS_MAX) throw new Error("the replaying watcher takes nothing of what the capture tells");
      await clock.advance(FULL_STEP_MS);
    }
    if (toldMs > untilMs) break;
    if (goesOn && !(await goesOn())) return false;
  }
  cluster.end();
  await moveTo(lastMs);
  return goesOn === undefined || goesOn();
}
