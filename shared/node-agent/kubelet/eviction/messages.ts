/** Eviction messages, which equal upstream's (node-agent §14.5). Source: pkg/kubelet/eviction/helpers.go. */
import { canonicalQuantity, numericQuantity, suffixOf } from "@deltaloop/kube/quantity";
import { initContainersOf, type ContainerSpec, type NodePod } from "../types/pod.ts";
import type { Observations } from "./pressure.ts";
import { amountOf, resourceOf, type PressureCondition, type StarvedResource, type Threshold } from "../types/eviction-thresholds.ts";
import type { ContainerUsage, PodUsage } from "./usage.ts";

export const EVICTED = "Evicted";

export interface EvictionMessage {
  readonly message: string;
  /** Annotations of the Event. */
  readonly annotations: Readonly<Record<string, string>>;
}

/**
 * The message for a pod evicted because of `resource`. Omits ephemeral containers, which have no requests. Source: helpers.go
 * evictionMessage. Differs from upstream: ignores pod-level requests, which are not supported.
 */
export function evictionMessage(
  pod: NodePod,
  usage: PodUsage | undefined,
  resource: StarvedResource,
  { met, observations }: { readonly met: readonly Threshold[]; readonly observations: Observations },
): EvictionMessage {
  const head = `The node was low on resource: ${resource}. ${thresholdText(resource, met, observations)}`;
  if (usage === undefined) return { message: head, annotations: {} };
  const specs = [...pod.spec.containers, ...initContainersOf(pod)];
  const offending = usage.containers.flatMap((container) => {
    const spec = specs.find(({ name }) => name === container.name);
    const used = spec && usedOf(container, resource);
    if (spec === undefined || used === undefined || used <= requestOf(spec, resource)) return [];
    return [{ name: spec.name, used: binaryQuantity(used), request: canonicalQuantity(spec.resources?.requests?.[resource] ?? "") ?? "0" }];
  });
  const texts = offending.map(
    ({ name, used, request }) => `Container ${name} was using ${used}, request is ${request}, has larger consumption of ${resource}. `,
  );
  return {
    message: head + texts.join(""),
    annotations: {
      offending_containers: offending.map(({ name }) => name).join(","),
      offending_containers_usage: offending.map(({ used }) => used).join(","),
      starved_resource: resource,
    },
  };
}

/** The sentence about the resource's first threshold. */
function thresholdText(resource: StarvedResource, met: readonly Threshold[], observations: Observations): string {
  for (const { signal, value } of met) {
    const seen = observations.get(signal);
    if (resourceOf(signal) !== resource || seen === undefined) continue;
    // As in upstream, percentages have binary units even for inodes, and available amounts have the resource's units.
    const quantity = binaryQuantity(amountOf(value, seen.capacity));
    const isBytes = resource === "memory" || resource === "ephemeral-storage";
    const available = isBytes ? binaryQuantity(seen.available) : decimalQuantity(seen.available);
    return `Threshold quantity: ${"share" in value || isBytes ? quantity : decimalQuantity(value.amount)}, available: ${available}. `;
  }
  return "";
}

function usedOf({ memoryBytes, rootfs, logs }: ContainerUsage, resource: StarvedResource): number | undefined {
  if (resource === "memory") return memoryBytes;
  if (resource !== "ephemeral-storage" || rootfs === undefined || logs === undefined) return undefined;
  return rootfs.usedBytes + logs.usedBytes;
}

function requestOf({ resources }: ContainerSpec, resource: StarvedResource): number {
  return Number(numericQuantity(resources?.requests?.[resource] ?? "0") ?? 0) / 1e9;
}

/** Formats bytes as Go does: `2097152` → `2Mi`; decimal below 1024. */
export function binaryQuantity(amount: number): string {
  if (Math.abs(amount) < 1024) return decimalQuantity(amount);
  let [rest, exponent] = [amount, 0];
  while (rest % 1024 === 0 && suffixOf(exponent + 10, "BinarySI") !== undefined) [rest, exponent] = [rest / 1024, exponent + 10];
  return `${rest}${suffixOf(exponent, "BinarySI") ?? ""}`;
}

function decimalQuantity(amount: number): string {
  return canonicalQuantity(`${amount}`) ?? `${amount}`;
}

export function nodeConditionMessage(conditions: readonly PressureCondition[]): string {
  return `The node had condition: [${conditions.join(" ")}]. `;
}

export function emptyDirMessage(volume: string, limit: string): string {
  return `Usage of EmptyDir volume ${JSON.stringify(volume)} exceeds the limit ${JSON.stringify(limit)}. `;
}

export function podStorageMessage(limit: string): string {
  return `Pod ephemeral local storage usage exceeds the total limit of containers ${limit}. `;
}

export function containerStorageMessage(container: string, limit: string): string {
  return `Container ${container} exceeded its local ephemeral storage limit ${JSON.stringify(limit)}. `;
}
