/**
 * Measures the disk usage of volumes in the background (node-agent §14.5), because a large directory tree can take minutes.
 *
 * VM1 callers never wait; they get the latest complete result.
 * VM2 one volume per pod is measured at a time; NodeFiles limits concurrency across pods.
 * VM3 a pod is measured again after 1 to 2 min, and a pod with a storage limit at the next round. At most a tenth of the time is spent
 *     measuring.
 * VM4 a failure is logged once per volume and does not affect other volumes. The larger of the partial and the previous result is used.
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

/**
 * Minimum period between measurements; up to 100 % of jitter is added. Source: pkg/kubelet/apis/config/v1beta1/defaults.go
 * VolumeStatsAggPeriod.
 */
const PERIOD_MS = 60_000;
/** Pause after a measurement, as a multiple of its duration. */
const REST_FACTOR = 9;

interface MeasurePorts {
  readonly files: Pick<NodeFiles, "volumeUsage">;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

interface Measures {
  readonly found: Map<string, DiskUsage>;
  /** Volumes whose failure has been logged. */
  readonly logged: Set<string>;
  isRunning: boolean;
  dueMs: number;
}

const NONE: ReadonlyMap<string, DiskUsage> = new Map();

export class VolumeMeasures {
  readonly #ports: MeasurePorts;
  #pods: ReadonlyMap<string, Measures> = new Map();

  constructor(ports: MeasurePorts) {
    this.#ports = ports;
  }

  /** Returns the usage by volume name; omits volumes that have not been measured. */
  of(uid: string): ReadonlyMap<string, DiskUsage> {
    return this.#pods.get(uid)?.found ?? NONE;
  }

  /** Starts the measurements of `pods` that are due, and deletes the results of all other pods. */
  measureDue(pods: readonly NodePod[]): void {
    const before = this.#pods;
    const nowMs = this.#ports.clock.now();
    const fresh = (): Measures => ({ found: new Map(), logged: new Set(), isRunning: false, dueMs: nowMs });
    const known = pods.map((pod) => [pod, before.get(pod.metadata.uid) ?? fresh()] as const);
    this.#pods = new Map(known.map(([pod, measures]) => [pod.metadata.uid, measures]));
    for (const [pod, measures] of known) if (!measures.isRunning && nowMs >= measures.dueMs) void this.#measure(pod, measures);
  }

  async #measure(pod: NodePod, measures: Measures): Promise<void> {
    const { clock, random } = this.#ports;
    const places = volumePlaces(pod, countsForEviction);
    if (places.length === 0) {
      measures.dueMs = Infinity; // no volume to measure, and a pod's volumes never change
      return;
    }
    const startMs = clock.now();
    measures.isRunning = true;
    for (const place of places) await this.#measureOne(pod, place, measures);
    measures.isRunning = false;
    const isSoon = hasStorageLimit(pod) || measures.found.size < places.length;
    const restMs = REST_FACTOR * (clock.now() - startMs);
    measures.dueMs = clock.now() + Math.max(restMs, isSoon ? 0 : PERIOD_MS * (1 + random.next()));
  }

  async #measureOne({ metadata }: NodePod, place: VolumePlace, { found, logged }: Measures): Promise<void> {
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
    if (failure === undefined) logged.delete(name);
    else if (!logged.has(name)) {
      logged.add(name);
      log.warn("volume usage is unknown or incomplete", { pod: `${metadata.namespace}/${metadata.name}`, volume: name, error: failure });
    }
  }
}

/** Returns the selected volumes of the pod that have a directory of their own. */
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
