/**
 * Runs one sync of one pod (node-agent §4.6, §5). A sync is level-based: the next sync completes whatever a crash interrupted (§18.8).
 *
 * KS1 at most one sync of a pod runs at a time (the queue's group); the fence rejects writes of a sync that was considered lost.
 * KS2 a sync uses only state that was observed after the sync began, or that cannot have changed since it was cached
 *     (node-ports/known-statuses.ts).
 * KS3 nothing starts once the pod is terminating: the record is read again before each irreversible step.
 * KS4 a sync waits at most 2 s for a step; longer steps continue as operations that enqueue the pod when they end.
 */
import type { PodStatus, WorkerRecord } from "../ports/node-store.ts";
import { computePodActions } from "./kuberuntime/compute-pod-actions.ts";
import { isStaticPod } from "./types/labels.ts";
import type { NodePorts } from "./node-ports/node-ports.ts";
import { earliestRetryMs, Pause, type StartError } from "./node-ports/operations.ts";
import type { ObservedPod } from "./types/observed-pod.ts";
import type { SyncEnd } from "./pod-workers/pod-worker.ts";
import { isTerminalPhase, type NodePod } from "./types/pod.ts";
import { fencedUpdate, LostSyncError, type FencedUpdate, type SyncOutcome } from "./pod-workers/update-worker.ts";
import { allocatedPodOf, noteActuated, type NoteActuated } from "./allocation/allocation-manager.ts";
import { endPod, stopName, type EndOptions } from "./kuberuntime/kill-pod.ts";
import { observePod } from "./kuberuntime/observe-pod.ts";
import { ensurePodCgroup } from "./kuberuntime/pod-cgroup.ts";
import { MountError, podVolumes, type PodVolumes } from "./volume/prepare-volumes.ts";
import { podProbes, type PodProbes } from "./prober/prober-manager.ts";
import { reconcileMirror } from "./pod/mirror-client.ts";
import { noteResize, ResizeError } from "./kuberuntime/resize.ts";
import { isHookRunning, runActions } from "./kuberuntime/run-actions.ts";
import { VolumeRetryError } from "./volume/volume-retries.ts";
import { computeStatus, storeStatus, storeTerminated, type StatusRequest } from "./status/status-manager.ts";
import { unsupportedFeature } from "./config/unsupported-features.ts";
import { messageOf } from "@deltaloop/kube/objects";
import { beginSync, completeSync, release } from "./pod-workers/sync-record.ts";

/** One sync of a pod, with functions that are bound to the pod. */
interface PodSync {
  readonly pod: NodePod;
  readonly record: WorkerRecord;
  readonly update: FencedUpdate;
  readonly observe: () => Promise<ObservedPod>;
  readonly probes: PodProbes;
  readonly volumes: PodVolumes;
  /** Computes and stores the status of the observed pod. */
  readonly report: (observed: ObservedPod, as?: Pick<StatusRequest, "abnormal"> & { readonly terminal?: true }) => Promise<PodStatus>;
  readonly terminated: () => Promise<void>;
  /** Stops all containers of the pod. @throws {Pause} during their grace periods */
  readonly end: (observed: ObservedPod, options: EndOptions) => Promise<void>;
  readonly noteResize: (observed: ObservedPod, error?: ResizeError) => Promise<void>;
  readonly noteActuated: NoteActuated;
}

function podSync(ports: NodePorts, pod: NodePod, record: WorkerRecord, update: FencedUpdate): PodSync {
  const probes = podProbes(ports, pod);
  return {
    ...{ pod, record, update, probes },
    volumes: podVolumes(ports, pod, update),
    observe: () => observePod(ports, pod.metadata),
    report: async (observed, { terminal = false, ...why } = {}) => {
      const status = await computeStatus(ports, { pod, observed, terminal, ...why, probes: await probes.answers(observed) });
      await storeStatus(ports, pod, status, { update });
      return status;
    },
    terminated: () => storeTerminated(ports, pod, update),
    end: (observed, options) => endPod(ports, pod, observed, options),
    noteResize: (observed, error) => noteResize(ports, { pod, update }, observed, error),
    noteActuated: (container) => noteActuated(ports, pod, container, update),
  };
}

/** Runs one sync of the pod. Reports failures by Events and in the status, and then requeues the pod. @throws {LostSyncError} */
export async function syncPod(ports: NodePorts, uid: string): Promise<void> {
  const start = await beginSync(ports, uid);
  if (start === undefined || start.work === "idle") return;
  const { record, work } = start;
  const update = fencedUpdate(ports, { uid, token: record.token });
  const known = await allocatedPodOf(ports, uid);
  // Without a spec, the sync stops all sandboxes and containers that the runtime lists for the pod.
  const isRuntimeOnly = work === "terminatingRuntime" || known === undefined;
  const sync = podSync(ports, isRuntimeOnly ? runtimePod(uid, record) : known, record, update);
  // Termination was requested before the first sync, so no container has run.
  if (work === "finishedUnstarted") {
    if (known !== undefined) await sync.terminated();
    return await release(ports, uid, record);
  }
  let end: SyncEnd;
  let failure: unknown;
  try {
    end = isRuntimeOnly ? await terminateRuntimePod(sync) : await doWork(ports, work, sync);
  } catch (error) {
    if (error instanceof LostSyncError) throw error;
    failure = error;
    end = { kind: "failed" };
  }
  await completeSync(ports, { uid, update, end, failure, outcome: (nowMs) => outcomeOf(failure, nowMs) });
}

async function doWork(ports: NodePorts, work: "sync" | "terminating" | "terminated", sync: PodSync): Promise<SyncEnd> {
  switch (work) {
    case "sync":
      return await syncRunning(ports, sync);
    case "terminating":
      return await syncTerminating(ports, sync);
    case "terminated":
      return await syncTerminated(ports, sync);
    default:
      throw new Error(`unknown work ${String(work satisfies never)}`);
  }
}

/**
 * Source: pkg/kubelet/kubelet.go SyncPod. Differs from upstream: the status reflects actions immediately, not only after the next relist.
 */
async function syncRunning(ports: NodePorts, sync: PodSync): Promise<SyncEnd> {
  const { pod, record, observe, report, probes } = sync;
  const { uid } = pod.metadata;
  const observed = await determine(ports, sync);
  await sync.noteResize(observed);
  await probes.ensure();
  const status = await report(observed);
  await probes.probeUnreadySoon(status);
  if (isTerminalPhase(status.phase)) {
    const { reason, message = "" } = status;
    if (reason === DEADLINE_EXCEEDED) ports.podEvent(pod, { type: "Normal", reason, message });
    return { kind: "synced", terminalPhase: true };
  }

  const { networkError } = ports.condition;
  if (networkError !== undefined && pod.spec.hostNetwork !== true) {
    ports.podEvent(pod, { type: "Warning", reason: "NetworkNotReady", message: `network is not ready: ${networkError}` });
    throw new Error(`network is not ready: ${networkError}`);
  }
  const field = unsupportedFeature(pod);
  if (field !== undefined) await holdUnsupported(ports, sync, observed, field);
  await ensurePodCgroup(ports, pod, observed, sync.end);
  if (isHookRunning(ports, pod)) throw new Pause("a postStart hook is running");
  if (isStaticPod(pod)) await reconcileMirror(ports, pod);
  const { objects, volumePaths } = await sync.volumes.mount({ isUp: observed.sandboxes[0]?.state === "SANDBOX_READY" });

  const actions = computePodActions(pod, observed, await probes.answers(observed));
  const ensureNotTerminating = async (): Promise<void> => {
    const now = await ports.store.read("workers", uid);
    if (now?.token !== record.token) throw new LostSyncError(uid);
    if (now.terminatingAtMs !== undefined) throw new Pause("the pod is terminating", { isTerminating: true });
  };
  const { acted, failed, isRunning, resizeError } = await runActions(ports, {
    ...sync,
    observed,
    actions,
    volumePaths,
    objects,
    ensureNotTerminating,
  });
  if (acted) {
    const after = await observe();
    await sync.noteResize(after, resizeError);
    await report(after);
  }
  const failures = [...failed.values(), ...(resizeError === undefined ? [] : [resizeError])];
  if (failures.length > 0) throw new AggregateError(failures, failures.map(described).join("; "));
  if (!isRunning) ports.operations.tidy(uid);
  return { kind: "synced", terminalPhase: false };
}

function described(failure: StartError | ResizeError): string {
  return `${failure instanceof ResizeError ? "ResizePodInPlaceError" : failure.reason}: ${failure.message}`;
}

/** Observes the pod for this sync (KS2). Source: pkg/kubelet/pod_workers.go podWorkerLoop. */
async function determine(ports: Pick<NodePorts, "podEvent">, { pod, observe }: PodSync): Promise<ObservedPod> {
  return await observe().catch((error: unknown) => {
    ports.podEvent(pod, { type: "Warning", reason: "FailedSync", message: `error determining status: ${messageOf(error)}` });
    throw error;
  });
}

/** Status reason of a pod that exceeded its active deadline. Source: pkg/kubelet/active_deadline.go. */
const DEADLINE_EXCEEDED = "DeadlineExceeded";

/** Keeps the pod Pending. If it failed, a ReplicaSet would create replacements without limit (§0). */
async function holdUnsupported(
  ports: Pick<NodePorts, "podEvent">,
  { pod, update, report }: PodSync,
  observed: ObservedPod,
  field: string,
): Promise<never> {
  const message = `${field} is not supported by this node agent`;
  ports.podEvent(pod, { type: "Warning", reason: "UnsupportedPodFeature", message });
  const reasons = Object.fromEntries(pod.spec.containers.map(({ name }) => [name, { reason: "UnsupportedPodFeature", message }]));
  await update("reasons", pod.metadata.uid, () => reasons);
  await report(observed);
  throw new Error(message);
}

/** Source: pkg/kubelet/kubelet.go SyncTerminatingPod. */
async function syncTerminating(ports: NodePorts, sync: PodSync): Promise<SyncEnd> {
  const { pod, record, update, observe, report, probes } = sync;
  const { uid } = pod.metadata;
  const abnormal = record.abnormalTerminations.at(-1);
  const why = { ...(abnormal && { abnormal }) };
  await update("restarts", uid, () => undefined); // from here on, no container is restarted
  const before = await determine(ports, sync);
  await report(before, why);
  await probes.stop(["liveness", "startup"]);
  const operations = ports.operations.names(uid);
  if (operations.some((name) => name.startsWith("sandbox:"))) throw new Pause("a sandbox is being created and cannot be stopped yet");

  const graceSeconds = record.gracePeriodSeconds;
  const isBeingKilled = operations.some((name) => name.startsWith("kill"));
  const skipHook = (id: string): boolean => isBeingKilled || operations.includes(stopName(id));
  await sync.end(before, { name: `kill:${graceSeconds}`, graceSeconds, skipHook });
  await probes.stop(["readiness"]);
  await ports.containerManager.updateQos();
  const after = { ...(await observe()), ips: before.ips };
  const running = after.containers.filter(({ state }) => state === "CONTAINER_RUNNING");
  if (running.length > 0) throw new Error(`containers still running after stop: ${running.map(({ name }) => name).join(", ")}`);
  await report(after, { ...why, terminal: true });
  return { kind: "terminatingDone" };
}

function runtimePod(uid: string, { fullName }: WorkerRecord): NodePod {
  return { metadata: { uid, name: fullName, namespace: "" }, spec: { containers: [] } };
}

/** Terminates a pod that is known only from the runtime: without a status, hooks or Events. */
async function terminateRuntimePod({ record, observe, end }: PodSync): Promise<SyncEnd> {
  await end(await observe(), { name: "kill", graceSeconds: record.gracePeriodSeconds, skipHook: () => true, isSilent: true });
  return { kind: "terminatingRuntimeDone" };
}

/** Dead containers are kept for their logs until garbage collection. Source: pkg/kubelet/kubelet.go SyncTerminatedPod. */
async function syncTerminated(ports: NodePorts, sync: PodSync): Promise<SyncEnd> {
  const { pod, report } = sync;
  const { uid } = pod.metadata;
  await report(await determine(ports, sync), { terminal: true });
  await sync.volumes.unmount();
  await ports.containerManager.destroy(uid);
  ports.objects.forget(uid);
  ports.podCertificates.forget(uid);
  ports.operations.forget(uid);
  await sync.terminated();
  return { kind: "terminatedDone" };
}

function outcomeOf(failure: unknown, nowMs: number): SyncOutcome {
  if (failure === undefined || failure instanceof Pause) return { kind: "ok" };
  const retryAtMs = earliestRetryMs(failure);
  if (isOfVolumes(failure) && retryAtMs !== undefined) return { kind: "volume", retryAtMs, nowMs };
  const message = messageOf(failure);
  return { kind: "error", message, nowMs, ...(retryAtMs !== undefined && { retryAtMs }) };
}

function isOfVolumes(failure: unknown): boolean {
  const errors: readonly unknown[] = failure instanceof AggregateError ? failure.errors : [failure];
  return errors.some((error) => error instanceof MountError || error instanceof VolumeRetryError);
}
