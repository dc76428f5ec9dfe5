/** Reconciles worker records with the desired pods during housekeeping (node-agent §4.7). */
import type { WorkerRecord } from "../../ports/node-store.ts";
import { effectiveGrace, requeueLastUpdate } from "./pod-worker.ts";

/** `requeue`: the caller must send a message for this UID. */
export type KnownPodStep =
  | { readonly kind: "keep" | "purge" }
  | { readonly kind: "change"; readonly record: WorkerRecord; readonly requeue: boolean };

/**
 * Decides on one record inside NodeStore.update. The caller releases the full name of a purged static pod. Source:
 * pkg/kubelet/pod_workers.go removeTerminatedWorker.
 */
export function syncKnownPod(record: WorkerRecord, isDesired: boolean, nowMs: number): KnownPodStep {
  if (isDesired && !record.restartRequested) return { kind: "keep" };
  if (record.finished) return { kind: "purge" };
  if (isDesired) return { kind: "keep" };
  if (record.startedAtMs === undefined && !record.observedRuntime) return { kind: "purge" };

  const grace = effectiveGrace({ recorded: record.gracePeriodSeconds, spec: record.specGracePeriodSeconds ?? 0 });
  const terminating =
    record.terminatingAtMs === undefined ? { ...record, terminatingAtMs: nowMs, gracePeriodSeconds: grace.seconds } : record;
  const after = requeueLastUpdate(terminating.deleted ? terminating : { ...terminating, deleted: true }, nowMs);
  return after === record ? { kind: "keep" } : { kind: "change", record: after, requeue: after.pending !== record.pending };
}
