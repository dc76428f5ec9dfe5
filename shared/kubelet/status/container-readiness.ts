/** `started` and `ready` of each container, from its state and its probes (node-agent §11, last paragraph). */
import { CONTAINER_ID_PREFIX } from "./container-statuses.ts";
import type { ProbeAnswer } from "../observed-pod.ts";
import { isSidecar } from "../pod.ts";
import type { ContainerSpec, ContainerStatusEntry } from "../pod.ts";

/** Asked with CRI's own id. */
export interface ReadinessProbes {
  readiness(containerId: string): ProbeAnswer;
  startup(containerId: string): ProbeAnswer;
}

/**
 * A regular container or a sidecar:
 *
 *     not RUNNING                               → not started, not ready
 *     startup probe without Success             → not started, not ready
 *     started, readiness probe without Success  → started, not ready
 *     started, no readiness probe, or Success   → ready
 *
 * An init container that is no sidecar is ready once it ended with 0.
 *
 * Source: pkg/kubelet/prober/prober_manager.go UpdatePodStatus, isContainerStarted.
 * Differs from upstream: with no answer of a probe its container is not started or not ready, also right after the agent
 * itself started; upstream keeps what the API server said then (gate ChangeContainerStatusOnKubeletRestart).
 */
export function withReadiness(
  containers: readonly ContainerSpec[],
  statuses: readonly ContainerStatusEntry[],
  { isInit, probes }: { readonly isInit: boolean; readonly probes: ReadinessProbes },
): ContainerStatusEntry[] {
  return statuses.map((status) => {
    const container = containers.find(({ name }) => name === status.name);
    if (container === undefined) return status;
    const started = isStarted(container, status, probes);
    if (isInit && !isSidecar(container)) return { ...status, started, ready: status.state?.terminated?.exitCode === 0 };
    return { ...status, started, ready: started && isReady(container, status, probes) };
  });
}

function isStarted(container: ContainerSpec, status: ContainerStatusEntry, probes: ReadinessProbes): boolean {
  if (status.state?.running === undefined) return false;
  const answer = probes.startup(runtimeId(status));
  return answer === undefined ? container.startupProbe === undefined : answer === "Success";
}

function isReady(container: ContainerSpec, status: ContainerStatusEntry, probes: ReadinessProbes): boolean {
  return container.readinessProbe === undefined || probes.readiness(runtimeId(status)) === "Success";
}

function runtimeId({ containerID = "" }: ContainerStatusEntry): string {
  return containerID.startsWith(CONTAINER_ID_PREFIX) ? containerID.slice(CONTAINER_ID_PREFIX.length) : containerID;
}
