/**
 * The start gate of static pods (node-agent §4.5): one pod per full name runs, and the others wait in the order of arrival.
 * NodeStore.update applies these functions:
 *
 * - `joinWaiting` after an update of a static pod that has not started was accepted; idempotent.
 * - `startGate` before each sync of a static pod that has not started; the caller stores the returned row.
 * - `releaseFullName` when the pod is finished or its record is purged; idempotent.
 */
import type { StaticStart, WorkerRecord } from "../../ports/node-store.ts";

/** `notYet`: the update stays pending; requeue the pod in 10 to 15 s, as after an error. */
export type StartVerdict = "start" | "notYet" | "never";

/**
 * Whether the pod may start, and the new row of its full name.
 *
 *     waiting [gone, terminating, self, next] → start, row: started self, waiting [next]
 *     waiting [other, self]                   → not yet, row unchanged
 *
 * Source: pkg/kubelet/pod_workers.go allowPodStart, allowStaticPodStart. Differs from upstream: a record of a started pod counts as much
 * as the row, because one of them can be lost without the other.
 */
export function startGate(
  uid: string,
  record: WorkerRecord | undefined,
  start: StaticStart | undefined,
  records: ReadonlyMap<string, WorkerRecord>,
): { readonly verdict: StartVerdict; readonly start: StaticStart | undefined } {
  if (record === undefined) return { verdict: "never", start };
  if (!record.isStatic || record.startedAtMs !== undefined) return { verdict: "start", start };
  if (record.terminatingAtMs !== undefined) return { verdict: "never", start };
  const startedUid = start?.startedUid ?? startedUidOf(record.fullName, records);
  if (startedUid !== undefined) return { verdict: startedUid === uid ? "start" : "notYet", start };

  const waiting = start?.waitingUids ?? [];
  const isAlive = (waitingUid: string): boolean => {
    const other = waitingUid === uid ? record : records.get(waitingUid);
    return other !== undefined && other.terminatingAtMs === undefined;
  };
  const first = waiting.findIndex(isAlive);
  if (first !== -1 && waiting[first] !== uid) return { verdict: "notYet", start: { waitingUids: waiting.slice(first) } };
  return { verdict: "start", start: { startedUid: uid, waitingUids: first === -1 ? [] : waiting.slice(first + 1) } };
}

function startedUidOf(fullName: string, records: ReadonlyMap<string, WorkerRecord>): string | undefined {
  for (const [uid, other] of records)
    if (other.isStatic && other.fullName === fullName && other.startedAtMs !== undefined && !other.finished) return uid;
  return undefined;
}

/** Appends the pod to the waiting list. Source: pkg/kubelet/pod_workers.go UpdatePod. */
export function joinWaiting(start: StaticStart | undefined, uid: string): StaticStart {
  if (start === undefined) return { waitingUids: [uid] };
  return start.startedUid === uid || start.waitingUids.includes(uid) ? start : { ...start, waitingUids: [...start.waitingUids, uid] };
}

/**
 * Removes `uid` from the row; undefined if no pod is left. Source: pkg/kubelet/pod_workers.go completeTerminated, cleanupUnstartedPod,
 * removeTerminatedWorker.
 */
export function releaseFullName(start: StaticStart | undefined, uid: string): StaticStart | undefined {
  if (start === undefined || (start.startedUid !== uid && !start.waitingUids.includes(uid))) return start;
  const { startedUid } = start;
  const waitingUids = start.waitingUids.filter((waitingUid) => waitingUid !== uid);
  if (startedUid !== undefined && startedUid !== uid) return { startedUid, waitingUids };
  return waitingUids.length > 0 ? { waitingUids } : undefined;
}
