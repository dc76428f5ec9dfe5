/** Eviction order of pods (node-agent §14.5). Source: pkg/kubelet/eviction/helpers.go. */
import { podRequests, wholeAmount } from "../types/pod-requests.ts";
import type { NodePod } from "../types/pod.ts";
import type { Disks, Signal } from "../types/eviction-thresholds.ts";
import { podDiskUsage, type MeasuredPart, type PodUsage, type PodUsages } from "./usage.ts";

/** Returns a negative number if `a` is evicted before `b`. */
type Order = (a: NodePod, b: NodePod) => number;

/**
 * Sorts pods in eviction order. The sort is stable, and pods without measurements come first.
 *
 *     memory   uses more than its request · lower priority · larger use above its request
 *     disk     the same for disk bytes; inodes have no request, and upstream subtracts the requested bytes
 *     pids     lower priority · more processes
 */
export function rankPods(signal: Signal, pods: readonly NodePod[], usages: PodUsages, disks: Disks): readonly NodePod[] {
  const orders = ordersOf(signal, usages, disks);
  return pods.toSorted((a, b) => orders.map((order) => order(a, b)).find((difference) => difference !== 0) ?? 0);
}

function ordersOf(signal: Signal, usages: PodUsages, disks: Disks): readonly Order[] {
  if (signal === "pid.available") return [byPriority, byMost(usages, (_pod, { processes = 0 }) => processes)];
  if (signal === "memory.available" || signal === "allocatableMemory.available") {
    const above = (pod: NodePod, { memoryBytes = 0 }: PodUsage): number => memoryBytes - requested(pod, "memory");
    return [byMost(usages, (pod, usage) => Number(above(pod, usage) > 0)), byPriority, byMost(usages, above)];
  }
  const parts = measuredParts(signal, disks);
  const isInodes = signal.endsWith("inodesFree");
  const used = (pod: NodePod, usage: PodUsage): number => {
    const { usedBytes, inodesUsed } = podDiskUsage(pod, usage, parts);
    return isInodes ? inodesUsed : usedBytes;
  };
  const exceeds = (pod: NodePod, usage: PodUsage): number =>
    Number(used(pod, usage) > (isInodes ? 0 : requested(pod, "ephemeral-storage")));
  return [byMost(usages, exceeds), byPriority, byMost(usages, (pod, usage) => used(pod, usage) - requested(pod, "ephemeral-storage"))];
}

/** Source: helpers.go buildSignalToRankFunc. */
function measuredParts(signal: Signal, { hasImageFs, splitsContainerFs }: Disks): readonly MeasuredPart[] {
  if (!hasImageFs) return ["rootfs", "logs", "localVolumes"];
  if (splitsContainerFs) return signal.startsWith("imagefs") ? [] : ["logs", "localVolumes", "rootfs"];
  return signal.startsWith("nodefs") ? ["logs", "localVolumes"] : ["rootfs"];
}

const byPriority: Order = (a, b) => (a.spec.priority ?? 0) - (b.spec.priority ?? 0);

function byMost(usages: PodUsages, measure: (pod: NodePod, usage: PodUsage) => number): Order {
  return (a, b) => {
    const [ofA, ofB] = [usages.get(a.metadata.uid), usages.get(b.metadata.uid)];
    if (ofA === undefined || ofB === undefined) return Number(ofA !== undefined) - Number(ofB !== undefined);
    return measure(b, ofB) - measure(a, ofA);
  };
}

function requested(pod: NodePod, resource: string): number {
  return wholeAmount(podRequests(pod), resource);
}
