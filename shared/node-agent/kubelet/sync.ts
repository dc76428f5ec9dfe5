/**
 * One turn of one pod's worker (node-agent §4.6, §5): take what is pending, look at the runtime, do what is left to do, say when to
 * look again. Level-based: whatever a crash interrupted, the next turn sees and finishes (§18.8).
 *
 * KS1 at most one turn of a pod runs at a time (the queue's group), and a turn that was given up for lost cannot write (the fence).
 * KS2 nothing is decided on a state that was observed before the turn began (node-ports/known-statuses.ts has what does not change meanwhile).
 * KS3 nothing of a pod is started once its end was asked for: the record is read again before each step that cannot be taken back.
 * KS4 a turn waits for no step longer than 2 s; longer steps go on as operations and wake the pod.
 */
import { ownAt } from "@deltaloop/base";
import type { Fence, WorkerRecord } from "../ports/node-store.ts";
import { computePodActions } from "./kuberuntime/compute-pod-actions.ts";
import type { ReferencedObjects } from "./types/referenced-objects.ts";
import { isStaticPod } from "./types/labels.ts";
import type { NodePorts } from "./node-ports/node-ports.ts";
import { earliestRetryMs, Pause } from "./node-ports/operations.ts";
import type { StartError } from "./node-ports/operations.ts";
import type { ObservedPod } from "./types/observed-pod.ts";
import { endTurn, startTurn } from "./pod-workers/pod-worker.ts";
import type { TurnEnd, TurnStart } from "./pod-workers/pod-worker.ts";
import { isTerminalPhase } from "./types/pod.ts";
import type { NodePod } from "./types/pod.ts";
import { LostTurnError, requeueDelayMs, updateFenced, updateOwn, updateWorker } from "./pod-workers/update-worker.ts";
import { releaseFullName, startGate } from "./pod-workers/static-start.ts";
import type { StartVerdict } from "./pod-workers/static-start.ts";
import { allocatedPodOf } from "./allocation/allocation-manager.ts";
import { endPod, stopName } from "./kuberuntime/kill-pod.ts";
import { observePod } from "./kuberuntime/observe-pod.ts";
import { ensurePodCgroup } from "./kuberuntime/pod-cgroup.ts";
import { podEvent } from "./events/pod-events.ts";
import { MountError, prepareVolumes, readReferences } from "./volume/prepare-volumes.ts";
import type { VolumePaths } from "./volume/prepare-volumes.ts";
import { ensureProbes, hurryReadiness, readProbeAnswers, stopProbes } from "./prober/prober-manager.ts";
import { reconcileMirror } from "./pod/mirror-client.ts";
import { noteResize, ResizeError } from "./kuberuntime/resize.ts";
import { isHookRunning, runActions } from "./kuberuntime/run-actions.ts";
import { retriedInTurn, VolumeRetryError, withVolumeBackOff } from "./volume/volume-retries.ts";
import { computeStatus, storeStatus, storeTerminated } from "./status/status-manager.ts";
import { unsupportedFeature } from "./config/unsupported-features.ts";
import { messageOf } from "@deltaloop/kube/objects";

interface Turn {
  readonly pod: NodePod;
  readonly record: WorkerRecord;
  readonly fence: Fence;
}

/** Never throws for what a pod does wrong: that is said by Events and status, and looked at again. @throws {LostTurnError} */
export async function syncPod(ports: NodePorts, uid: string): Promise<void> {
  const start = await begin(ports, uid);
  if (start === undefined || start.work === "idle") return;
  const { record, work } = start;
  const fence = { uid, token: record.token };
  const pod = await allocatedPodOf(ports, uid);
  if (work === "finishedUnstarted") return await finish(ports, uid, record, pod, fence);
  let end: TurnEnd;
  let failure: unknown;
  try {
    if (work === "terminatingRuntime") end = await terminateRuntimePod(ports, uid, record);
    // Nobody has its spec any more: what runs of it is ended by what the runtime says.
    else if (pod === undefined) end = await terminateRuntimePod(ports, uid, record);
    else end = await doWork(ports, work, { pod, record, fence });
  } catch (error) {
    if (error instanceof LostTurnError) throw error;
    failure = error;
    end = { kind: "failed" };
  }
  await close(ports, uid, fence, end, failure);
}

async function begin(ports: NodePorts, uid: string): Promise<TurnStart | undefined> {
  const verdict = await gate(ports, uid);
  let start: TurnStart | undefined;
  await ports.store.update("workers", uid, (record) => {
    start = record && startTurn(record, verdict, ports.clock.now());
    return start?.record;
  });
  if (verdict === "notYet") await ports.store.schedule("pods", uid, ports.clock.now() + requeueDelayMs(NOT_YET, ports.random.next()));
  return start;
}

const NOT_YET = { kind: "error", message: "another static pod of this name has not ended", nowMs: 0 } as const;

async function gate({ store }: NodePorts, uid: string): Promise<StartVerdict> {
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

async function doWork(ports: NodePorts, work: "sync" | "terminating" | "terminated", turn: Turn): Promise<TurnEnd> {
  switch (work) {
    case "sync":
      return await syncRunning(ports, turn);
    case "terminating":
      return await syncTerminating(ports, turn);
    case "terminated":
      return await syncTerminated(ports, turn);
    default:
      throw new Error(`unknown work ${String(work satisfies never)}`);
  }
}

/** Source: pkg/kubelet/kubelet.go SyncPod. Differs from upstream: what was done shows in the status at once, not after the next relist. */
async function syncRunning(ports: NodePorts, turn: Turn): Promise<TurnEnd> {
  const { pod, fence } = turn;
  const { uid } = pod.metadata;
  const observed = await determine(ports, pod);
  await noteResize(ports, turn, observed);
  await ensureProbes(ports, pod);
  const status = await computeStatus(ports, { pod, observed, terminal: false });
  await storeStatus(ports, pod, status, { fence });
  await hurryReadiness(ports, pod, status);
  if (isTerminalPhase(status.phase)) {
    const { reason, message = "" } = status;
    if (reason === DEADLINE_EXCEEDED) podEvent(ports, pod, { type: "Normal", reason, message });
    return { kind: "synced", terminalPhase: true };
  }

  const { networkError } = ports.condition;
  if (networkError !== undefined && pod.spec.hostNetwork !== true) {
    podEvent(ports, pod, { type: "Warning", reason: "NetworkNotReady", message: `network is not ready: ${networkError}` });
    throw new Error(`network is not ready: ${networkError}`);
  }
  await holdUnsupported(ports, turn, observed);
  await ensurePodCgroup(ports, pod, observed);
  if (isHookRunning(ports, pod)) throw new Pause("a postStart hook goes on");
  if (isStaticPod(pod)) await reconcileMirror(ports, pod);
  const { objects, volumePaths } = await retriedInTurn(ports, uid, () => mount(ports, turn, observed));

  const nameOf = (id: string): string | undefined => observed.containers.find((container) => container.id === id)?.name;
  const actions = computePodActions(pod, observed, await readProbeAnswers(ports, pod, nameOf));
  const mayGoOn = async (): Promise<void> => {
    const now = await ports.store.read("workers", uid);
    if (now?.token !== fence.token) throw new LostTurnError(uid);
    if (now.terminatingAtMs !== undefined) throw new Pause("the pod is to end", { isTerminating: true });
  };
  const { acted, failed, goesOn, resizeError } = await runActions(ports, { pod, observed, actions, volumePaths, objects, fence, mayGoOn });
  if (acted) {
    const after = await observePod(ports, pod.metadata);
    await noteResize(ports, turn, after, resizeError);
    await storeStatus(ports, pod, await computeStatus(ports, { pod, observed: after, terminal: false }), { fence });
  }
  const failures = [...failed.values(), ...(resizeError === undefined ? [] : [resizeError])];
  if (failures.length > 0) throw new AggregateError(failures, failures.map(described).join("; "));
  if (!goesOn) ports.operations.tidy(uid);
  return { kind: "synced", terminalPhase: false };
}

function described(failure: StartError | ResizeError): string {
  return `${failure instanceof ResizeError ? "ResizePodInPlaceError" : failure.reason}: ${failure.message}`;
}

/** What the turn goes by (KS2). Source: pkg/kubelet/pod_workers.go podWorkerLoop, whose only FailedSync this is. */
async function determine(ports: NodePorts, pod: NodePod): Promise<ObservedPod> {
  return await observePod(ports, pod.metadata).catch((error: unknown) => {
    podEvent(ports, pod, { type: "Warning", reason: "FailedSync", message: `error determining status: ${messageOf(error)}` });
    throw error;
  });
}

/** The active deadline ends a pod by its status. Source: pkg/kubelet/active_deadline.go. */
const DEADLINE_EXCEEDED = "DeadlineExceeded";

/** Such a pod waits, with its reason, for an agent that can run it: a ReplicaSet replaces failed ones without limit (§0). */
async function holdUnsupported(ports: NodePorts, { pod, fence }: Turn, observed: ObservedPod): Promise<void> {
  const field = unsupportedFeature(pod);
  if (field === undefined) return;
  const message = `${field} is not supported by this node agent`;
  podEvent(ports, pod, { type: "Warning", reason: "UnsupportedPodFeature", message });
  const reasons = Object.fromEntries(pod.spec.containers.map(({ name }) => [name, { reason: "UnsupportedPodFeature", message }]));
  await updateFenced(ports, "reasons", pod.metadata.uid, () => reasons, fence);
  await storeStatus(ports, pod, await computeStatus(ports, { pod, observed, terminal: false }), { fence });
  throw new Error(message);
}

/** What a pod that runs already has mounted stays usable when it cannot be brought up to date. */
async function mount(
  ports: NodePorts,
  { pod, fence }: Turn,
  observed: ObservedPod,
): Promise<{ readonly objects: ReferencedObjects; readonly volumePaths: VolumePaths }> {
  const objects = await readReferences(ports, pod);
  const isUp = observed.sandboxes[0]?.state === "SANDBOX_READY";
  const { paths, failures } = await prepareVolumes(ports, pod, objects, { acceptsOld: isUp, fence });
  for (const { message, isNews } of failures) if (isNews) podEvent(ports, pod, { type: "Warning", reason: "FailedMount", message });
  const lacking = failures.filter(({ volume }) => ownAt(paths, volume) === undefined);
  if (lacking.length > 0) throw new AggregateError(lacking, lacking.map(({ message }) => message).join("; "));
  return { objects, volumePaths: paths };
}

/** Source: pkg/kubelet/kubelet.go SyncTerminatingPod. */
async function syncTerminating(ports: NodePorts, { pod, record, fence }: Turn): Promise<TurnEnd> {
  const { uid } = pod.metadata;
  const abnormal = record.abnormalTerminations.at(-1);
  await updateFenced(ports, "restarts", uid, () => undefined, fence); // nothing of it starts again: what it ended with counts
  const before = await determine(ports, pod);
  await storeStatus(ports, pod, await computeStatus(ports, { pod, observed: before, terminal: false, ...(abnormal && { abnormal }) }), {
    fence,
  });
  await stopProbes(ports, pod, ["liveness", "startup"]);
  const goingOn = ports.operations.names(uid);
  if (goingOn.some((name) => name.startsWith("sandbox:"))) throw new Pause("a sandbox is being made, and must be there to be stopped");

  const graceSeconds = record.gracePeriodSeconds;
  const isBeingKilled = goingOn.some((name) => name.startsWith("kill"));
  const skipHook = (id: string): boolean => isBeingKilled || goingOn.includes(stopName(id));
  await endPod(ports, pod, before, { name: `kill:${graceSeconds}`, graceSeconds, skipHook });
  await stopProbes(ports, pod, ["readiness"]);
  await ports.containerManager.updateQos();
  const after = { ...(await observePod(ports, pod.metadata)), ips: before.ips };
  const running = after.containers.filter(({ state }) => state === "CONTAINER_RUNNING");
  if (running.length > 0) throw new Error(`containers run on after they were stopped: ${running.map(({ name }) => name).join(", ")}`);
  await storeStatus(ports, pod, await computeStatus(ports, { pod, observed: after, terminal: true, ...(abnormal && { abnormal }) }), {
    fence,
  });
  return { kind: "terminatingDone" };
}

/** What only the runtime knows of: no status, no hooks. */
async function terminateRuntimePod(ports: NodePorts, uid: string, record: WorkerRecord): Promise<TurnEnd> {
  const observed = await observePod(ports, { uid, name: record.fullName, namespace: "" });
  const pod: NodePod = { metadata: { uid, name: record.fullName, namespace: "" }, spec: { containers: [] } };
  const silent = { ...ports, record: () => undefined };
  await endPod(silent, pod, observed, { name: "kill", graceSeconds: record.gracePeriodSeconds, skipHook: () => true });
  return { kind: "terminatingRuntimeDone" };
}

/** Source: pkg/kubelet/kubelet.go SyncTerminatedPod. Dead containers stay for their logs, until they are collected. */
async function syncTerminated(ports: NodePorts, { pod, fence }: Turn): Promise<TurnEnd> {
  const { uid } = pod.metadata;
  const observed = await determine(ports, pod);
  await storeStatus(ports, pod, await computeStatus(ports, { pod, observed, terminal: true }), { fence });
  await retriedInTurn(ports, uid, () => withVolumeBackOff(ports, { fence }, () => removeVolumes(ports, uid)));
  await ports.containerManager.destroy(uid);
  ports.objects.forget(uid);
  ports.operations.forget(uid);
  await storeTerminated(ports, pod, fence);
  return { kind: "terminatedDone" };
}

/** As an operation: there may be millions of files. @throws {Pause} while it goes on */
async function removeVolumes({ operations, files }: NodePorts, uid: string): Promise<void> {
  await operations.run({ uid, name: "remove", act: () => files.removePodDirectory(uid), pause: "the pod's volumes are being removed" });
}

/** Its end was asked for before it could begin: nothing ran, and nothing has to be looked at. */
async function finish(ports: NodePorts, uid: string, record: WorkerRecord, pod: NodePod | undefined, fence: Fence): Promise<void> {
  if (pod !== undefined) await storeTerminated(ports, pod, fence);
  await release(ports, uid, record);
}

async function close(ports: NodePorts, uid: string, fence: Fence, end: TurnEnd, failure: unknown): Promise<void> {
  const { store, clock, random } = ports;
  let transition = false;
  const record = await updateOwn(ports, fence, (row) => {
    const ended = endTurn(row, end, clock.now());
    transition = ended.transition;
    return ended.record;
  });
  const nowMs = clock.now();
  const delayMs = requeueDelayMs(outcomeOf(failure, transition, nowMs), random.next());
  if (failure !== undefined) report(ports, uid, failure);
  if (record === undefined) return await ports.store.unschedule("pods", uid);
  if (record.finished) return await release(ports, uid, record);
  if (transition || record.pending !== undefined) ports.send("pods", uid, transition ? "transition" : "pending");
  await store.schedule("pods", uid, nowMs + delayMs);
}

function outcomeOf(failure: unknown, transition: boolean, nowMs: number): Parameters<typeof requeueDelayMs>[0] {
  if (transition) return { kind: "transition" };
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

/** What went wrong has said so by an Event of its own, if it concerns users. */
function report({ pods, log }: NodePorts, uid: string, failure: unknown): void {
  if (failure instanceof Pause) return;
  const pod = pods.get(uid);
  log.info("sync failed, it is tried again", {
    pod: pod === undefined ? uid : `${pod.metadata.namespace}/${pod.metadata.name}`,
    error: messageOf(failure),
  });
}

/** A finished static pod makes room for the next one of its name. */
async function release(ports: NodePorts, uid: string, record: WorkerRecord): Promise<void> {
  await ports.store.unschedule("pods", uid);
  if (!record.isStatic) return;
  const row = await ports.store.update("staticPods", record.fullName, (start) => releaseFullName(start, uid));
  for (const waiting of row?.waitingUids ?? []) {
    const pod = ports.pods.get(waiting);
    if (pod !== undefined) await updateWorker(ports, pod, "sync", "the name is free");
  }
}
