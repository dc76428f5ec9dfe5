/**
 * Of static pods with one full name only one runs; the others wait in order of arrival (node-agent §4.5). The row of a full name says
 * which has started and who waits. It is changed by NodeStore.update with the functions below:
 *
 * - `joinWaiting` when an update of a static pod was accepted that has not started; once more changes nothing.
 * - `startGate` before each turn of a static pod that has not started; its `start` is the row from then on.
 * - `releaseFullName` when the pod is finished or its record is purged; once more changes nothing.
 */
import type { StaticStart, WorkerRecord } from "../../ports/node-store.ts";

/** `notYet`: ask again in 10 to 15 s, as after an error; its update goes on waiting. */
export type StartVerdict = "start" | "notYet" | "never";

/**
 * Whether the pod may begin, and the row of its full name afterwards.
 *
 *     waiting [gone, terminating, self, next] → start, row: started self, waiting [next]
 *     waiting [other, self]                   → not yet, row unchanged
 *
 * Source: pkg/kubelet/pod_workers.go allowPodStart, allowStaticPodStart. Differs from upstream: a record that says it has started
 * counts as much as the row does, because either can be lost alone.
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

/** Source: pkg/kubelet/pod_workers.go UpdatePod, where the worker is made. */
export function joinWaiting(start: StaticStart | undefined, uid: string): StaticStart {
  if (start === undefined) return { waitingUids: [uid] };
  return start.startedUid === uid || start.waitingUids.includes(uid) ? start : { ...start, waitingUids: [...start.waitingUids, uid] };
}

/**
 * Without `uid`, started or waiting. No row: nobody is left.
 *
 * Source: pkg/kubelet/pod_workers.go completeTerminated, cleanupUnstartedPod, removeTerminatedWorker.
 */
export function releaseFullName(start: StaticStart | undefined, uid: string): StaticStart | undefined {
  if (start === undefined || (start.startedUid !== uid && !start.waitingUids.includes(uid))) return start;
  const { startedUid } = start;
  const waitingUids = start.waitingUids.filter((waitingUid) => waitingUid !== uid);
  if (startedUid !== undefined && startedUid !== uid) return { startedUid, waitingUids };
  return waitingUids.length > 0 ? { waitingUids } : undefined;
}
