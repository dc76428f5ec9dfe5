/** What is said of an eviction, in upstream's words, which users and tools search for (node-agent §14.5). Source: pkg/kubelet/eviction/helpers.go. */
import { canonicalQuantity, numericQuantity, suffixOf } from "@deltaloop/kube/quantity";
import { initContainersOf } from "../types/pod.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";
import type { Observations } from "./pressure.ts";
import { amountOf, resourceOf } from "../types/eviction-thresholds.ts";
import type { PressureCondition, StarvedResource, Threshold } from "../types/eviction-thresholds.ts";
import type { ContainerUsage, PodUsage } from "./usage.ts";

export const EVICTED = "Evicted";

export interface EvictionWords {
  readonly message: string;
  /** Of the Event. */
  readonly annotations: Readonly<Record<string, string>>;
}

/**
 * Of a pod that goes because `resource` is short. Ephemeral containers are never named: they cannot ask for anything.
 *
 * Source: helpers.go evictionMessage. Differs from upstream: nothing of requests of the whole pod, which are not built.
 */
export function evictionWords(
  pod: NodePod,
  usage: PodUsage | undefined,
  resource: StarvedResource,
  { met, observations }: { readonly met: readonly Threshold[]; readonly observations: Observations },
): EvictionWords {
  const head = `The node was low on resource: ${resource}. ${thresholdWords(resource, met, observations)}`;
  if (usage === undefined) return { message: head, annotations: {} };
  const specs = [...pod.spec.containers, ...initContainersOf(pod)];
  const offending = usage.containers.flatMap((container) => {
    const spec = specs.find(({ name }) => name === container.name);
    const used = spec && usedOf(container, resource);
    if (spec === undefined || used === undefined || used <= requestOf(spec, resource)) return [];
    return [{ name: spec.name, used: binaryQuantity(used), request: canonicalQuantity(spec.resources?.requests?.[resource] ?? "") ?? "0" }];
  });
  const said = offending.map(
    ({ name, used, request }) => `Container ${name} was using ${used}, request is ${request}, has larger consumption of ${resource}. `,
  );
  return {
    message: head + said.join(""),
    annotations: {
      offending_containers: offending.map(({ name }) => name).join(","),
      offending_containers_usage: offending.map(({ used }) => used).join(","),
      starved_resource: resource,
    },
  };
}

/** Of the first threshold of that resource. */
function thresholdWords(resource: StarvedResource, met: readonly Threshold[], observations: Observations): string {
  for (const { signal, value } of met) {
    const seen = observations.get(signal);
    if (resourceOf(signal) !== resource || seen === undefined) continue;
    // A share is in binary units even of inodes; what is free is in the resource's own.
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

/** A quantity of bytes as Go prints it: `2097152` → `2Mi`; below 1024 as any number. */
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
