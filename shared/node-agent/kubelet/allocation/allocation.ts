/**
 * What this node has granted to a pod (node-agent §6.11). All that is made of the pod, and all that admission counts, goes by this and
 * not by the spec, which may ask for something else by now.
 */
import { ownAt } from "@deltaloop/base";
import { quantitiesEqual } from "@deltaloop/kube/quantity";
import type { ContainerResources, PodAllocation } from "../../ports/node-store.ts";
import { initContainersOf } from "../types/pod.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";

/** All that `pod` asks for is granted; what was set in the runtime stays written down. */
export function granted(pod: NodePod, before?: PodAllocation): PodAllocation {
  const containers = [...initContainersOf(pod), ...pod.spec.containers].map(({ name, resources = {} }) => {
    const actuated = ownAt(before?.containers, name)?.actuated;
    return [name, { allocated: resources, ...(actuated !== undefined && { actuated }) }] as const;
  });
  return { containers: Object.fromEntries(containers) };
}

/**
 * The pod as this node works on it; `pod` itself while it asks for what it has.
 *
 *     spec cpu 200m, allocated cpu 100m → the same pod with cpu 100m
 *
 * Source: pkg/kubelet/allocation/allocation_manager.go updatePodFromAllocation.
 */
export function allocatedPod(pod: NodePod, allocation: PodAllocation | undefined): NodePod {
  if (!asksForOther(pod, allocation)) return pod;
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

/** The spec differs from what is allocated: a resize was asked for, and is not granted. */
export function asksForOther(pod: NodePod, allocation: PodAllocation | undefined): boolean {
  if (allocation === undefined) return false;
  const isOther = ({ name, resources = {} }: ContainerSpec): boolean => {
    const allocated = ownAt(allocation.containers, name)?.allocated;
    return allocated !== undefined && !sameResources(resources, allocated);
  };
  return initContainersOf(pod).some(isOther) || pod.spec.containers.some(isOther);
}

/** By value: `1000m` is `1`. */
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
