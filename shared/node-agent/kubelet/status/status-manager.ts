/** Caches pod statuses and sends them to the API server (node-agent §13.5, §13.6). */
import { describeError, isConflict, isInvalid, isNotFound } from "@deltaloop/kube/client";
import type { AbnormalTermination, CachedStatus, PodStatus } from "../../ports/node-store.ts";
import { acceptStatus, terminatedStatus } from "./accept-status.ts";
import { generateApiPodStatus } from "./generate-status.ts";
import { isMirrorPod, isStaticPod } from "../types/labels.ts";
import { canBeDeleted, mergePodStatus, statusPatch } from "./merge-status.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedPod } from "../types/observed-pod.ts";
import { parseNodePod, type NodePod } from "../types/pod.ts";
import { couldHaveRunningContainers } from "../pod-workers/worker-queries.ts";
import { apiPodOf } from "../pod/pod-manager.ts";
import type { PodProbeResults } from "../prober/prober-manager.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";
import { countStart, countEnds } from "./status-metrics.ts";

export type ComputeStatusPorts = Pick<NodePorts, "store" | "clock" | "pods" | "options" | "runtimeName">;
export type StoreStatusPorts = Pick<NodePorts, "store" | "clock" | "metrics" | "pods" | "send">;
export type FlushStatusPorts = Pick<NodePorts, "kube" | "store" | "clock" | "log" | "pods" | "condition">;

export interface StatusRequest {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  readonly terminal: boolean;
  readonly abnormal?: AbnormalTermination;
  readonly probes: PodProbeResults;
}

/** Computes a status without storing it. */
export async function computeStatus(
  ports: ComputeStatusPorts,
  { pod, observed, terminal, abnormal, probes }: StatusRequest,
): Promise<PodStatus> {
  const { uid } = pod.metadata;
  const known = withApiStatus(ports, pod);
  const [cached, reasons, allocation] = await Promise.all([
    ports.store.read("statuses", uid),
    ports.store.read("reasons", uid),
    ports.store.read("allocations", uid),
  ]);
  return generateApiPodStatus({
    pod: known,
    observed,
    previous: cached?.status ?? known.status,
    terminal,
    reasons: reasons ?? {},
    probes,
    hostIps: ports.options.hostIps,
    runtimeName: ports.runtimeName,
    nowMs: ports.clock.now(),
    ...(abnormal !== undefined && { abnormal }),
    ...(allocation !== undefined && { allocation }),
  });
}

/** Adds the status in the API server to the pod. For a static pod, it is in the mirror pod. */
function withApiStatus(ports: Pick<NodePorts, "pods">, pod: NodePod): NodePod {
  const status = apiPodOf(ports.pods, pod)?.status;
  return status === undefined ? pod : { ...pod, status };
}

interface StoreOptions {
  readonly update?: FencedUpdate;
  readonly finished?: true;
}

/** Stores a status. If it has changed, enqueues it for sending. @throws {LostSyncError} */
export async function storeStatus(
  ports: StoreStatusPorts,
  pod: NodePod,
  status: PodStatus,
  { update = (table, key, change) => ports.store.update(table, key, change), finished }: StoreOptions = {},
): Promise<void> {
  const { uid } = pod.metadata;
  const force = finished === true || pod.metadata.deletionTimestamp !== undefined;
  let before: PodStatus | undefined;
  const known = withApiStatus(ports, pod);
  const accept = (cached: CachedStatus | undefined): CachedStatus => {
    before = cached?.status;
    return acceptStatus(cached, status, { pod: known, force, nowMs: ports.clock.now(), ...(finished && { finished }) });
  };
  const stored = await update("statuses", uid, accept);
  if (before?.phase === "Pending" && stored?.status.phase === "Running") countStart(ports, pod);
  if (stored !== undefined) countEnds(ports, before ?? known.status ?? {}, stored.status);
  if (stored !== undefined && (stored.version > stored.sentVersion || stored.podIsFinished === true))
    ports.send("statuses", uid, "changed");
}

/** Stores the final status of a pod that has no running containers and no mounted volumes (upstream's TerminatePod). */
export async function storeTerminated(ports: StoreStatusPorts, pod: NodePod, update: FencedUpdate): Promise<void> {
  const cached = await ports.store.read("statuses", pod.metadata.uid);
  await storeStatus(ports, pod, terminatedStatus(pod, cached?.status ?? pod.status ?? {}, ports.clock.now()), { update, finished: true });
}

/**
 * Sends the cached status of one pod, and completes the deletion of the pod if it is due. Ignores an API object that is missing or was
 * replaced. Differs from upstream: upstream reads the pod before each write; this function computes the patch from the last response.
 * Concurrent changes of the agent's fields arrive through the watch and cause a read. @throws other API errors; the next tick retries
 */
export async function flushStatus(ports: FlushStatusPorts, uid: string): Promise<void> {
  const cached = await ports.store.read("statuses", uid);
  const pod = ports.pods.get(uid);
  if (cached === undefined || pod === undefined) return;
  const target = apiPodOf(ports.pods, pod);
  if (target === undefined) return;
  const known = cached.answered?.uid === target.metadata.uid ? cached.answered : undefined;
  const live = known === undefined ? await readLive(ports, pod, target, cached) : { ...target, status: known.status };
  if (live === undefined) return;

  const record = await ports.store.read("workers", uid);
  const mayRun = couldHaveRunningContainers(record, ports.condition.syncedOnce);
  const merged = mergePodStatus(live.status, cached.status, mayRun, ports.clock.now());
  const body = statusPatch({ uid: live.metadata.uid }, live.status, merged);
  let answered = live;
  if (body !== undefined) {
    const { namespace, name } = live.metadata;
    const type = "application/strategic-merge-patch+json";
    try {
      answered = parseNodePod(await ports.kube.patch({ resource: "pods", namespace, name, subresource: "status", type, body }));
    } catch (error) {
      if (known !== undefined) {
        // The last response is outdated, so it is dropped.
        await ports.store.update("statuses", uid, withoutAnswer);
        if (isNotFound(error) || isInvalid(error)) return await flushStatus(ports, uid);
      }
      // The pod was deleted, or another pod now has its name.
      if (!isNotFound(error) && !isInvalid(error)) throw error;
      if (isInvalid(error))
        ports.log.warn("the API server rejected the pod status", { pod: `${namespace}/${name}`, error: describeError(error) });
      return await sent(ports, uid, cached.version);
    }
  }
  await sent(ports, uid, cached.version, answered);
  if (!isMirrorPod(live) && canBeDeleted({ ...live, status: merged }, cached)) {
    const { namespace, name } = live.metadata;
    await ports.kube
      .delete({ resource: "pods", namespace, name, preconditions: { uid: live.metadata.uid }, gracePeriodSeconds: 0 })
      .catch((error: unknown) => {
        // The pod was deleted, or another pod now has its name.
        if (!isNotFound(error) && !isConflict(error)) throw error;
      });
    await ports.store.update("statuses", uid, () => undefined);
  }
}

/** Reads the API object; returns undefined if there is no object to update. */
async function readLive(
  ports: Pick<NodePorts, "kube" | "store">,
  pod: NodePod,
  target: NodePod,
  { version }: CachedStatus,
): Promise<NodePod | undefined> {
  const { uid } = pod.metadata;
  const { namespace, name } = target.metadata;
  const found = await ports.kube.get("pods", namespace, name);
  if (found === undefined) {
    await sent(ports, uid, version);
    return undefined;
  }
  const live = parseNodePod(found);
  if (live.metadata.uid === target.metadata.uid) return live;
  // Another pod now has this name. A static pod gets a new mirror pod, so its status is kept.
  if (!isStaticPod(pod)) await ports.store.update("statuses", uid, () => undefined);
  return undefined;
}

/** Runs every ten seconds. Enqueues statuses that were not sent, statuses that another client changed, and due deletions. */
export async function flushStatuses(ports: Pick<NodePorts, "store" | "clock" | "pods" | "send">): Promise<void> {
  for (const [uid, cached] of await ports.store.rows("statuses")) {
    const why = pendingReason(ports, uid, cached);
    if (why === "altered") await ports.store.update("statuses", uid, withoutAnswer);
    if (why !== undefined) ports.send("statuses", uid, why);
  }
}

/** API statuses that equal a row, keyed by the row. Both objects are immutable, so each pair is compared only once. */
const agreed = new WeakMap<CachedStatus, PodStatus>();

function pendingReason(
  ports: Pick<NodePorts, "clock" | "pods">,
  uid: string,
  cached: CachedStatus,
): "not sent" | "to be deleted" | "altered" | undefined {
  const pod = ports.pods.get(uid);
  if (pod === undefined) return undefined;
  if (cached.version > cached.sentVersion) return "not sent";
  const target = apiPodOf(ports.pods, pod);
  if (target === undefined) return undefined;
  if (target.metadata.deletionTimestamp !== undefined && cached.podIsFinished === true) return "to be deleted";
  const { status, metadata } = target;
  if (status !== undefined && agreed.get(cached) === status) return undefined;
  const merged = mergePodStatus(status, cached.status, false, ports.clock.now());
  if (statusPatch({ uid: metadata.uid }, status, merged) !== undefined) return "altered";
  if (status !== undefined) agreed.set(cached, status);
  return undefined;
}

async function sent(ports: Pick<NodePorts, "store">, uid: string, version: number, answered?: NodePod): Promise<void> {
  await ports.store.update("statuses", uid, (row) => {
    if (row === undefined) return undefined;
    const next = answered === undefined ? row : { ...row, answered: { uid: answered.metadata.uid, status: answered.status ?? {} } };
    return next.sentVersion >= version ? next : { ...next, sentVersion: version };
  });
}

function withoutAnswer(row: CachedStatus | undefined): CachedStatus | undefined {
  if (row === undefined) return undefined;
  const { answered: _unknown, ...rest } = row;
  return rest;
}
