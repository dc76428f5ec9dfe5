/** Whether a container that does not run should (node-agent §6.5, rule S). */
import { newestOf } from "../observed-pod.ts";
import type { ObservedPod } from "../observed-pod.ts";
import type { ContainerSpec, NodePod } from "../pod.ts";

/**
 * Its own restart policy, else the pod's. An init container with `Always` is a sidecar. Rules for exit codes
 * (`restartPolicyRules`) never come here: such a pod is held back (unsupported-features.ts).
 *
 * Source: pkg/api/v1/pod/util.go ContainerShouldRestart.
 */
export function restartPolicyOf(pod: NodePod, container: ContainerSpec): string {
  return container.restartPolicy ?? pod.spec.restartPolicy ?? "Always";
}

/**
 * Judges by the newest instance alone:
 *
 *     pod is being deleted → no          none, CREATED, UNKNOWN → yes          RUNNING → no
 *     EXITED 0 → under Always            EXITED 1 → under Always and OnFailure
 *
 * Source: pkg/kubelet/container/helpers.go ShouldContainerBeRestarted.
 */
export function shouldContainerBeRestarted(pod: NodePod, container: ContainerSpec, observed: ObservedPod): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  const newest = newestOf(observed, container.name);
  if (newest === undefined) return true;
  switch (newest.state) {
    case "CONTAINER_RUNNING":
      return false;
    case "CONTAINER_CREATED":
    case "CONTAINER_UNKNOWN":
      return true;
    case "CONTAINER_EXITED": {
      const policy = restartPolicyOf(pod, container);
      return policy !== "Never" && !(policy === "OnFailure" && newest.exitCode === 0);
    }
  }
}
