/** Allocated resources of a pod (node-agent §6.11). Syncs and admission use these, not the spec. */
import { ownAt } from "@deltaloop/base";
import { quantitiesEqual } from "@deltaloop/kube/quantity";
import type { ContainerResources, PodAllocation } from "../../ports/node-store.ts";
import { initContainersOf, type ContainerSpec, type NodePod } from "../types/pod.ts";

/** Grants all resources that `pod` requests; keeps the actuated resources. */
export function granted(pod: NodePod, before?: PodAllocation): PodAllocation {
  const containers = [...initContainersOf(pod), ...pod.spec.containers].map(({ name, resources = {} }) => {
    const actuated = ownAt(before?.containers, name)?.actuated;
    return [name, { allocated: resources, ...(actuated !== undefined && { actuated }) }] as const;
  });
  return { containers: Object.fromEntries(containers) };
}

/**
 * Returns the pod with its allocated resources, or `pod` itself if they equal those in the spec.
 *
 *     spec cpu 200m, allocated cpu 100m → the same pod with cpu 100m
 *
 * Source: pkg/kubelet/allocation/allocation_manager.go updatePodFromAllocation.
 */
export function allocatedPod(pod: NodePod, allocation: PodAllocation | undefined): NodePod {
  if (!isResizeRequested(pod, allocation)) return pod;
  const withAllocated = <T extends ContainerSpec>(container: T): T => {
    const allocated = ownAt(allocation?.containers, container.name)?.allocated;
    return allocated === undefined || sameResources(container.resources ?? {}, allocated)
      ? container
      : { ...container, resources: allocated };
  };
  const { spec } = pod;
  return {
    ...pod,
    spec: {
      ...spec,
      containers: spec.containers.map(withAllocated),
      ...(spec.initContainers && { initContainers: spec.initContainers.map(withAllocated) }),
    },
  };
}

/** Whether the spec differs from the allocation, which means that a resize is requested. */
export function isResizeRequested(pod: NodePod, allocation: PodAllocation | undefined): boolean {
  if (allocation === undefined) return false;
  const differs = ({ name, resources = {} }: ContainerSpec): boolean => {
    const allocated = ownAt(allocation.containers, name)?.allocated;
    return allocated !== undefined && !sameResources(resources, allocated);
  };
  return initContainersOf(pod).some(differs) || pod.spec.containers.some(differs);
}

/** Compares by value: `1000m` equals `1`. */
export function sameResources(a: ContainerResources, b: ContainerResources): boolean {
  return a === b || (sameAmounts(a.requests, b.requests) && sameAmounts(a.limits, b.limits));
}

type Amounts = Readonly<Record<string, string>>;

function sameAmounts(a: Amounts = {}, b: Amounts = {}): boolean {
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => {
      const [x, y] = [ownAt(a, name), ownAt(b, name)];
      return x !== undefined && y !== undefined && quantitiesEqual(x, y);
    })
  );
}
