/**
 * What the runtime must do so that a pod runs as its spec says (node-agent §6.3, §6.5): spec and observed state in, plain
 * lists out. Sandboxes, starts and kills follow in a fixed order (§6.6); nothing here depends on the time.
 */
import { containerHash, ephemeralContainersOf, initContainersOf } from "../types/pod.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";
import { isToStartAgain, newestOf, restartPolicyOf, shouldContainerBeRestarted } from "../types/observed-pod.ts";
import type { ObservedContainer, ObservedPod, ProbeAnswers } from "../types/observed-pod.ts";
import { initContainerActions } from "./init-container-actions.ts";
import type { ContainerToKill } from "./init-container-actions.ts";
import { inUpdateOrder, resizeStep } from "./resize-actions.ts";
import type { ContainerUpdate } from "./resize-actions.ts";

/** Lists are positions in the spec, ascending. */
export interface PodActions {
  /** Everything of the pod is killed, its sandboxes too; `containersToKill` adds nothing then. */
  readonly killPod: boolean;
  /** With `killPod`: afterwards a new sandbox is made. */
  readonly createSandbox: boolean;
  /** The sandbox that is kept or replaced; empty: none. */
  readonly sandboxId: string;
  /** Of the sandbox that is kept, or of the one to make. */
  readonly attempt: number;
  readonly initContainersToStart: readonly number[];
  readonly containersToStart: readonly number[];
  readonly ephemeralContainersToStart: readonly number[];
  readonly containersToKill: readonly ContainerToKill[];
  /** In the order of the calls. */
  readonly containersToUpdate: readonly ContainerUpdate[];
}

/**
 * The actions that lead from what is observed to what the spec wants:
 *
 *     nothing yet                            → new sandbox 0, start the first init container, or all containers
 *     sandbox died, policy Always            → kill all, new sandbox, begin anew
 *     foo2 exited 1, policy OnFailure        → start foo2
 *     foo2's image changed                   → kill foo2, start it, whatever the policy
 *     foo2 was granted more CPU              → update foo2 where it runs
 *     all exited, policy Never               → kill the pod, sidecars and all
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

/** Cases A1 to A4 of §6.3: all must begin anew, or the pod is done and its sandbox is not missed. */
function actionsOnNewSandbox(pod: NodePod, observed: ObservedPod, sandbox: Sandbox): PodActions {
  const killOnly = { ...NOTHING, ...sandbox, killPod: true };
  // Never: what ran once does not run again. Without any container nothing has run: making the sandbox is tried again.
  if (pod.spec.restartPolicy === "Never" && sandbox.attempt !== 0 && observed.containers.length > 0) return killOnly;

  const indexes = [...pod.spec.containers.entries()].filter(([, container]) => !isDone(pod, container, observed)).map(([index]) => index);
  if (indexes.length === 0) return killOnly; // all done, and so initialised

  const create = { ...killOnly, createSandbox: true };
  return initContainersOf(pod).length > 0 ? { ...create, initContainersToStart: [0] } : { ...create, containersToStart: indexes };
}

/**
 * Under OnFailure what exited with 0 stays so, unless it was ended for its restart.
 *
 * Source: kuberuntime_manager.go containerSucceeded.
 */
function isDone(pod: NodePod, container: ContainerSpec, observed: ObservedPod): boolean {
  const newest = newestOf(observed, container.name);
  if (restartPolicyOf(pod, container) !== "OnFailure" || isToStartAgain(observed, container.name)) return false;
  return newest?.state === "CONTAINER_EXITED" && newest.exitCode === 0;
}

/** Steps B1 to B4 of §6.3. */
function actionsOnKeptSandbox(pod: NodePod, observed: ObservedPod, sandbox: Sandbox, probes: ProbeAnswers): PodActions {
  // Started once, also before the pod is initialised, and never again.
  const ephemeralContainersToStart = [...ephemeralContainersOf(pod).entries()]
    .filter(([, { name }]) => newestOf(observed, name) === undefined)
    .map(([index]) => index);

  const init = initContainerActions(pod, observed, probes);
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
  return { ...regular, killPod: true, initContainersToStart: [], containersToUpdate: [] }; // sidecars must not keep a pod alive whose work is done
}

interface Verdict {
  readonly start: boolean;
  /** It runs and goes on running. */
  readonly keep: boolean;
  readonly kill?: ContainerToKill;
  readonly update?: readonly ContainerUpdate[];
}

function verdictOf(pod: NodePod, container: ContainerSpec, observed: ObservedPod, probes: ProbeAnswers): Verdict {
  const newest = newestOf(observed, container.name);
  if (newest?.state === "CONTAINER_RUNNING") return runningVerdict(pod, container, newest, probes);
  if (!shouldContainerBeRestarted(pod, container, observed)) return { start: false, keep: false };
  if (newest?.state !== "CONTAINER_UNKNOWN") return { start: true, keep: false };
  // Whether it runs cannot be told: two instances of one container must never run.
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
