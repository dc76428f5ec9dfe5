/** In which order a pod's containers end, and how long each may take (node-agent §6.9). */
import type { KillReason } from "./compute-pod-actions.ts";
import { initContainersOf, isSidecar } from "../pod.ts";
import type { ContainerSpec, NodePod } from "../pod.ts";

/** Source: pkg/kubelet/kuberuntime, minimumGracePeriodInSeconds. */
export const GRACE_SECONDS_MIN = 2;

/**
 * Names of containers in groups: of one group all are stopped together, each group waits for the one before it. Regular (and
 * ephemeral) containers first, then sidecars one by one, the last of the spec first. preStop hooks do not wait.
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_termination_order.go.
 */
export function terminationOrder(pod: NodePod, running: readonly string[]): readonly (readonly string[])[] {
  const sidecars = initContainersOf(pod)
    .filter(isSidecar)
    .map(({ name }) => name)
    .filter((name) => running.includes(name));
  const others = running.filter((name) => !sidecars.includes(name));
  return [others, ...sidecars.toReversed().map((name) => [name])].filter((group) => group.length > 0);
}

/**
 * Whole seconds, before the floor of 2. `override` is the worker's effective grace of a pod that ends.
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_container.go setTerminationGracePeriod, killContainer.
 */
export function killGraceSeconds(
  pod: NodePod,
  container: ContainerSpec | undefined,
  { reason, override }: { readonly reason?: KillReason | undefined; readonly override?: number | undefined },
): number {
  if (override !== undefined) return override;
  const { deletionGracePeriodSeconds } = pod.metadata;
  if (deletionGracePeriodSeconds !== undefined) return deletionGracePeriodSeconds;
  const ofSpec = pod.spec.terminationGracePeriodSeconds;
  if (ofSpec === undefined) return GRACE_SECONDS_MIN;
  const probe = reason === "StartupProbe" ? container?.startupProbe : reason === "LivenessProbe" ? container?.livenessProbe : undefined;
  return probe?.terminationGracePeriodSeconds ?? ofSpec;
}
