/** Lanes: the fixed partitions of a resource's keys in which order, sequence numbers and watermarks are kept (informer §10.3). */
import { crc32 } from "node:zlib";
import type { CachedResource, ObjectKey } from "@deltaloop/kube/objects";

/** Lanes per resource. They are part of an epoch: a different number needs a new epoch. */
export const LANES: { readonly [R in CachedResource]: number } = {
  pods: 16,
  replicasets: 4,
  deployments: 2,
  replicationcontrollers: 1,
};

/** Returns the number of lanes of a resource or view. A view of a user controller has one lane. */
export function lanesOf(name: string): number {
  const core: Readonly<Record<string, number>> = LANES;
  return (Object.hasOwn(LANES, name) ? core[name] : undefined) ?? 1;
}

/** Returns the lane of a key, from 0 to `lanes` − 1. It is the same in every process and version. */
export function laneOf(key: ObjectKey, lanes: number): number {
  return crc32(key) % lanes;
}
