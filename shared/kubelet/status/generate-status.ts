/** The status of a pod, from what the runtime says of it (node-agent §13.1–13.4). */
import { parseTime } from "../../api/time.ts";
import type { AbnormalTermination, PodStatus, WaitingReason } from "../../ports/node-store.ts";
import { withReadiness } from "./container-readiness.ts";
import type { ReadinessProbes } from "./container-readiness.ts";
import { containerStatuses } from "./container-statuses.ts";
import type { ObservedPod } from "../observed-pod.ts";
import { DISRUPTION_TARGET, isOwnedCondition, ownedConditions } from "./pod-conditions.ts";
import type { PodCondition } from "./pod-conditions.ts";
import { hostAddresses, podAddresses } from "./pod-addresses.ts";
import { podPhase } from "./pod-phase.ts";
import { ephemeralContainersOf, initContainersOf, isTerminalPhase } from "../pod.ts";
import type { ContainerSpec, ContainerStatusEntry, NodePod } from "../pod.ts";
import { qosClass } from "../kuberuntime/qos-class.ts";

export interface StatusInput {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  /** The cached status if there is one, else the API server's. */
  readonly previous: PodStatus | undefined;
  /** §5.2, §5.4: every container has stopped for good. */
  readonly terminal: boolean;
  /** Container name → why its last start failed (§9). */
  readonly reasons: Readonly<Record<string, WaitingReason>>;
  readonly probes: ReadinessProbes;
  /** The node's, primary family first. */
  readonly hostIps: readonly string[];
  readonly nowMs: number;
  /** An eviction or the like (§4.1): the last one of the worker's record. */
  readonly abnormal?: AbnormalTermination;
}

/** Source: pkg/kubelet/active_deadline.go reason, message. */
const DEADLINE_EXCEEDED = {
  reason: "DeadlineExceeded",
  message: "Pod was active on the node longer than the specified deadline",
} as const;

/**
 * All that the agent knows of a pod. Transition times, startTime and bounds are acceptStatus's.
 *
 * Source: pkg/kubelet/kubelet_pods.go generateAPIPodStatus, convertStatusToAPIStatus.
 */
export function generateApiPodStatus(input: StatusInput): PodStatus {
  const { pod, observed, hostIps, previous = pod.status } = input;
  const init = group(input, initContainersOf(pod), { previous: previous?.initContainerStatuses, isInit: true });
  const regular = group(input, pod.spec.containers, { previous: previous?.containerStatuses, isInit: false });
  const ephemeral = containerStatuses(input, {
    containers: ephemeralContainersOf(pod),
    previous: previous?.ephemeralContainerStatuses,
    isInit: false,
  });
  const statuses = [...init, ...regular];
  const phase = phaseOf(input, statuses);
  const others = othersConditions(input);
  return {
    ...phase,
    conditions: [...others, ...ownedConditions(pod, observed, { phase: phase.phase, statuses, others })],
    containerStatuses: regular,
    ...(init.length > 0 && { initContainerStatuses: init }),
    ...(ephemeral.length > 0 && { ephemeralContainerStatuses: ephemeral }),
    ...hostAddresses(hostIps),
    ...podAddresses({ pod, observed, hostIps, previous: previous?.podIPs }),
    qosClass: qosClass(pod),
    ...(pod.metadata.generation !== undefined && { observedGeneration: pod.metadata.generation }),
  };
}

/** Counted from startTime, which is when the agent first saw the pod. Source: pkg/kubelet/active_deadline.go pastActiveDeadline. */
export function isPastActiveDeadline(pod: NodePod, status: PodStatus | undefined, nowMs: number): boolean {
  const seconds = pod.spec.activeDeadlineSeconds;
  const startedMs = parseTime((status ?? pod.status)?.startTime);
  return seconds !== undefined && startedMs !== undefined && nowMs - startedMs >= seconds * 1000;
}

function group(
  input: StatusInput,
  containers: readonly ContainerSpec[],
  { previous, isInit }: { readonly previous: readonly ContainerStatusEntry[] | undefined; readonly isInit: boolean },
): ContainerStatusEntry[] {
  return withReadiness(containers, containerStatuses(input, { containers, previous, isInit }), { isInit, probes: input.probes });
}

type Phase = Required<Pick<PodStatus, "phase">> & Pick<PodStatus, "reason" | "message">;

/**
 * A terminal phase stays, the API server's word first. Else an eviction, else a deadline that passed, else what the containers
 * add up to. Reason and message belong to a phase and stay with it.
 *
 * Differs from upstream: there a cached Failed may still turn into Succeeded and back as long as it was not sent, and a passed
 * deadline puts its reason on a pod that had already ended. Here a terminal phase is never left (node-agent §0).
 */
function phaseOf(input: StatusInput, statuses: readonly ContainerStatusEntry[]): Phase {
  const { pod, previous, abnormal } = input;
  const kept = [pod.status?.phase, previous?.phase].find(isTerminalPhase);
  if (kept === undefined) {
    if (abnormal !== undefined) return { phase: abnormal.phase, reason: abnormal.reason, message: abnormal.message };
    if (isPastActiveDeadline(pod, previous, input.nowMs)) return { phase: "Failed", ...DEADLINE_EXCEEDED };
  }
  const phase = kept ?? podPhase(pod, statuses, input.observed, input.terminal);
  const told = [previous, pod.status].filter((status) => status?.phase === phase);
  const reason = told.map((status) => status?.reason ?? "").find((text) => text !== "");
  const message = told.map((status) => status?.message ?? "").find((text) => text !== "");
  return { phase, ...(reason !== undefined && { reason }), ...(message !== undefined && { message }) };
}

/**
 * What others set, as the API server has it, and DisruptionTarget as it was last decided here.
 *
 * Source: kubelet_pods.go generateAPIPodStatus; pkg/kubelet/eviction/eviction_manager.go evictPod.
 */
function othersConditions({ pod, previous, abnormal }: StatusInput): readonly PodCondition[] {
  const foreign = (pod.status?.conditions ?? []).filter(({ type }) => !isOwnedCondition(type));
  const disruption =
    abnormal?.evict === true ? evicted(pod, abnormal) : previous?.conditions?.find(({ type }) => type === DISRUPTION_TARGET);
  if (disruption === undefined) return foreign;
  return foreign.some(({ type }) => type === DISRUPTION_TARGET)
    ? foreign.map((one) => (one.type === DISRUPTION_TARGET ? disruption : one))
    : [...foreign, disruption];
}

function evicted(pod: NodePod, { message }: AbnormalTermination): PodCondition {
  const { generation = 0 } = pod.metadata;
  return {
    type: DISRUPTION_TARGET,
    status: "True",
    reason: "TerminationByKubelet",
    message,
    ...(generation !== 0 && { observedGeneration: generation }),
  };
}
