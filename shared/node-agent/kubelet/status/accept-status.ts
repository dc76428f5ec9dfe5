/**
 * What becomes of a status before it is cached (node-agent §13.5). The cache is what the agent answers from and what is sent;
 * a version that did not grow is never sent again.
 */
import { formatTime } from "@deltaloop/kube/objects";
import type { CachedStatus, PodStatus } from "../../ports/node-store.ts";
import { initContainersOf, isSidecar, isTerminalPhase } from "../types/pod.ts";
import type { ContainerSpec, ContainerStatusEntry, NodePod } from "../types/pod.ts";
import { UNSEEN_AT_END, UNSEEN_EXIT } from "./container-statuses.ts";
import type { ContainerStateEntry } from "./container-statuses.ts";
import { DISRUPTION_TARGET, isOwnedCondition, RESIZE_CONDITIONS, withTerminalReadiness } from "./pod-conditions.ts";
import { restartPolicyOf } from "../types/observed-pod.ts";
import { jsonEqual } from "../types/json-equal.ts";
import { isStaticPod } from "../types/labels.ts";

/** Of all containers of a pod together. Source: pkg/kubelet/container/runtime.go MaxPodTerminationMessageLogLength. */
const MESSAGE_BYTES_MAX = 12_288;

/**
 * The entry to store for `next`: `cached` itself when nothing is to be stored, because it says the same already, or because a
 * container would leave Terminated that must not start again (then the whole update is dropped; a bug, if not of ours then of
 * the runtime). `force`: also when it says the same, so that a pod being deleted is looked at once more.
 *
 * Without a cache entry `given.pod.status` is what was before; give a static pod its mirror's. What must not be stored then
 * becomes an entry that says what the API server says and needs no sending.
 *
 * Source: pkg/kubelet/status/status_manager.go updateStatusInternal, normalizeStatus.
 * Differs from upstream: `podIsFinished` sticks to static pods too. Nothing asks for it there.
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
  const isNews = cached === undefined || !saysTheSame(cached.status, status) || (given.finished === true && cached.podIsFinished !== true);
  if (!isNews && !given.force) return cached;
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

/** The pod's policy or the container's own allows it. */
function mayRestart(pod: NodePod, container: ContainerSpec, exitCode: number): boolean {
  const policies = [pod.spec.restartPolicy, restartPolicyOf(pod, container)];
  return policies.includes("Always") || (exitCode !== 0 && policies.includes("OnFailure"));
}

/** `next` with its times, startTime and generation carried on from `before`, and messages within bounds. */
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

/** A condition's time moves with its status alone; those of a resize, which are only ever True, bring their own. Source: status_manager.go updateLastTransitionTime. */
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

/** At most that many bytes of UTF-8, no character cut in half. */
function cutToBytes(text: string, bytesMax: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= bytesMax) return text;
  let end = bytesMax;
  while (end > 0 && ((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end--;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

/**
 * Nothing that is the agent's to say differs: conditions by status, reason and message, other fields whole.
 *
 * Source: status_manager.go isPodStatusByKubeletEqual.
 */
function saysTheSame(a: PodStatus, b: PodStatus): boolean {
  const ours = ({ conditions = [] }: PodStatus): readonly unknown[] =>
    conditions
      .filter(({ type }) => isOwnedCondition(type) || type === DISRUPTION_TARGET)
      .map(({ type, status, reason, message }) => ({ type, status, reason, message }))
      .toSorted((one, other) => (one.type < other.type ? -1 : 1));
  const fields = (status: PodStatus): PodStatus => withoutFields(status, ["conditions", ...FOREIGN_FIELDS]);
  return sameField(ours(a), ours(b)) && sameField(fields(a), fields(b));
}

type Field = keyof PodStatus;

/** Not the agent's: they come from the API server and go back as they are. Source: status_manager.go mergePodStatus. */
export const FOREIGN_FIELDS: readonly Field[] = [
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
 * Compared as the API server would: what is absent, null, empty text or an empty list is the same nothing.
 *
 * Source: apimachinery pkg/api/equality Semantic.DeepEqual, over values that were read from JSON.
 */
export function sameField(a: unknown, b: unknown): boolean {
  return jsonEqual(a, b, saysNothing);
}

/** Empty objects do: a `waiting: {}` says something. */
function saysNothing(value: unknown): boolean {
  return value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

/**
 * `status` (the cached one, else the API server's) with nothing left open: a container that nobody saw end failed, unless the
 * pod never came to start it, and the phase is terminal.
 *
 *     no init containers, a RUNNING         → a Terminated 137 ContainerStatusUnknown, Failed
 *     init i1, i2 waiting, a waiting        → i1 Terminated 137, i2 and a as they are, Failed
 *     init i1 waiting, i2 ended 1, a waiting → i1 Terminated 137, Failed
 *
 * A static pod keeps its phase.
 *
 * Source: pkg/kubelet/status/status_manager.go TerminatePod, hasPodInitialized, initializedContainers.
 * Differs from upstream: whether the pod was initialised is read from `status` as well as from what the API server has; a
 * container ended this way is neither started nor ready, and no more is the pod.
 */
export function terminatedStatus(pod: NodePod, status: PodStatus, nowMs: number): PodStatus {
  const { containerStatuses, initContainerStatuses, conditions } = status;
  const initialized = hasPodInitialized(pod, status) || hasPodInitialized(pod, pod.status ?? {});
  const phase = isStaticPod(pod) || isTerminalPhase(status.phase) ? status.phase : "Failed";
  return {
    ...status,
    ...(phase !== undefined && { phase }),
    ...(containerStatuses && { containerStatuses: initialized ? containerStatuses.map(ended) : containerStatuses }),
    ...(initContainerStatuses && { initContainerStatuses: withBegunEnded(initContainerStatuses) }),
    ...(conditions && { conditions: [...withTerminalReadiness(conditions, phase, formatTime(nowMs))] }),
  };
}

function ended(container: ContainerStatusEntry): ContainerStatusEntry {
  if (container.state?.terminated !== undefined) return container;
  return { ...container, state: { terminated: { ...UNSEEN_EXIT, message: UNSEEN_AT_END } }, ready: false, started: false };
}

/** Up to the last one that ever started; at least the first. */
function withBegunEnded(containers: readonly ContainerStatusEntry[]): ContainerStatusEntry[] {
  const lastBegun = containers.findLastIndex(hasBegun);
  return containers.map((container, index) => (index <= Math.max(lastBegun, 0) ? ended(container) : container));
}

function hasBegun({ state, lastState }: ContainerStatusEntry): boolean {
  return state?.waiting === undefined || lastState?.terminated !== undefined;
}

/** A regular container left Waiting once, or the last init container ended with 0. */
function hasPodInitialized(pod: NodePod, { containerStatuses = [], initContainerStatuses = [] }: PodStatus): boolean {
  if (initContainersOf(pod).length === 0 || containerStatuses.some(hasBegun)) return true;
  const { state, lastState } = initContainerStatuses.at(-1) ?? {};
  return state?.terminated?.exitCode === 0 || lastState?.terminated?.exitCode === 0;
}
