/**
 * Passes messages of the pod sources to the pod workers (node-agent §2.5, §2.6, §3).
 *
 * PS1 messages of all sources are handled one at a time, those of one source in order.
 * PS2 a source is ready after its first SET; no pod is removed until all sources are ready.
 */
import { admit, INVALID_NODE_INFO, type Admission } from "../allocation/admission.ts";
import { fullName, isTerminalPhase, type NodePod } from "../types/pod.ts";
import { isMirrorPod, type PodSource } from "../types/labels.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { classify, UNSEEN_SOURCE, type PodChange, type SourceMessage, type SourceState } from "./pod-config.ts";
import { isTerminationRequested } from "../pod-workers/worker-queries.ts";
import { activePodsOf, admissionInput, asAllocated, type ActivePodsPorts } from "../allocation/admission-input.ts";
import { allocate, loadAllocations } from "../allocation/allocation-manager.ts";
import { retryPendingResizes, type RetryResizesPorts } from "../allocation/pending-resizes.ts";
import { preempt } from "../allocation/preempt.ts";
import { storeStatus, type StoreStatusPorts } from "../status/status-manager.ts";
import { updateWorker } from "../pod-workers/update-worker.ts";
import { messageOf } from "@deltaloop/kube/objects";

type PodSourcesPorts = RetryResizesPorts & Pick<NodePorts, "metrics" | "readNode">;

export class PodSources {
  readonly #ports: PodSourcesPorts;
  readonly #states: Map<PodSource, SourceState>;
  #last: Promise<void>;

  constructor(ports: PodSourcesPorts, registered: readonly PodSource[]) {
    this.#ports = ports;
    this.#last = loadAllocations(ports);
    this.#states = new Map(registered.map((source) => [source, UNSEEN_SOURCE]));
  }

  /** Resolves when the message has been handled. */
  async deliver(source: PodSource, message: SourceMessage): Promise<void> {
    const handled = this.#last.then(() => this.#handle(source, message));
    this.#last = handled.catch(() => undefined);
    await handled;
  }

  /** Retries pending resizes. Serialized with the messages, so that each decision accounts for the previous grants. */
  async retryResizes(): Promise<void> {
    const retried = this.#last.then(() => retryPendingResizes(this.#ports));
    this.#last = retried.catch(() => undefined);
    await retried;
  }

  async #handle(source: PodSource, message: SourceMessage): Promise<void> {
    const ports = this.#ports;
    const { state, changes, duplicates } = classify(this.#states.get(source) ?? UNSEEN_SOURCE, source, message, ports.clock.now());
    for (const pod of duplicates)
      ports.podEvent(pod, {
        type: "Warning",
        reason: "FailedValidation",
        message: `Error validating pod ${fullName(pod)} from ${source}, ignoring: another pod has this name`,
      });
    const failed: NodePod[] = [];
    for (const [op, group] of Map.groupBy(changes, (change) => change.op))
      for (const change of inOrder(op, group)) if (!(await this.#tried(change))) failed.push(change.pod);
    this.#states.set(source, withoutChanges(state, this.#states.get(source), failed));
    ports.condition.sourcesReady = [...this.#states.values()].every(({ seen }) => seen);
    ports.condition.lastLoopMs = ports.clock.now();
    if (changes.length > 0) await retryPendingResizes(ports);
  }

  /** Isolates a failure to one pod. A failed change is not stored, so the next message repeats it. */
  async #tried(change: PodChange): Promise<boolean> {
    try {
      await this.#change(change);
      return true;
    } catch (error) {
      const { namespace, name } = change.pod.metadata;
      this.#ports.log.error("failed to handle a pod change; will retry", {
        pod: `${namespace}/${name}`,
        change: change.op,
        error: messageOf(error),
      });
      return false;
    }
  }

  async #change({ op, pod }: PodChange): Promise<void> {
    const ports = this.#ports;
    const { uid } = pod.metadata;
    const before = ports.pods.get(uid);
    if (op === "ADD" && !isMirrorPod(pod)) return await add(ports, pod);
    if (op === "REMOVE") ports.pods.remove(uid);
    else ports.pods.set(pod);
    if (isMirrorPod(pod)) {
      const original = ports.pods.staticOf(pod);
      if (original !== undefined && op !== "RECONCILE") await updateWorker(ports, original, "update", "mirror pod changed");
      return;
    }
    switch (op) {
      case "ADD":
      case "UPDATE":
      case "DELETE":
        return await updateWorker(ports, pod, "update", "spec changed");
      case "REMOVE":
        // Housekeeping handles removals that arrive before all sources are ready.
        if (ports.condition.sourcesReady) await updateWorker(ports, pod, "kill", "removed from its source");
        return;
      case "RECONCILE":
        if (before !== undefined && readinessGatesChanged(before, pod)) await updateWorker(ports, pod, "sync", "readiness gate changed");
        return;
      default:
        throw new Error(`unknown change ${String(op satisfies never)}`);
    }
  }
}

function withoutChanges(after: SourceState, before: SourceState = UNSEEN_SOURCE, failed: readonly NodePod[]): SourceState {
  if (failed.length === 0) return after;
  const pods = new Map(after.pods);
  for (const { metadata } of failed) {
    const known = before.pods.get(metadata.uid);
    if (known === undefined) pods.delete(metadata.uid);
    else pods.set(metadata.uid, known);
  }
  return { ...after, pods };
}

function inOrder(op: PodChange["op"], changes: readonly PodChange[]): readonly PodChange[] {
  if (op !== "ADD") return changes;
  const createdAt = ({ pod }: PodChange): string => pod.metadata.creationTimestamp ?? "";
  return changes.toSorted((a, b) => (createdAt(a) < createdAt(b) ? -1 : createdAt(a) > createdAt(b) ? 1 : 0));
}

/**
 * Admits a new pod; after an agent restart, admits every pod again. The pod becomes desired only afterwards, because housekeeping creates
 * a worker for every desired pod.
 */
async function add(ports: PodSourcesPorts, pod: NodePod): Promise<void> {
  const record = await ports.store.read("workers", pod.metadata.uid);
  if (!isTerminationRequested(record, ports.condition.syncedOnce) && !isTerminalPhase(pod.status?.phase)) {
    const admission = await admissionOf(ports, pod);
    if (!admission.admitted) {
      await reject(ports, pod, admission);
      ports.pods.set(pod);
      return ports.send("statuses", pod.metadata.uid, "rejected");
    }
    if (admission.preemption) await preempt(ports, pod, admission.preemption);
  }
  ports.pods.set(pod);
  await allocate(ports, pod);
  await updateWorker(ports, pod, "create", "new pod");
}

async function admissionOf(
  ports: ActivePodsPorts & Pick<NodePorts, "readNode" | "options" | "resources">,
  pod: NodePod,
): Promise<Admission> {
  const active = await activePodsOf(ports);
  const before = await asAllocated(ports, pod);
  const evaluate = (): Admission => {
    const input = admissionInput(ports, before, active);
    return input === undefined ? INVALID_NODE_INFO : admit(input);
  };
  const first = evaluate();
  if (first.admitted || first.rereadNode !== true) return first;
  // If the read fails, the last known Node is used.
  await ports.readNode().catch(() => undefined);
  return evaluate();
}

async function reject(
  ports: StoreStatusPorts & Pick<NodePorts, "podEvent">,
  pod: NodePod,
  { reason, message }: Extract<Admission, { readonly admitted: false }>,
): Promise<void> {
  ports.podEvent(pod, { type: "Warning", reason, message });
  const { generation } = pod.metadata;
  const rejected = { phase: "Failed", reason, message: `Pod was rejected: ${message}` };
  await storeStatus(ports, pod, { ...pod.status, ...rejected, ...(generation !== undefined && { observedGeneration: generation }) });
}

/**
 * Whether the condition of a readiness gate has changed, so that the Ready condition must be computed again (node-agent §3). Source:
 * pkg/kubelet/kubelet.go HandlePodReconcile, status.NeedToReconcilePodReadiness.
 */
function readinessGatesChanged(before: NodePod, after: NodePod): boolean {
  const statusOf = (pod: NodePod, type: string): string | undefined =>
    pod.status?.conditions?.find((condition) => condition.type === type)?.status;
  return (after.spec.readinessGates ?? []).some(({ conditionType }) => statusOf(before, conditionType) !== statusOf(after, conditionType));
}
