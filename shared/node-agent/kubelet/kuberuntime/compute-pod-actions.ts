/**
 * Computes the runtime actions for a pod from its spec and observed state (node-agent §6.3, §6.5). `runActions` executes them in order
 * (§6.6). Does not depend on the time.
 */
import { containerHash, ephemeralContainersOf, initContainersOf, type ContainerSpec, type NodePod } from "../types/pod.ts";
import { isStoppedForRestart, newestOf, restartPolicyOf, shouldContainerBeRestarted } from "../types/observed-pod.ts";
import type { ObservedContainer, ObservedPod, ProbeAnswers } from "../types/observed-pod.ts";
import { initContainerActions, type ContainerToKill } from "./init-container-actions.ts";
import { inUpdateOrder, resizeStep, type ContainerUpdate } from "./resize-actions.ts";

/** Lists contain indexes into the spec, in ascending order. */
export interface PodActions {
  /** Whether to kill all containers and sandboxes, which makes `containersToKill` redundant. */
  readonly killPod: boolean;
  /** Whether to create a new sandbox afterwards; only with `killPod`. */
  readonly createSandbox: boolean;
  /** The sandbox that is kept or replaced; empty if there is none. */
  readonly sandboxId: string;
  /** Attempt number of the kept or new sandbox. */
  readonly attempt: number;
  readonly initContainersToStart: readonly number[];
  readonly containersToStart: readonly number[];
  readonly ephemeralContainersToStart: readonly number[];
  readonly containersToKill: readonly ContainerToKill[];
  /** Updates in the order of the calls. */
  readonly containersToUpdate: readonly ContainerUpdate[];
}

/**
 * The actions that lead from the observed to the desired state:
 *
 *     nothing yet                            → new sandbox 0, start the first init container, or all containers
 *     sandbox died, policy Always            → kill all, new sandbox, start over
 *     foo2 exited 1, policy OnFailure        → start foo2
 *     foo2's image changed                   → kill and start foo2, whatever the policy
 *     foo2 was granted more CPU              → update foo2 in place
 *     all exited, policy Never               → kill the pod, including sidecars
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions.
 */
export function computePodActions(pod: NodePod, observed: ObservedPod, probes: ProbeAnswers): PodActions {
  const { changed, attempt, sandboxId } = podSandboxChanged(pod, observed);
  const sandbox = { attempt, sandboxId };
  return changed ? actionsOnNewSandbox(pod, observed, sandbox) : actionsOnKeptSandbox(pod, observed, sandbox, probes);
}

type Sandbox = Pick<PodActions, "attempt" | "sandboxId">;

const NOTHING = {
  killPod: false,
  createSandbox: false,
  initContainersToStart: [],
  containersToStart: [],
  ephemeralContainersToStart: [],
  containersToKill: [],
  containersToUpdate: [],
} as const;

/** Cases A1 to A4 of §6.3: either the pod starts over, or it is done and needs no sandbox. */
function actionsOnNewSandbox(pod: NodePod, observed: ObservedPod, sandbox: Sandbox): PodActions {
  const killOnly = { ...NOTHING, ...sandbox, killPod: true };
  // Under Never, containers run only once. The sandbox creation is retried only while no container exists.
  if (pod.spec.restartPolicy === "Never" && sandbox.attempt !== 0 && observed.containers.length > 0) return killOnly;

  const indexes = [...pod.spec.containers.entries()].filter(([, container]) => !isDone(pod, container, observed)).map(([index]) => index);
  if (indexes.length === 0) return killOnly; // all regular containers are done, so the pod was initialized

  const create = { ...killOnly, createSandbox: true };
  return initContainersOf(pod).length > 0 ? { ...create, initContainersToStart: [0] } : { ...create, containersToStart: indexes };
}

/**
 * Under OnFailure, exit code 0 is final unless the agent stopped the container for a restart. Source: kuberuntime_manager.go
 * containerSucceeded.
 */
function isDone(pod: NodePod, container: ContainerSpec, observed: ObservedPod): boolean {
  const newest = newestOf(observed, container.name);
  if (restartPolicyOf(pod, container) !== "OnFailure" || isStoppedForRestart(observed, container.name)) return false;
  return newest?.state === "CONTAINER_EXITED" && newest.exitCode === 0;
}

/** Steps B1 to B4 of §6.3. */
function actionsOnKeptSandbox(pod: NodePod, observed: ObservedPod, sandbox: Sandbox, probes: ProbeAnswers): PodActions {
  // Ephemeral containers start only once, and may start before the pod is initialized.
  const ephemeralContainersToStart = [...ephemeralContainersOf(pod).entries()]
    .filter(([, { name }]) => newestOf(observed, name) === undefined)
    .map(([index]) => index);

  const init = initContainerActions(pod, observed, sandbox.sandboxId, probes);
  const afterInit: PodActions = {
    ...NOTHING,
    ...sandbox,
    killPod: init.killPod,
    ephemeralContainersToStart,
    initContainersToStart: init.start,
    containersToKill: init.kill,
    containersToUpdate: inUpdateOrder(init.update),
  };
  if (init.killPod || !init.initialised) return afterInit;

  const verdicts = pod.spec.containers.map((container) => verdictOf(pod, container, observed, probes));
  const containersToStart = [...verdicts.entries()].filter(([, { start }]) => start).map(([index]) => index);
  const containersToKill = [...init.kill, ...verdicts.flatMap(({ kill }) => kill ?? [])];
  const containersToUpdate = inUpdateOrder([...init.update, ...verdicts.flatMap(({ update = [] }) => update)]);
  const regular = { ...afterInit, containersToStart, containersToKill, containersToUpdate };
  if (containersToStart.length > 0 || verdicts.some(({ keep }) => keep)) return regular;
  return { ...regular, killPod: true, initContainersToStart: [], containersToUpdate: [] }; // sidecars must not keep a completed pod alive
}

interface Verdict {
  readonly start: boolean;
  /** Whether the container keeps running unchanged. */
  readonly keep: boolean;
  readonly kill?: ContainerToKill;
  readonly update?: readonly ContainerUpdate[];
}

function verdictOf(pod: NodePod, container: ContainerSpec, observed: ObservedPod, probes: ProbeAnswers): Verdict {
  const newest = newestOf(observed, container.name);
  if (newest?.state === "CONTAINER_RUNNING") return runningVerdict(pod, container, newest, probes);
  if (!shouldContainerBeRestarted(pod, container, observed)) return { start: false, keep: false };
  if (newest?.state !== "CONTAINER_UNKNOWN") return { start: true, keep: false };
  // The container may still be running, and two instances of one container must never run at the same time.
  const message = 'Container is in "unknown" state, try killing it before restart';
  return { start: true, keep: false, kill: { id: newest.id, name: container.name, message, reason: "Unknown" } };
}

function runningVerdict(pod: NodePod, container: ContainerSpec, running: ObservedContainer, probes: ProbeAnswers): Verdict {
  const { name } = container;
  const { id, hash } = running;
  if (hash !== containerHash(container))
    return { start: true, keep: false, kill: { id, name, message: `Container ${name} definition changed, will be restarted` } };

  const failed = probes.liveness(id) === "Failure" ? "liveness" : probes.startup(id) === "Failure" ? "startup" : undefined;
  if (failed === undefined) {
    const step = resizeStep(container, running);
    return "kill" in step ? { start: true, keep: false, kill: step.kill } : { start: false, keep: true, update: step.updates };
  }
  const start = restartPolicyOf(pod, container) !== "Never";
  const message = `Container ${name} failed ${failed} probe${start ? ", will be restarted" : ""}`;
  return { start, keep: false, kill: { id, name, message, reason: failed === "liveness" ? "LivenessProbe" : "StartupProbe" } };
}

export interface SandboxVerdict {
  /** Whether a new sandbox is needed. If so, the old sandboxes must be stopped first. */
  readonly changed: boolean;
  /** Attempt number of the new or kept sandbox. */
  readonly attempt: number;
  /** The kept or replaced sandbox; empty if there is none, or if the network mode has changed. */
  readonly sandboxId: string;
  /** Why a new sandbox is needed, as the condition PodReadyToStartContainers reports it; empty if none is needed. */
  readonly reason: string;
}

/**
 * Checks that the newest sandbox is usable, and that no other sandbox is ready:
 *
 *     none                               → create attempt 0
 *     attempt 1 NOTREADY                 → create attempt 2
 *     attempt 1 and attempt 0 both READY → create attempt 2
 *     READY without an IP                → create the next, unless the pod uses host networking
 *
 * Source: pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged.
 */
export function podSandboxChanged(pod: NodePod, observed: ObservedPod): SandboxVerdict {
  const [newest] = observed.sandboxes;
  if (newest === undefined) return { changed: true, attempt: 0, sandboxId: "", reason: "no pod sandbox exists" };
  const replaced = { changed: true, attempt: newest.attempt + 1, sandboxId: newest.id };

  const ready = observed.sandboxes.filter(({ state }) => state === "SANDBOX_READY").length;
  if (ready > 1) return { ...replaced, reason: "multiple pod sandboxes are ready and need to be reconciled" };
  if (newest.state !== "SANDBOX_READY") return { ...replaced, reason: "pod sandbox is not ready" };

  const hostNetwork = pod.spec.hostNetwork === true;
  // In CRI, the default network mode is POD.
  if ((newest.networkMode ?? "POD") !== (hostNetwork ? "NODE" : "POD"))
    return { ...replaced, sandboxId: "", reason: "network namespace mode changed and sandbox needs to be recreated" };
  if (!hostNetwork && newest.network?.ip === "") return { ...replaced, reason: "pod sandbox has no IP address" };
  return { changed: false, attempt: newest.attempt, sandboxId: newest.id, reason: "" };
}
