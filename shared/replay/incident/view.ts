/**
 * One workload and its objects, as the rules see them. Pods of an old revision never explain the rollout of the new one. A pod that was
 * created during the rollout to replace an old one explains why pods are missing.
 */
import type { CachedResource } from "@deltaloop/kube/objects";
import { templateDifferences } from "../evidence/owner-evidence.ts";
import type { EventEvidence } from "../evidence/other-evidence.ts";
import { isListed } from "../evidence/messages.ts";
import type { ListedMessage } from "../evidence/messages.ts";
import type { ContainerSpec, ContainerStatus } from "../evidence/pod-evidence.ts";
import type { ClusterState } from "./cluster-state.ts";
import type { SeenOwner, SeenPod } from "./seen.ts";
import { isOfTemplate, rolloutChanges } from "./spec-changes.ts";

export interface Workload {
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
}

export interface View {
  readonly state: ClusterState;
  readonly nowMs: number;
  readonly subject: Workload;
  /** The Deployment, ReplicaSet or ReplicationController; absent for a pod. */
  readonly owner?: SeenOwner;
  /** The owner that creates the pods of the current revision. */
  readonly current?: SeenOwner;
  /** The ReplicaSet of the previous revision. */
  readonly previous?: SeenOwner;
  readonly olds: readonly SeenOwner[];
  /** Pods of the current revision, except those that are being deleted. */
  readonly pods: readonly SeenPod[];
  readonly oldPods: readonly SeenPod[];
  readonly terminating: readonly SeenPod[];
}

/** Returns undefined if the object does not exist at that moment. */
export function viewOf(state: ClusterState, subject: Workload): View | undefined {
  const { resource, namespace, name } = subject;
  const isIt = (each: { readonly namespace: string; readonly name: string }): boolean => each.name === name && each.namespace === namespace;
  const base = { state, nowMs: state.nowMs, subject, olds: [], oldPods: [] };
  if (resource === "pods") {
    const pod = state.pods.find(isIt);
    return pod && { ...base, ...split([pod]) };
  }
  const owner = state.owners.find((each) => each.resource === resource && isIt(each));
  if (owner === undefined) return undefined;
  if (resource !== "deployments") return { ...base, owner, current: owner, ...split(state.podsOf(owner.uid)) };
  const sets = state.owners
    .filter(({ ownerUid }) => ownerUid === owner.uid)
    .toSorted((a, b) => (b.revision ?? 0) - (a.revision ?? 0) || (b.createdMs ?? 0) - (a.createdMs ?? 0));
  // Until the controller has observed a change, the ReplicaSet of the current revision is uncertain, and the newest ReplicaSet is the best
  // guess.
  const current = sets.find(({ revision }) => revision !== undefined && revision === owner.revision) ?? sets[0];
  const olds = sets.filter((set) => set !== current);
  const oldPods = olds.flatMap(({ uid }) => state.podsOf(uid));
  const own = split(current === undefined ? [] : state.podsOf(current.uid));
  return {
    ...{ ...base, owner, olds },
    ...(current && { current }),
    ...(olds[0] && { previous: olds[0] }),
    pods: own.pods,
    oldPods: oldPods.filter(({ deletionMs }) => deletionMs === undefined),
    terminating: [...own.terminating, ...split(oldPods).terminating],
  };
}

/** Whether the Deployment's template differs from the current revision, so that no pod has it yet. */
export function isChanged({ owner, current }: View): boolean {
  if (owner?.template === undefined || current?.template === undefined) return false;
  return templateDifferences(current.template, owner.template).length > 0;
}

export function availablePods({ owner, nowMs }: View, pods: readonly SeenPod[]): readonly SeenPod[] {
  const minReadyMs = (owner?.minReadySeconds ?? 0) * 1_000;
  return pods.filter(({ isReady, readySinceMs = 0 }) => isReady && nowMs >= readySinceMs + minReadyMs);
}

/** Whether all pods are updated and available, so that the next sync reports a complete rollout. */
export function arePodsComplete(view: View): boolean {
  const { owner, current, pods, oldPods } = view;
  if (owner?.template === undefined || current?.template === undefined || isChanged(view) || current.replicas !== owner.replicas)
    return false;
  return oldPods.length === 0 && pods.length === owner.replicas && availablePods(view, pods).length === owner.replicas;
}

/** Pods of old revisions that were created during the rollout, while pods are missing. */
export function replacementsOf(view: View): readonly SeenPod[] {
  const { owner, olds, pods, oldPods } = view;
  const startMs = rolloutMsOf(view);
  const isComplete = [...pods, ...oldPods].filter(({ isReady }) => isReady).length >= (owner?.replicas ?? 0);
  if (startMs === undefined || isComplete) return [];
  const wanted = new Set(olds.flatMap(({ uid, replicas }) => (replicas > 0 ? [uid] : [])));
  return oldPods.filter(({ createdMs = 0, ownerUid = "" }) => createdMs > startMs && wanted.has(ownerUid));
}

/** When the rollout of the current revision began; undefined for a rollback whose time is unknown: its ReplicaSet is older. */
function rolloutMsOf({ state, owner, current, previous }: View): number | undefined {
  if (owner === undefined || current?.createdMs === undefined || previous === undefined) return undefined;
  const changes = [...state.changesOf(owner.uid).filter(({ field }) => isOfTemplate(field)), ...rolloutChanges(owner, previous, current)];
  const times = changes.flatMap(({ atMs }) => atMs ?? []);
  const isRollback = current.createdMs < (previous.createdMs ?? 0);
  return isRollback && times.length === 0 ? undefined : Math.max(current.createdMs, ...times);
}

/** Times of objects are whole seconds. */
const SECOND_MS = 1_000;

/** Whether the previous revision was available until the rollout of the current one, and no pod has been since. */
export function endedAvailability({ owner, current, previous }: View): boolean {
  const available = owner?.conditions.find(({ type }) => type === "Available");
  const atMs = timeOf(available?.lastTransitionTime);
  if (available?.status !== "False" || atMs === undefined || current?.createdMs === undefined || previous === undefined) return false;
  return atMs > (previous.createdMs ?? 0) && atMs <= current.createdMs + SECOND_MS;
}

function split(pods: readonly SeenPod[]): Pick<View, "pods" | "terminating"> {
  return {
    pods: pods.filter(({ deletionMs }) => deletionMs === undefined),
    terminating: pods.filter(({ deletionMs }) => deletionMs !== undefined),
  };
}

export function podName({ name }: { readonly name: string }): string {
  return `pod/${name}`;
}

export interface RunContainer {
  readonly pod: SeenPod;
  readonly kind: "container" | "init container" | "sidecar";
  readonly spec: ContainerSpec;
  readonly status: ContainerStatus;
}

/** The containers of active pods that have a status. */
export function containersOf(pods: readonly SeenPod[]): readonly RunContainer[] {
  return pods.flatMap((pod) => {
    if (pod.phase === "Succeeded" || pod.phase === "Failed") return [];
    const of = (specs: readonly ContainerSpec[], statuses: readonly ContainerStatus[], isInit: boolean): readonly RunContainer[] =>
      specs.flatMap((spec) => {
        const status = statuses.find(({ name }) => name === spec.name);
        const kind = !isInit ? "container" : spec.restartPolicy === "Always" ? "sidecar" : "init container";
        return status === undefined ? [] : [{ pod, kind, spec, status } as const];
      });
    const { spec, status } = pod;
    return [...of(spec.initContainers, status.initContainerStatuses, true), ...of(spec.containers, status.containerStatuses, false)];
  });
}

/** Events of an object with one of the reasons, newest first. */
export function eventsOf({ state }: View, uid: string, ...reasons: readonly string[]): readonly EventEvidence[] {
  return state.eventsOf(uid).filter(({ reason }) => reasons.includes(reason));
}

export function listed(message: EventEvidence["message"]): ListedMessage | undefined {
  return isListed(message) ? message : undefined;
}

export function timeOf(text: string | undefined): number | undefined {
  const ms = Date.parse(text ?? "");
  return Number.isNaN(ms) ? undefined : ms;
}

/** `5 Events Failed, last 10:02:11Z`, or nothing. All Events must have the same reason. */
export function eventText(events: readonly EventEvidence[]): readonly string[] {
  const [first] = events;
  if (first === undefined) return [];
  const count = events.reduce((sum, each) => sum + each.count, 0);
  const lastMs = Math.max(...events.flatMap(({ lastTimestamp }) => timeOf(lastTimestamp) ?? []));
  const when = lastMs === -Infinity ? "" : `, last ${new Date(lastMs).toISOString().slice(11, 19)}Z`;
  return [`${count} Event${count === 1 ? "" : "s"} ${first.reason}${when}`];
}
