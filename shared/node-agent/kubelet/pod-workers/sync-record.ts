/** Records the start and the end of a sync in its worker record (node-agent §4.6). */
import { messageOf } from "@deltaloop/kube/objects";
import type { WorkerRecord } from "../../ports/node-store.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { Pause } from "../node-ports/operations.ts";
import { endSync, startSync, type SyncEnd, type SyncStart } from "./pod-worker.ts";
import { releaseFullName, startGate, type StartVerdict } from "./static-start.ts";
import { requeueDelayMs, updateWorker, type FencedUpdate, type SyncOutcome, type EnqueuePorts } from "./update-worker.ts";

/** Takes the pending update of the worker with this UID; returns undefined if there is no worker. */
export async function beginSync(ports: Pick<NodePorts, "store" | "clock" | "random">, uid: string): Promise<SyncStart | undefined> {
  const verdict = await gate(ports, uid);
  let start: SyncStart | undefined;
  await ports.store.update("workers", uid, (record) => {
    start = record && startSync(record, verdict, ports.clock.now());
    return start?.record;
  });
  if (verdict === "notYet") await ports.store.schedule("pods", uid, ports.clock.now() + requeueDelayMs(NOT_YET, ports.random.next()));
  return start;
}

const NOT_YET = { kind: "error", message: "another static pod of this name is still running", nowMs: 0 } as const;

async function gate({ store }: Pick<NodePorts, "store">, uid: string): Promise<StartVerdict> {
  const records = await store.rows("workers");
  const record = records.get(uid);
  if (record === undefined || !record.isStatic) return "start";
  let verdict: StartVerdict = "notYet";
  await store.update("staticPods", record.fullName, (row) => {
    const gated = startGate(uid, record, row, records);
    verdict = gated.verdict;
    return gated.start;
  });
  return verdict;
}

interface SyncResult {
  readonly uid: string;
  readonly update: FencedUpdate;
  readonly end: SyncEnd;
  readonly failure: unknown;
  /** The outcome if the worker's state does not change. */
  readonly outcome: (nowMs: number) => SyncOutcome;
}

/** Stores that the sync has ended, and when the next sync is due. */
export async function completeSync(
  ports: EnqueuePorts & Pick<NodePorts, "random" | "log">,
  { uid, update, end, failure, outcome }: SyncResult,
): Promise<void> {
  const { store, clock, random } = ports;
  let transition = false;
  const record = await update("workers", uid, (row) => {
    if (row === undefined) return undefined;
    const ended = endSync(row, end, clock.now());
    transition = ended.transition;
    return ended.record;
  });
  const nowMs = clock.now();
  const delayMs = requeueDelayMs(transition ? { kind: "transition" } : outcome(nowMs), random.next());
  if (failure !== undefined) logFailure(ports, uid, failure);
  if (record === undefined) return await ports.store.unschedule("pods", uid);
  if (record.finished) return await release(ports, uid, record);
  if (transition || record.pending !== undefined) ports.send("pods", uid, transition ? "transition" : "pending");
  await store.schedule("pods", uid, nowMs + delayMs);
}

/** Logs a failure at level info, because failures that concern users have already emitted Events. */
function logFailure({ pods, log }: Pick<NodePorts, "log" | "pods">, uid: string, failure: unknown): void {
  if (failure instanceof Pause) return;
  const pod = pods.get(uid);
  log.info("sync failed; will retry", {
    pod: pod === undefined ? uid : `${pod.metadata.namespace}/${pod.metadata.name}`,
    error: messageOf(failure),
  });
}

/** Unschedules a finished pod. If it was a static pod, the next pod with the same full name may start. */
export async function release(ports: EnqueuePorts, uid: string, record: WorkerRecord): Promise<void> {
  await ports.store.unschedule("pods", uid);
  if (!record.isStatic) return;
  const row = await ports.store.update("staticPods", record.fullName, (start) => releaseFullName(start, uid));
  for (const waiting of row?.waitingUids ?? []) {
    const pod = ports.pods.get(waiting);
    if (pod !== undefined) await updateWorker(ports, pod, "sync", "full name released");
  }
}
