/**
 * Decides how a new status enters the cache (node-agent §13.5). The cache answers requests, and each of its versions is sent to the API
 * server once.
 */
import { formatTime } from "@deltaloop/kube/objects";
import type { CachedStatus, PodStatus } from "../../ports/node-store.ts";
import { initContainersOf, isSidecar, isTerminalPhase, type ContainerSpec, type ContainerStatusEntry, type NodePod } from "../types/pod.ts";
import { UNSEEN_AT_END, UNSEEN_EXIT, type ContainerStateEntry } from "./container-statuses.ts";
import { DISRUPTION_TARGET, isOwnedCondition, RESIZE_CONDITIONS, withTerminalReadiness } from "./pod-conditions.ts";
import { restartsAfter } from "../types/observed-pod.ts";
import { jsonEqual } from "../types/json-equal.ts";
import { isStaticPod } from "../types/labels.ts";

/**
 * Maximum total size of the termination messages of a pod's containers. Source: pkg/kubelet/container/runtime.go
 * MaxPodTerminationMessageLogLength.
 */
const MESSAGE_BYTES_MAX = 12_288;

/**
 * Returns the entry to store for `next`. Returns `cached` if nothing changes, or if a container would leave Terminated although that is
 * forbidden, which is a bug of the agent or the runtime. With `force`, an equal status is stored, too.
 *
 * Without a cache entry, the previous status is `given.pod.status`; for a static pod, pass its mirror pod's status. If such an update is
 * rejected, the returned entry has the API server's status and is not sent. Source: pkg/kubelet/status/status_manager.go
 * updateStatusInternal, normalizeStatus.
 * Differs from upstream: `podIsFinished` also applies to static pods, where nothing uses it.
 */
export function acceptStatus(
  cached: CachedStatus | undefined,
  next: PodStatus,
  given: { readonly pod: NodePod; readonly force: boolean; readonly nowMs: number; readonly finished?: true },
): CachedStatus {
  const { pod, nowMs } = given;
  const before = cached?.status ?? pod.status ?? {};
  if (leavesTerminated(pod, before, next)) return cached ?? { status: before, version: 1, sentVersion: 1, changedAtMs: nowMs };

  const status = fitted(pod, before, next, formatTime(nowMs));
  const isChanged =
    cached === undefined || !isSameStatus(cached.status, status) || (given.finished === true && cached.podIsFinished !== true);
  if (!isChanged && !given.force) return cached;
  const isFinished = given.finished === true || cached?.podIsFinished === true;
  const isUnsent = cached !== undefined && cached.version > cached.sentVersion;
  return {
    status,
    version: (cached?.version ?? 0) + 1,
    sentVersion: cached?.sentVersion ?? 0,
    ...(isFinished && { podIsFinished: true }),
    changedAtMs: isUnsent ? cached.changedAtMs : nowMs,
    ...(cached?.answered !== undefined && { answered: cached.answered }),
  };
}

/** Source: status_manager.go checkContainerStateTransition. */
function leavesTerminated(pod: NodePod, before: PodStatus, next: PodStatus): boolean {
  if ((pod.spec.restartPolicy ?? "Always") === "Always") return false;
  const leaves = (container: ContainerSpec, was: ContainerStatusEntry[] = [], is: ContainerStatusEntry[] = []): boolean => {
    const exitCode = was.find(({ name }) => name === container.name)?.state?.terminated?.exitCode;
    const now = is.find(({ name }) => name === container.name);
    return exitCode !== undefined && now !== undefined && now.state?.terminated === undefined && !mayRestart(pod, container, exitCode);
  };
  return (
    pod.spec.containers.some((container) => leaves(container, before.containerStatuses, next.containerStatuses)) ||
    initContainersOf(pod).some(
      (container) => !isSidecar(container) && leaves(container, before.initContainerStatuses, next.initContainerStatuses),
    )
  );
}

/** Whether the pod's policy allows a restart, or the container's policy or rules do. */
function mayRestart(pod: NodePod, container: ContainerSpec, exitCode: number): boolean {
  return (exitCode !== 0 && pod.spec.restartPolicy === "OnFailure") || restartsAfter(pod, container, exitCode);
}

/** Returns `next` with the times, startTime and generation of `before`, and with truncated messages. */
function fitted(pod: NodePod, before: PodStatus, next: PodStatus, nowText: string): PodStatus {
  const observedGeneration = Math.max(before.observedGeneration ?? 0, next.observedGeneration ?? 0);
  const containers = pod.spec.containers.length + initContainersOf(pod).length + (pod.spec.ephemeralContainers ?? []).length;
  const bytesMax = Math.floor(MESSAGE_BYTES_MAX / containers);
  const { containerStatuses, initContainerStatuses, ephemeralContainerStatuses } = next;
  return {
    ...next,
    ...(next.conditions !== undefined && { conditions: withTransitionTimes(before, next.conditions, nowText) }),
    ...(containerStatuses && { containerStatuses: containerStatuses.map((status) => bounded(status, bytesMax)) }),
    ...(initContainerStatuses && { initContainerStatuses: initContainerStatuses.map((status) => bounded(status, bytesMax)) }),
    ...(ephemeralContainerStatuses && {
      ephemeralContainerStatuses: ephemeralContainerStatuses.map((status) => bounded(status, bytesMax)),
    }),
    startTime: before.startTime ?? next.startTime ?? nowText,
    ...(observedGeneration !== 0 && { observedGeneration }),
  };
}

/**
 * The transition time of a condition changes only with its status; resize conditions have their own times. Source: status_manager.go
 * updateLastTransitionTime.
 */
function withTransitionTimes(
  before: PodStatus,
  conditions: NonNullable<PodStatus["conditions"]>,
  nowText: string,
): NonNullable<PodStatus["conditions"]> {
  return conditions.map((condition) => {
    if (!isOwnedCondition(condition.type) && condition.type !== DISRUPTION_TARGET) return condition;
    if (RESIZE_CONDITIONS.has(condition.type)) return condition;
    const was = before.conditions?.find(({ type }) => type === condition.type);
    const lastTransitionTime = was?.status === condition.status ? (was.lastTransitionTime ?? nowText) : nowText;
    return { ...condition, lastTransitionTime };
  });
}

function bounded(status: ContainerStatusEntry, bytesMax: number): ContainerStatusEntry {
  const { state, lastState } = status;
  return {
    ...status,
    ...(state && { state: boundedState(state, bytesMax) }),
    ...(lastState && { lastState: boundedState(lastState, bytesMax) }),
  };
}

function boundedState(state: ContainerStateEntry, bytesMax: number): ContainerStateEntry {
  const message = state.terminated?.message;
  if (state.terminated === undefined || message === undefined) return state;
  return { ...state, terminated: { ...state.terminated, message: cutToBytes(message, bytesMax) } };
}

/** Truncates to UTF-8 bytes without splitting characters. */
function cutToBytes(text: string, bytesMax: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= bytesMax) return text;
  let end = bytesMax;
  while (end > 0 && ((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end--;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

/**
 * Whether all fields that the agent owns are equal. Conditions are compared by status, reason and message. Source: status_manager.go
 * isPodStatusByKubeletEqual.
 */
function isSameStatus(a: PodStatus, b: PodStatus): boolean {
  const owned = ({ conditions = [] }: PodStatus): readonly unknown[] =>
    conditions
      .filter(({ type }) => isOwnedCondition(type) || type === DISRUPTION_TARGET)
      .map(({ type, status, reason, message }) => ({ type, status, reason, message }))
      .toSorted((one, other) => (one.type < other.type ? -1 : 1));
  const fields = (status: PodStatus): PodStatus => withoutFields(status, ["conditions", ...API_SERVER_FIELDS]);
  return sameField(owned(a), owned(b)) && sameField(fields(a), fields(b));
}

type Field = keyof PodStatus;

/** Fields that the API server owns and that are sent back unchanged. Source: status_manager.go mergePodStatus. */
export const API_SERVER_FIELDS: readonly Field[] = [
  "resourceClaimStatuses",
  "extendedResourceClaimStatus",
  "nodeAllocatableResourceClaimStatuses",
];

export function onlyFields(status: PodStatus, fields: readonly Field[]): PodStatus {
  return Object.fromEntries(Object.entries(status).filter(([key]) => fields.some((field) => field === key)));
}

export function withoutFields(status: PodStatus, fields: readonly Field[]): PodStatus {
  return Object.fromEntries(Object.entries(status).filter(([key]) => !fields.some((field) => field === key)));
}

/**
 * Compares as the API server does: absent, null, an empty string and an empty list are equal. Source: apimachinery pkg/api/equality
 * Semantic.DeepEqual, for values from JSON.
 */
export function sameField(a: unknown, b: unknown): boolean {
  return jsonEqual(a, b, isEmpty);
}

/** Empty objects do not count as absent, because `waiting: {}` differs from no `waiting`. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

/**
 * Returns the final status. A container whose end was not observed counts as failed, unless the pod never reached it. The phase is
 * terminal.
 *
 *     no init containers, a RUNNING         → a Terminated 137 ContainerStatusUnknown, Failed
 *     init i1, i2 waiting, a waiting        → i1 Terminated 137, i2 and a unchanged, Failed
 *     init i1 waiting, i2 ended 1, a waiting → i1 Terminated 137, Failed
 *
 * A static pod keeps its phase. Source: pkg/kubelet/status/status_manager.go TerminatePod, hasPodInitialized, initializedContainers.
 * Differs from upstream: also reads from `status` whether the pod was initialized; such containers, and the pod, are neither started nor
 * ready.
 */
export function terminatedStatus(pod: NodePod, status: PodStatus, nowMs: number): PodStatus {
  const { containerStatuses, initContainerStatuses, conditions } = status;
  const initialized = hasPodInitialized(pod, status) || hasPodInitialized(pod, pod.status ?? {});
  const phase = isStaticPod(pod) || isTerminalPhase(status.phase) ? status.phase : "Failed";
  return {
    ...status,
    ...(phase !== undefined && { phase }),
    ...(containerStatuses && { containerStatuses: initialized ? containerStatuses.map(ended) : containerStatuses }),
    ...(initContainerStatuses && { initContainerStatuses: withStartedEnded(initContainerStatuses) }),
    ...(conditions && { conditions: [...withTerminalReadiness(conditions, phase, formatTime(nowMs))] }),
  };
}

function ended(container: ContainerStatusEntry): ContainerStatusEntry {
  if (container.state?.terminated !== undefined) return container;
  return { ...container, state: { terminated: { ...UNSEEN_EXIT, message: UNSEEN_AT_END } }, ready: false, started: false };
}

/** Marks containers as ended up to the last one that was started, and at least the first one. */
function withStartedEnded(containers: readonly ContainerStatusEntry[]): ContainerStatusEntry[] {
  const lastStarted = containers.findLastIndex(hasStarted);
  return containers.map((container, index) => (index <= Math.max(lastStarted, 0) ? ended(container) : container));
}

function hasStarted({ state, lastState }: ContainerStatusEntry): boolean {
  return state?.waiting === undefined || lastState?.terminated !== undefined;
}

/** Whether a regular container has left Waiting, or the last init container has exited with code 0. */
function hasPodInitialized(pod: NodePod, { containerStatuses = [], initContainerStatuses = [] }: PodStatus): boolean {
  if (initContainersOf(pod).length === 0 || containerStatuses.some(hasStarted)) return true;
  const { state, lastState } = initContainerStatuses.at(-1) ?? {};
  return state?.terminated?.exitCode === 0 || lastState?.terminated?.exitCode === 0;
}
