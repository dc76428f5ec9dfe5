/** The status of a pod, from what the runtime says of it (node-agent §13.1–13.4). */
import type { AbnormalTermination, PodAllocation, PodStatus, WaitingReason } from "../../ports/node-store.ts";
import { resizeConditions } from "../allocation/resize-conditions.ts";
import { containerStatuses, probedStatuses } from "./container-statuses.ts";
import type { ReadinessProbes } from "./container-statuses.ts";
import type { ObservedPod } from "../types/observed-pod.ts";
import { DISRUPTION_TARGET, isOwnedCondition, ownedConditions } from "./pod-conditions.ts";
import type { PodCondition, ContainerStatusEntry, NodePod } from "../types/pod.ts";
import { podPhase } from "./pod-phase.ts";
import { ephemeralContainersOf, initContainersOf, isTerminalPhase } from "../types/pod.ts";
import { qosClass } from "../types/pod-requests.ts";
import { isPastActiveDeadline } from "../pod-workers/active-deadline.ts";

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
  /** As it calls itself: `containerd`. */
  readonly runtimeName: string;
  /** The node's, primary family first. */
  readonly hostIps: readonly string[];
  readonly nowMs: number;
  /** An eviction or the like (§4.1): the last one of the worker's record. */
  readonly abnormal?: AbnormalTermination;
  /** Of a resize. */
  readonly allocation?: Pick<PodAllocation, "pending" | "inProgress">;
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
  const init = probedStatuses(input, { containers: initContainersOf(pod), previous: previous?.initContainerStatuses, isInit: true });
  const regular = probedStatuses(input, { containers: pod.spec.containers, previous: previous?.containerStatuses, isInit: false });
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
    conditions: [
      ...others,
      ...(input.terminal ? [] : resizeConditions(input.allocation ?? {})),
      ...ownedConditions(pod, observed, { phase: phase.phase, statuses, others }),
    ],
    containerStatuses: regular,
    ...(init.length > 0 && { initContainerStatuses: init }),
    ...(ephemeral.length > 0 && { ephemeralContainerStatuses: ephemeral }),
    ...hostAddresses(hostIps),
    ...podAddresses({ pod, observed, hostIps, previous: previous?.podIPs }),
    qosClass: qosClass(pod),
    ...(pod.metadata.generation !== undefined && { observedGeneration: pod.metadata.generation }),
  };
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
  const computed = (): Phase["phase"] => podPhase(pod, statuses, input.observed, input.terminal);
  const kept = [pod.status?.phase, previous?.phase].find(isTerminalPhase);
  if (kept === undefined) {
    if (abnormal !== undefined) {
      const hasSucceeded = abnormal.unlessSucceeded === true && computed() === "Succeeded";
      return { phase: hasSucceeded ? "Succeeded" : abnormal.phase, reason: abnormal.reason, message: abnormal.message };
    }
    if (isPastActiveDeadline(pod, previous, input.nowMs)) return { phase: "Failed", ...DEADLINE_EXCEEDED };
  }
  const phase = kept ?? computed();
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
    abnormal?.isDisruption === true
      ? disruptionTarget(pod, abnormal)
      : previous?.conditions?.find(({ type }) => type === DISRUPTION_TARGET);
  if (disruption === undefined) return foreign;
  return foreign.some(({ type }) => type === DISRUPTION_TARGET)
    ? foreign.map((one) => (one.type === DISRUPTION_TARGET ? disruption : one))
    : [...foreign, disruption];
}

function disruptionTarget(pod: NodePod, { message, disruptionMessage = message }: AbnormalTermination): PodCondition {
  const { generation = 0 } = pod.metadata;
  return {
    type: DISRUPTION_TARGET,
    status: "True",
    reason: "TerminationByKubelet",
    message: disruptionMessage,
    ...(generation !== 0 && { observedGeneration: generation }),
  };
}

/** One of each family at most. */
const ADDRESSES_MAX = 2;

/** The node's, as it gives them. */
export function hostAddresses(hostIps: readonly string[]): Pick<PodStatus, "hostIP" | "hostIPs"> {
  const [hostIP] = hostIps;
  return hostIP === undefined ? {} : { hostIP, hostIPs: hostIps.slice(0, ADDRESSES_MAX).map((ip) => ({ ip })) };
}

/**
 * The first address of the node's primary family, then the first of the other:
 *
 *     node 10.0.0.1, runtime [fd00::5 10.1.0.5 10.1.0.6] → 10.1.0.5, fd00::5
 *
 * A pod on the host's network takes the node's own once and keeps them; a second family that the node gets later is added.
 * Others keep theirs while no sandbox is READY, so that the pod has an address to its end.
 *
 * Source: pkg/kubelet/kubelet_pods.go sortPodIPs, generateAPIPodStatus; pkg/kubelet/pleg/generic.go getPodIPs.
 * Differs from upstream: there the address of a pod without a READY sandbox is kept in memory only and gone after a restart.
 */
export function podAddresses({
  pod,
  observed,
  hostIps,
  previous,
}: {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  readonly hostIps: readonly string[];
  readonly previous: PodStatus["podIPs"];
}): Pick<PodStatus, "podIP" | "podIPs"> {
  const kept = (previous ?? []).map(({ ip }) => ip);
  const isSandboxReady = observed.sandboxes.some(({ state }) => state === "SANDBOX_READY");
  if (pod.spec.hostNetwork === true) return addresses(withSecondFamily(kept.length > 0 ? kept : hostIps, hostIps));
  if (observed.ips.length === 0 && !isSandboxReady) return addresses(kept);
  return addresses(onePerFamily(observed.ips, isIPv6(hostIps[0] ?? "")));
}

function addresses(ips: readonly string[]): Pick<PodStatus, "podIP" | "podIPs"> {
  const [podIP] = ips;
  return podIP === undefined ? {} : { podIP, podIPs: ips.slice(0, ADDRESSES_MAX).map((ip) => ({ ip })) };
}

function withSecondFamily(ips: readonly string[], hostIps: readonly string[]): readonly string[] {
  const [first = "", ...more] = ips;
  const second = hostIps[1];
  return more.length === 0 && second !== undefined && isIPv6(first) !== isIPv6(second) ? [first, second] : ips;
}

function onePerFamily(ips: readonly string[], isPrimaryIPv6: boolean): readonly string[] {
  const primary = ips.find((ip) => isIPv6(ip) === isPrimaryIPv6);
  const secondary = ips.find((ip) => isIPv6(ip) !== isPrimaryIPv6);
  return [primary, secondary].filter((ip) => ip !== undefined);
}

function isIPv6(ip: string): boolean {
  return ip.includes(":");
}
