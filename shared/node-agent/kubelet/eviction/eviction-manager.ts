/**
 * The eviction manager: node-pressure eviction every ten seconds (node-agent §14.5).
 *
 * NE1 a round first evicts all pods that exceed their local storage limits, or else one pod for a starved resource.
 * NE2 node-level reclaim comes before evicting pods, followed by a new measurement.
 * NE3 the next round starts when the evicted pods are cleaned up or the wait has timed out.
 * NE4 pods are measured only if needed: those with a storage limit, or all when one must be evicted.
 * NE5 a round never waits for a volume walk; it uses the latest results (volume-measures.ts).
 */
import type { AbnormalTermination } from "../../ports/node-store.ts";
import { activePods } from "../pod-workers/active-pods.ts";
import { isCriticalPod } from "../types/critical-pod.ts";
import { hasStorageLimit, storageExcess } from "./local-storage.ts";
import { EVICTED, evictionMessage } from "./messages.ts";
import {
  evictionGraceSeconds,
  IMMEDIATE_GRACE_SECONDS,
  NO_PRESSURE,
  observePressure,
  thresholdsMet,
  thresholdToReclaim,
} from "./pressure.ts";
import type { Observations, Pressure } from "./pressure.ts";
import { rankPods } from "./rank.ts";
import { reclaimers, type Reclaimer } from "./reclaim.ts";
import { withContainerFs, type Disks, type Signal, type StarvedResource, type Threshold } from "../types/eviction-thresholds.ts";
import type { PodUsages } from "./usage.ts";
import { nodeReference } from "../events/event-recorder.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { NodePod } from "../types/pod.ts";
import { attempt } from "../node-ports/attempt.ts";
import { measureNode, measurePods } from "./measure.ts";
import { updateWorker } from "../pod-workers/update-worker.ts";

/** Source: pkg/kubelet/kubelet.go evictionMonitoringPeriod. */
const PERIOD_MS = 10_000;
/** Source: eviction_manager.go podCleanupTimeout; pkg/kubelet/pod_workers.go killPodNow. */
const CLEANUP_MS = 30_000;
const KILL_MS_MIN = 10_000;
const KILL_GRACE_FACTOR = 1.5;

interface Eviction {
  readonly pod: NodePod;
  readonly signal: string;
  readonly graceSeconds: number;
  readonly message: string;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Whether the eviction counts as a disruption; false for a pod that exceeded its own limit. */
  readonly isDisruption: boolean;
}

export class Evictor {
  readonly #ports: NodePorts;
  readonly #reclaim: { readonly [R in Reclaimer]: () => Promise<void> };
  #pressure: Pressure = NO_PRESSURE;
  #evicted: { readonly uids: readonly string[]; readonly untilMs: number } | undefined;
  #nextMs = 0;

  constructor(ports: NodePorts, reclaim: { readonly [R in Reclaimer]: () => Promise<void> }) {
    this.#ports = ports;
    this.#reclaim = reclaim;
  }

  /** Called every second. @throws if measuring fails; the next call retries */
  async synchronize(): Promise<void> {
    const { clock, log } = this.#ports;
    if (this.#evicted !== undefined) {
      const areGone = await this.#areGone(this.#evicted.uids);
      if (!areGone && clock.now() < this.#evicted.untilMs) return;
      if (!areGone) log.warn("evicted pods are not cleaned up yet; continuing", { pods: this.#evicted.uids.join() });
      this.#evicted = undefined;
    } else if (clock.now() < this.#nextMs) return;
    this.#nextMs = clock.now() + PERIOD_MS;
    const evicted = await this.#round();
    if (evicted.length === 0) return;
    const killMs = Math.max(KILL_MS_MIN, ...evicted.map(({ graceSeconds }) => graceSeconds * 1000 * KILL_GRACE_FACTOR));
    this.#evicted = { uids: evicted.map(({ pod }) => pod.metadata.uid), untilMs: clock.now() + killMs + CLEANUP_MS };
  }

  /** Measures the node once, and returns the evictions. Source: eviction_manager.go synchronize. */
  async #round(): Promise<readonly Eviction[]> {
    const { clock, condition, options, log, volumes } = this.#ports;
    const pods = await this.#activePods();
    volumes.measureDue(pods);
    const { observations, disks } = await measureNode(this.#ports);
    const thresholds = withContainerFs(options.eviction.thresholds, disks);
    const policy = { ...options.eviction, thresholds };
    const { pressure, conditions } = observePressure(this.#pressure, observations, policy, clock.now());
    this.#pressure = pressure;
    condition.pressure = conditions;

    const wanted = thresholdToReclaim(pressure.toActOn);
    const measured = wanted === undefined ? pods.filter(hasStorageLimit) : pods;
    const usages = await measurePods(this.#ports, measured);
    const overLimit = await this.#evict(localStorageEvictions(measured, usages, disks), measured.length);
    if (overLimit.length > 0 || wanted === undefined) return overLimit;
    const { threshold, resource } = wanted;
    log.warn("eviction threshold met", { resource, signal: threshold.signal, ...shown(observations, threshold.signal) });
    this.#ports.record({
      involved: nodeReference(options.nodeName),
      type: "Warning",
      reason: "EvictionThresholdMet",
      message: `Attempting to reclaim ${resource}`,
    });
    if (await this.#reclaimNodeLevel(threshold.signal, thresholds, disks)) return [];

    const ranked = rankPods(threshold.signal, pods, usages, disks);
    const evictions = ranked.map((pod) => this.#evictionOf(resource, threshold, { pod, usages, observations }));
    const evicted = await this.#evict(evictions, 1);
    if (evicted.length === 0) log.warn("eviction threshold met, but no pod can be evicted", { resource });
    return evicted;
  }

  async #activePods(): Promise<readonly NodePod[]> {
    const { store, pods, condition } = this.#ports;
    const [records, statuses] = [await store.rows("workers"), await store.rows("statuses")];
    return activePods({ desired: pods.desired(), records, statuses, hasRelisted: condition.relisted !== undefined });
  }

  /** Reclaims node-level resources (NE2). Source: eviction_manager.go reclaimNodeLevelResources. */
  async #reclaimNodeLevel(signal: Signal, thresholds: readonly Threshold[], disks: Disks): Promise<boolean> {
    const kinds = reclaimers(signal, disks);
    if (kinds.length === 0) return false;
    for (const kind of kinds) await attempt(this.#ports.log, "node-level reclaim failed", { what: kind }, this.#reclaim[kind]);
    const { observations } = await measureNode(this.#ports);
    return thresholdsMet(thresholds, observations, { withReclaim: true }).length === 0;
  }

  #evictionOf(
    resource: StarvedResource,
    threshold: Threshold,
    { pod, usages, observations }: { readonly pod: NodePod; readonly usages: PodUsages; readonly observations: Observations },
  ): Eviction {
    const { maxPodGracePeriodSeconds } = this.#ports.options.eviction;
    return {
      pod,
      signal: threshold.signal,
      graceSeconds: evictionGraceSeconds(threshold, maxPodGracePeriodSeconds, pod.spec.terminationGracePeriodSeconds),
      ...evictionMessage(pod, usages.get(pod.metadata.uid), resource, { met: this.#pressure.met, observations }),
      isDisruption: true,
    };
  }

  /** Evicts the first `countMax` pods that are not critical. Source: eviction_manager.go evictPod. */
  async #evict(evictions: readonly Eviction[], countMax: number): Promise<readonly Eviction[]> {
    const { log, metrics } = this.#ports;
    const going = evictions.filter(({ pod }) => !isCriticalPod(pod)).slice(0, countMax);
    for (const { pod, signal, graceSeconds, message, annotations, isDisruption } of going) {
      const { namespace, name } = pod.metadata;
      this.#ports.podEvent(pod, { type: "Warning", reason: EVICTED, message, ...(annotations && { annotations }) });
      const abnormal: AbnormalTermination = { phase: "Failed", reason: EVICTED, message, ...(isDisruption && { isDisruption }) };
      await updateWorker(this.#ports, pod, "kill", "evicted", { graceOverrideSeconds: graceSeconds, abnormal, evict: true });
      metrics?.count("kubelet_evictions", { eviction_signal: signal });
      log.warn("evicting pod", { pod: `${namespace}/${name}`, signal, graceSeconds });
    }
    return going;
  }

  async #areGone(uids: readonly string[]): Promise<boolean> {
    const records = await Promise.all(uids.map((uid) => this.#ports.store.read("workers", uid)));
    return records.every((record) => record === undefined || record.finished === true);
  }
}

function localStorageEvictions(pods: readonly NodePod[], usages: PodUsages, { hasImageFs }: Disks): readonly Eviction[] {
  return pods.flatMap((pod) => {
    const usage = usages.get(pod.metadata.uid);
    const excess = usage && storageExcess(pod, usage, hasImageFs);
    if (excess === undefined) return [];
    return [{ pod, signal: excess.limit, graceSeconds: IMMEDIATE_GRACE_SECONDS, message: excess.message, isDisruption: false }];
  });
}

function shown(observations: Observations, signal: Signal): { readonly available?: number; readonly capacity?: number } {
  return { ...observations.get(signal) };
}
