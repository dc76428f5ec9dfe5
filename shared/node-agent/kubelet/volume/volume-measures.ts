/**
 * What the volumes of pods take of their disks, found out beside everything else (node-agent §14.5): a container can make a tree that
 * takes minutes to look at.
 *
 * VM1 nobody waits for a measure. Who asks is told what the last one found that has ended.
 * VM2 of one pod a volume at a time is measured; how many pods' at once is for NodeFiles.
 * VM3 a pod is measured anew 1 to 2 min after the last time, one that has a limit of its own at the next look; but never for more than
 *    a tenth of the time.
 * VM4 a volume that cannot be measured is told once, by name, and keeps neither the pod's others nor other pods. Of one that can be in
 *    part, the part counts, or what was found before if that was more.
 *
 * Source: pkg/kubelet/server/stats/volume_stat_calculator.go, fs_resource_analyzer.go.
 */
import type { Clock, Log, Random } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import type { DiskUsage, NodeFiles, VolumePlace, VolumeUsage } from "../../ports/node-files.ts";
import { hasStorageLimit } from "../eviction/local-storage.ts";
import { countsForEviction } from "../eviction/usage.ts";
import type { NodePod, VolumeSpec } from "../types/pod.ts";
import { volumePlans } from "./volumes.ts";

/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go VolumeStatsAggPeriod; jitter up to as much again. */
const PERIOD_MS = 60_000;
/** Of the time that a measure took, before the next. */
const REST_FACTOR = 9;

interface MeasurePorts {
  readonly files: Pick<NodeFiles, "volumeUsage">;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

interface Measures {
  readonly found: Map<string, DiskUsage>;
  /** Volumes of which something could not be measured, and that was said. */
  readonly told: Set<string>;
  isGoing: boolean;
  dueMs: number;
}

const NONE: ReadonlyMap<string, DiskUsage> = new Map();

export class VolumeMeasures {
  readonly #ports: MeasurePorts;
  #pods: ReadonlyMap<string, Measures> = new Map();

  constructor(ports: MeasurePorts) {
    this.#ports = ports;
  }

  /** By the name of the volume; one that was not measured yet is not there. */
  of(uid: string): ReadonlyMap<string, DiskUsage> {
    return this.#pods.get(uid)?.found ?? NONE;
  }

  /** Begins what is due, and forgets all other pods. */
  look(pods: readonly NodePod[]): void {
    const before = this.#pods;
    const nowMs = this.#ports.clock.now();
    const fresh = (): Measures => ({ found: new Map(), told: new Set(), isGoing: false, dueMs: nowMs });
    const known = pods.map((pod) => [pod, before.get(pod.metadata.uid) ?? fresh()] as const);
    this.#pods = new Map(known.map(([pod, measures]) => [pod.metadata.uid, measures]));
    for (const [pod, measures] of known) if (!measures.isGoing && nowMs >= measures.dueMs) void this.#measure(pod, measures);
  }

  async #measure(pod: NodePod, measures: Measures): Promise<void> {
    const { clock, random } = this.#ports;
    const places = volumePlaces(pod, countsForEviction);
    if (places.length === 0) {
      measures.dueMs = Infinity; // a pod's volumes never change
      return;
    }
    const startMs = clock.now();
    measures.isGoing = true;
    for (const place of places) await this.#measureOne(pod, place, measures);
    measures.isGoing = false;
    const isSoon = hasStorageLimit(pod) || measures.found.size < places.length;
    const restMs = REST_FACTOR * (clock.now() - startMs);
    measures.dueMs = clock.now() + Math.max(restMs, isSoon ? 0 : PERIOD_MS * (1 + random.next()));
  }

  async #measureOne({ metadata }: NodePod, place: VolumePlace, { found, told }: Measures): Promise<void> {
    const { files, log } = this.#ports;
    const { name } = place;
    let failure: string | undefined;
    try {
      const usage = await files.volumeUsage(place);
      if (usage === undefined) found.delete(name);
      else found.set(name, usage.failure === undefined ? usage : larger(usage, found.get(name)));
      failure = usage?.failure;
    } catch (error) {
      failure = describeError(error);
    }
    if (failure === undefined) told.delete(name);
    else if (!told.has(name)) {
      told.add(name);
      log.warn("a volume was not measured as a whole", { pod: `${metadata.namespace}/${metadata.name}`, volume: name, error: failure });
    }
  }
}

/** Of the pod's volumes those that have a directory of their own, and are wanted. */
export function volumePlaces(pod: NodePod, isWanted: (volume: VolumeSpec) => boolean): readonly VolumePlace[] {
  const wanted = new Set((pod.spec.volumes ?? []).filter(isWanted).map(({ name }) => name));
  if (wanted.size === 0) return [];
  return volumePlans(pod).flatMap(({ kind, plugin, name }) =>
    wanted.has(name) && (kind === "emptyDir" || kind === "payload") ? [{ uid: pod.metadata.uid, plugin, name }] : [],
  );
}

function larger(now: VolumeUsage, before: DiskUsage | undefined): DiskUsage {
  return {
    usedBytes: Math.max(now.usedBytes, before?.usedBytes ?? 0),
    inodesUsed: Math.max(now.inodesUsed, before?.inodesUsed ?? 0),
  };
}
