/** Sends updates to a pod's worker (node-agent §4.3, §18.5): changes the record first, then enqueues the pod. */
import type { AbnormalTermination, Fence, NodeRow, NodeTable, RowChange, UpdateKind } from "../../ports/node-store.ts";
import { isPastActiveDeadline } from "./active-deadline.ts";
import { isStaticPod } from "../types/labels.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { runningByRelist } from "../node-ports/relist-record.ts";
import { acceptUpdate, type Accepted, type PodUpdate } from "./pod-worker.ts";
import { fullName, isTerminalPhase, type NodePod } from "../types/pod.ts";
import { joinWaiting } from "./static-start.ts";

export type UpdateWorkerPorts = Pick<NodePorts, "store" | "clock" | "operations" | "condition" | "send">;
export type EnqueuePorts = UpdateWorkerPorts & Pick<NodePorts, "pods">;

const GRACE_SECONDS = 30;

export interface UpdateDetails {
  readonly graceOverrideSeconds?: number;
  readonly abnormal?: AbnormalTermination;
  readonly evict?: true;
}

/** Updates the worker of a pod whose spec is known, whether or not the pod is desired. */
export async function updateWorker(
  ports: UpdateWorkerPorts,
  pod: NodePod,
  kind: UpdateKind,
  reason: string,
  details: UpdateDetails = {},
): Promise<void> {
  const { uid, deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata;
  await submit(ports, uid, reason, {
    kind,
    fullName: fullName(pod),
    isStatic: isStaticPod(pod),
    nowMs: ports.clock.now(),
    ...(deletionTimestamp !== undefined && { deletionTimestamp: true }),
    ...(deletionGracePeriodSeconds !== undefined && { deletionGracePeriodSeconds }),
    specGracePeriodSeconds: pod.spec.terminationGracePeriodSeconds ?? GRACE_SECONDS,
    phaseIsTerminal: isTerminalPhase(pod.status?.phase),
    mayRun: mayRun(ports, uid),
    ...details,
  });
}

/** Kills a pod that is known only from the runtime. If its spec is known, the kill uses the spec. */
export async function killRuntimePod(ports: EnqueuePorts, uid: string, reason: string): Promise<void> {
  const known = ports.pods.get(uid);
  if (known !== undefined) return await updateWorker(ports, known, "kill", reason, { graceOverrideSeconds: 1 });
  await submit(ports, uid, reason, {
    kind: "kill",
    fullName: uid,
    isStatic: false,
    nowMs: ports.clock.now(),
    specGracePeriodSeconds: 1,
    phaseIsTerminal: false,
    mayRun: true,
    runtimeOnly: true,
  });
}

/** Enqueues a sync of the pod; does nothing without a worker record or a spec. */
export async function enqueuePod(ports: EnqueuePorts, uid: string, reason: string): Promise<void> {
  const record = await ports.store.read("workers", uid);
  const pod = ports.pods.get(uid);
  // A pod that is no longer desired needs a sync only while its worker exists.
  if (pod !== undefined && (record !== undefined || ports.pods.isDesired(uid))) return await updateWorker(ports, pod, "sync", reason);
  if (record !== undefined && record.specGracePeriodSeconds === undefined) await killRuntimePod(ports, uid, reason);
}

async function submit(
  ports: Pick<NodePorts, "store" | "operations" | "send">,
  uid: string,
  reason: string,
  update: PodUpdate,
): Promise<void> {
  let accepted: Accepted = { record: undefined, cancel: false, enqueue: false };
  await ports.store.update("workers", uid, (record) => {
    accepted = acceptUpdate(record, update);
    return accepted.record;
  });
  if (update.isStatic && accepted.record !== undefined && accepted.record.startedAtMs === undefined)
    await ports.store.update("staticPods", update.fullName, (start) => joinWaiting(start, uid));
  if (accepted.cancel) ports.operations.cancel(uid);
  if (accepted.enqueue) ports.send("pods", uid, reason);
}

/** Whether the last relist has a running container or a ready sandbox of the pod; true before the first relist. */
function mayRun({ condition }: Pick<NodePorts, "condition">, uid: string): boolean {
  return condition.relisted === undefined || runningByRelist(condition.relisted.record).has(uid);
}

/** NodeStore's `update`, bound to the sync that holds the pod's newest token. @throws {LostSyncError} if another sync has begun */
export type FencedUpdate = <T extends NodeTable>(table: T, key: string, change: RowChange<T>) => Promise<NodeRow<T> | undefined>;

export function fencedUpdate({ store }: Pick<NodePorts, "store">, fence: Fence): FencedUpdate {
  return async (table, key, change) => {
    const row = await store.update(table, key, change, fence);
    if (row === "refused") throw new LostSyncError(fence.uid);
    return row;
  };
}

/**
 * Another sync of this pod has begun, because this sync was considered lost. This is normal after the process was paused; the other sync
 * continues.
 */
export class LostSyncError extends Error {
  override readonly name = "LostSyncError";

  constructor(uid: string) {
    super(`another sync of pod ${uid} has begun`);
  }
}

/** Enqueues pods whose sync is due, and pods whose active deadline has passed (node-agent §3, sync tick). */
export async function enqueueDue(ports: EnqueuePorts): Promise<void> {
  const { store, clock, pods, condition } = ports;
  condition.lastLoopMs = clock.now();
  if (condition.runtimeError !== undefined) return;
  for (const uid of await store.takeDue("pods", clock.now())) await enqueuePod(ports, uid, "due");
  for (const pod of pods.desired()) {
    if (isTerminalPhase(pod.status?.phase) || !isPastActiveDeadline(pod, pod.status, clock.now())) continue;
    const record = await store.read("workers", pod.metadata.uid);
    if (record !== undefined && record.terminatingAtMs === undefined) await enqueuePod(ports, pod.metadata.uid, "active deadline exceeded");
  }
}

export type SyncOutcome =
  | { readonly kind: "transition" | "ok" }
  /** A volume could not be set up; `retryAtMs` is the time of the next attempt. */
  | { readonly kind: "volume"; readonly retryAtMs: number; readonly nowMs: number }
  | {
      readonly kind: "error";
      readonly message: string;
      /** Earliest end of the back-offs that the sync encountered. */
      readonly retryAtMs?: number;
      readonly nowMs: number;
    };

/** The kubelet's SyncFrequency. */
const RESYNC_MS = 60_000;
const BACK_OFF_MS = 10_000;
const TRANSIENT_BACK_OFF_MS = 1_000;
const JITTER = 0.5;
/** Error prefix while the runtime reports that the network is not ready (§3.1). Source: pkg/kubelet/kubelet.go NetworkNotReadyErrorMsg. */
const NETWORK_NOT_READY = "network is not ready";

/**
 * The delay until the next sync.
 *
 * | outcome | from now |
 * |---|---|
 * | transition | 0 |
 * | ok | 60 to 90 s |
 * | error of a volume | time of the next attempt, at most 60 s |
 * | error of the network | 1 to 1.5 s |
 * | error with a back-off | end of the back-off, at most 60 s, plus up to 50 % jitter |
 * | any other error | 10 to 15 s |
 *
 * Source: pkg/kubelet/pod_workers.go completeWork. @param random in [0, 1)
 */
export function requeueDelayMs(outcome: SyncOutcome, random: number): number {
  const jittered = (ms: number): number => Math.round(ms * (1 + random * JITTER));
  switch (outcome.kind) {
    case "transition":
      return 0;
    case "ok":
      return jittered(RESYNC_MS);
    case "volume":
      return Math.min(Math.max(outcome.retryAtMs - outcome.nowMs, 0), RESYNC_MS);
    case "error": {
      if (outcome.message.includes(NETWORK_NOT_READY)) return jittered(TRANSIENT_BACK_OFF_MS);
      if (outcome.retryAtMs === undefined) return jittered(BACK_OFF_MS);
      return jittered(Math.min(Math.max(outcome.retryAtMs - outcome.nowMs, 0), RESYNC_MS));
    }
    default:
      return outcome satisfies never;
  }
}
