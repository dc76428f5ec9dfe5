/**
 * Queries on pod workers (node-agent §4.8). `syncedOnce`: housekeeping has seen all sources; before that, unknown UIDs keep everything.
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

/** Whether volumes and dead containers may be removed; evicted pods release them before they have stopped completely. */
export function shouldPodContentBeRemoved(record: Known, syncedOnce: boolean): boolean {
  if (record === undefined) return syncedOnce;
  return record.evicted === true || (record.deleted === true && record.terminatedAtMs !== undefined);
}
