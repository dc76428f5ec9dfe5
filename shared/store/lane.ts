/**
 * Lanes: the partitions of a resource's keys in which order, sequence numbers and watermarks are kept (informer §10.3, §10.9). The executable
 * model is test/simulation/lanes.
 *
 * LG1 the Store keeps the number of lanes of each resource. A small cluster begins an epoch with one lane, others with LANES.
 * LG2 one lane grows to LANES in the step that raises the resource's fence, because messages of the older fence are then dropped. Rows and
 *     tombstones move to the lanes of their keys, which begin with the old lane's watermark, list, frozen flag and last message. No other
 *     step changes the number in an epoch, and it never decreases. A full Store refuses.
 * LG3 a leader sends for the number that `openFence` returns. An epoch with a number other than one or LANES is another build's, and is
 *     replaced, as is one whose number changes under the leader's fence.
 */
import { crc32 } from "node:zlib";
import type { CachedResource, ObjectKey } from "@deltaloop/kube/objects";

/** Lanes per resource of a cluster that is not small. */
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
