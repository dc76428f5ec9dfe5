/** Whether a pod's sandbox still serves (node-agent §6.2). */
import type { ObservedPod } from "../observed-pod.ts";
import type { NodePod } from "../pod.ts";

export interface SandboxVerdict {
  /** A new one is needed; what runs in the old ones must end first. */
  readonly changed: boolean;
  /** Of the sandbox to make, or of the one that is kept. */
  readonly attempt: number;
  /** Handed on: the one that is kept or replaced. Empty when there was none, and when the network mode changed. */
  readonly sandboxId: string;
}

/**
 * Looks at the newest sandbox, and that it is the only one that is READY:
 *
 *     none                               → make attempt 0
 *     attempt 1 NOTREADY                 → make attempt 2
 *     attempt 1 and attempt 0 both READY → make attempt 2
 *     READY without an IP                → make the next, unless the pod is on the host's network
 *
 * Source: pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged.
 */
export function podSandboxChanged(pod: NodePod, observed: ObservedPod): SandboxVerdict {
  const [newest] = observed.sandboxes;
  if (newest === undefined) return { changed: true, attempt: 0, sandboxId: "" };
  const replaced = { changed: true, attempt: newest.attempt + 1, sandboxId: newest.id };

  const ready = observed.sandboxes.filter(({ state }) => state === "SANDBOX_READY").length;
  if (ready > 1 || newest.state !== "SANDBOX_READY") return replaced;

  const hostNetwork = pod.spec.hostNetwork === true;
  // A runtime that does not say has made it as CRI's default is: a network of the pod's own.
  if ((newest.networkMode ?? "POD") !== (hostNetwork ? "NODE" : "POD")) return { ...replaced, sandboxId: "" };
  if (!hostNetwork && newest.network?.ip === "") return replaced;
  return { changed: false, attempt: newest.attempt, sandboxId: newest.id };
}
