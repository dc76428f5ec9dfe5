/** Generates a pod's status from the observed state (node-agent §13.1–13.4). */
import type { AbnormalTermination, PodAllocation, PodStatus, WaitingReason } from "../../ports/node-store.ts";
import { resizeConditions } from "../allocation/resize-conditions.ts";
import { containerStatuses, probedStatuses, type ReadinessProbes } from "./container-statuses.ts";
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
  /** The cached status, or else the status in the API server. */
  readonly previous: PodStatus | undefined;
  /** Whether all containers have stopped and none of them will be restarted (§5.2, §5.4). */
  readonly terminal: boolean;
  /** The reason of the last failed start, by container name (§9). */
  readonly reasons: Readonly<Record<string, WaitingReason>>;
  readonly probes: ReadinessProbes;
  /** Name of the runtime, such as `containerd`. */
  readonly runtimeName: string;
  /** The node's addresses, primary family first. */
  readonly hostIps: readonly string[];
  readonly nowMs: number;
  /** The last abnormal termination of the worker record, such as an eviction (§4.1). */
  readonly abnormal?: AbnormalTermination;
  /** Conditions of pending and running resizes. */
  readonly allocation?: Pick<PodAllocation, "pending" | "inProgress">;
}

/** Source: pkg/kubelet/active_deadline.go reason, message. */
const DEADLINE_EXCEEDED = {
  reason: "DeadlineExceeded",
  message: "Pod was active on the node longer than the specified deadline",
} as const;

/**
 * Generates the complete status. Only acceptStatus sets transition times and startTime, and truncates messages. Source:
 * pkg/kubelet/kubelet_pods.go generateAPIPodStatus, convertStatusToAPIStatus.
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
 * Returns the phase. A terminal phase never changes; the API server's takes precedence over the cached one. Otherwise, the phase follows
 * from an eviction, an exceeded deadline, or the containers. While the phase is the same, reason and message are kept. Differs from
 * upstream: terminal phases never change (node-agent §0). Upstream may change a phase that was not sent yet, and sets the reason
 * DeadlineExceeded even on a pod that has ended.
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
  const statusesOfPhase = [previous, pod.status].filter((status) => status?.phase === phase);
  const reason = statusesOfPhase.map((status) => status?.reason ?? "").find((text) => text !== "");
  const message = statusesOfPhase.map((status) => status?.message ?? "").find((text) => text !== "");
  return { phase, ...(reason !== undefined && { reason }), ...(message !== undefined && { message }) };
}

/**
 * Returns the conditions that other components set in the API server, and the last DisruptionTarget condition of this agent. Source:
 * kubelet_pods.go generateAPIPodStatus; pkg/kubelet/eviction/eviction_manager.go evictPod.
 */
function othersConditions({ pod, previous, abnormal }: StatusInput): readonly PodCondition[] {
  const external = (pod.status?.conditions ?? []).filter(({ type }) => !isOwnedCondition(type));
  const disruption =
    abnormal?.isDisruption === true
      ? disruptionTarget(pod, abnormal)
      : previous?.conditions?.find(({ type }) => type === DISRUPTION_TARGET);
  if (disruption === undefined) return external;
  return external.some(({ type }) => type === DISRUPTION_TARGET)
    ? external.map((one) => (one.type === DISRUPTION_TARGET ? disruption : one))
    : [...external, disruption];
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

/** One address per family. */
const ADDRESSES_MAX = 2;

/** Returns the fields of a pod status that contain the node's addresses. */
export function hostAddresses(hostIps: readonly string[]): Pick<PodStatus, "hostIP" | "hostIPs"> {
  const [hostIP] = hostIps;
  return hostIP === undefined ? {} : { hostIP, hostIPs: hostIps.slice(0, ADDRESSES_MAX).map((ip) => ({ ip })) };
}

/**
 * Returns the pod's addresses: the first one of the primary family, then the first one of the other family.
 *
 *     node 10.0.0.1, runtime [fd00::5 10.1.0.5 10.1.0.6] → 10.1.0.5, fd00::5
 *
 * A pod on the host network has the node's addresses; it keeps them, and adds an address of a second family if the node gets one later.
 * Other pods keep their addresses while no sandbox is ready.
 * Source: pkg/kubelet/kubelet_pods.go sortPodIPs, generateAPIPodStatus; pkg/kubelet/pleg/generic.go getPodIPs. Differs from upstream:
 * on a restart, upstream loses the address of a pod without a ready sandbox.
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
