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

  const terminating = record.terminatingAtMs === undefined ? terminate(record, nowMs) : record;
  const after = requeueLastUpdate(terminating.deleted ? terminating : { ...terminating, deleted: true }, nowMs);
  return after === record ? { kind: "keep" } : { kind: "change", record: after, requeue: after.pending !== record.pending };
}

function terminate(record: WorkerRecord, nowMs: number): WorkerRecord {
  const grace = effectiveGrace({ recorded: record.gracePeriodSeconds, spec: record.specGracePeriodSeconds ?? 0 });
  return { ...record, terminatingAtMs: nowMs, gracePeriodSeconds: grace.seconds };
}

/** Applies `syncKnownPod` to all records. Source: pkg/kubelet/pod_workers.go SyncKnownPods. */
export function syncKnownPods(
  records: ReadonlyMap<string, WorkerRecord>,
  desired: ReadonlySet<string>,
  nowMs: number,
): { readonly purge: readonly string[]; readonly changed: ReadonlyMap<string, WorkerRecord>; readonly requeue: readonly string[] } {
  const purge: string[] = [];
  const changed = new Map<string, WorkerRecord>();
  const requeue: string[] = [];
  for (const [uid, record] of records) {
    const step = syncKnownPod(record, desired.has(uid), nowMs);
    if (step.kind === "purge") purge.push(uid);
    if (step.kind !== "change") continue;
    changed.set(uid, step.record);
    if (step.requeue) requeue.push(uid);
  }
  return { purge, changed, requeue };
}
