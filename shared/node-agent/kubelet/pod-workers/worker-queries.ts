/**
 * Queries on pod workers (node-agent §4.8). `syncedOnce` means that housekeeping has seen all sources; before that, nothing of an unknown
 * UID is removed.
 * Source: pkg/kubelet/pod_workers.go, the methods of these names.
 */
import type { WorkerRecord } from "../../ports/node-store.ts";

type Known = WorkerRecord | undefined;

export function couldHaveRunningContainers(record: Known, syncedOnce: boolean): boolean {
  return record === undefined ? !syncedOnce : record.terminatedAtMs === undefined;
}

export function isTerminationRequested(record: Known, _syncedOnce: boolean): boolean {
  return record?.terminatingAtMs !== undefined;
}

export function shouldRuntimeObjectsBeRemoved(record: Known, syncedOnce: boolean): boolean {
  return record === undefined ? syncedOnce : record.terminatedAtMs !== undefined;
}

/** Whether volumes and dead containers of the pod may be removed. For an evicted pod, this is allowed before it has stopped completely. */
export function shouldPodContentBeRemoved(record: Known, syncedOnce: boolean): boolean {
  if (record === undefined) return syncedOnce;
  return record.evicted === true || (record.deleted === true && record.terminatedAtMs !== undefined);
}
