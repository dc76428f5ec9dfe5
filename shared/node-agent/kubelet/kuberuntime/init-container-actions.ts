/**
 * Computes the actions for init containers in a sandbox that is kept (node-agent §6.4). Plain init containers run to completion one after
 * another. A sidecar only has to start before the next container starts.
 */
import { containerHash, initContainersOf, isSidecar, type ContainerSpec, type NodePod } from "../types/pod.ts";
import {
  newestOf,
  restartPolicyOf,
  restartsAfter,
  type ObservedContainer,
  type ObservedPod,
  type ProbeAnswers,
} from "../types/observed-pod.ts";
import { resizeStep, type ContainerUpdate } from "./resize-actions.ts";

export interface ContainerToKill {
  readonly id: string;
  readonly name: string;
  /** Message of the Event. */
  readonly message: string;
  /** Selects the grace period. Absent if the container is killed because its spec changed. */
  readonly reason?: KillReason;
}

export type KillReason = "Unknown" | "StartupProbe" | "LivenessProbe" | "FailedPostStartHook";

export interface InitContainerActions {
  /** Whether regular containers may start. */
  readonly initialised: boolean;
  /** Whether an init container failed permanently. */
  readonly killPod: boolean;
  /** Indexes into the spec, in ascending order. */
  readonly start: readonly number[];
  readonly kill: readonly ContainerToKill[];
  readonly update: readonly ContainerUpdate[];
}

/** The action for one init container. */
interface Step {
  readonly initialised?: true;
  readonly failed?: true;
  readonly start?: readonly number[];
  readonly kill?: ContainerToKill;
  readonly update?: readonly ContainerUpdate[];
}

/**
 * Iterates from the last init container to the first, because the last one with an instance shows the progress.
 *
 *     init1 EXITED 0, init2 EXITED 0, init3 none   → start init3
 *     init1 EXITED 0, init2 EXITED 1               → start init2 again; under Never the pod has failed
 *     init1 none (collected), init2 RUNNING        → wait: earlier ones are done
 *     sidecar1 EXITED, sidecar2 RUNNING and last   → start sidecar1, and regular containers
 *     all none (collected), regular1 EXITED        → nothing: initialized in this sandbox
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_container.go computeInitContainerActions.
 */
export function initContainerActions(pod: NodePod, observed: ObservedPod, sandboxId: string, probes: ProbeAnswers): InitContainerActions {
  const containers = initContainersOf(pod);
  // Containers of earlier sandboxes do not count. After a reboot, for example, initialization starts over.
  const active = { ...observed, containers: observed.containers.filter((container) => container.sandboxId === sandboxId) };
  const passedBefore = pod.spec.containers.some(({ name }) => newestOf(active, name) !== undefined);
  let passed = passedBefore;
  let initialised = passedBefore || containers.length === 0;
  const start: number[] = [];
  const kill: ContainerToKill[] = [];
  const update: ContainerUpdate[] = [];
  for (const [index, container] of [...containers.entries()].toReversed()) {
    const newest = newestOf(active, container.name);
    const sidecar = isSidecar(container);
    if (newest === undefined) {
      if (passed && sidecar) start.push(index);
      continue;
    }
    if (passed && !sidecar) continue;
    const at = { pod, container, newest, index, isLast: index === containers.length - 1, passed };
    const step = sidecar ? sidecarStep(at, probes) : plainStep(at);
    if (step.failed === true) return { initialised: false, killPod: true, start: [], kill: [], update: [] }; // no later container has started
    if (step.initialised === true) initialised = true;
    start.push(...(step.start ?? []));
    if (step.kill !== undefined) kill.push(step.kill);
    update.unshift(...(step.update ?? [])); // iterates in reverse order
    passed = true;
  }
  if (!passed && containers.length > 0) start.push(0);
  return { initialised, killPod: false, start: start.toSorted((a, b) => a - b), kill, update };
}

interface InitContainerState {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  readonly newest: ObservedContainer;
  readonly index: number;
  readonly isLast: boolean;
  /** Whether a later container exists, which means that this container is done. */
  readonly passed: boolean;
}

function plainStep({ pod, container, newest, index, isLast }: InitContainerState): Step {
  switch (newest.state) {
    case "CONTAINER_CREATED": // the start of the container failed
      return { start: [index] };
    case "CONTAINER_RUNNING": {
      // An init container is never restarted for a resize, because initialization would start over.
      const step = resizeStep({ ...container, resizePolicy: [] }, newest);
      return "updates" in step ? { update: step.updates } : {};
    }
    case "CONTAINER_EXITED":
      if (newest.endedForRestart === true) return { start: [index] };
      if (newest.exitCode !== 0) return restartsAfter(pod, container, newest.exitCode) ? { start: [index] } : { failed: true };
      return isLast ? { initialised: true } : { start: [index + 1] };
    case "CONTAINER_UNKNOWN":
      // Restart rules need an exit code, which is unknown in this state.
      return restartPolicyOf(pod, container) === "Never" ? { failed: true } : killUnknown(container, newest, index);
  }
}

function sidecarStep({ container, newest, index, isLast, passed }: InitContainerState, probes: ProbeAnswers): Step {
  if (newest.state === "CONTAINER_UNKNOWN") return killUnknown(container, newest, index);
  if (newest.state !== "CONTAINER_RUNNING") return { start: [index] };

  const startUp = container.startupProbe === undefined ? "Success" : probes.startup(newest.id);
  const why = `Init container ${container.name}`;
  if (startUp === "Failure")
    return { start: [index], kill: { ...identity(container, newest), message: `${why} failed startup probe`, reason: "StartupProbe" } };
  if (startUp !== "Success") return {};

  const reached: Step = isLast ? { initialised: true } : passed ? {} : { start: [index + 1] };
  const restart = { ...reached, start: [index, ...(reached.start ?? [])] };
  if (newest.hash !== containerHash(container))
    return { ...restart, kill: { ...identity(container, newest), message: `${why} definition changed` } };
  if (probes.liveness(newest.id) === "Failure")
    return { ...restart, kill: { ...identity(container, newest), message: `${why} failed liveness probe`, reason: "LivenessProbe" } };
  const resize = resizeStep(container, newest);
  return "kill" in resize ? { ...restart, kill: resize.kill } : { ...reached, update: resize.updates };
}

/** The container may still be running, and two instances of one container must never run at the same time. */
function killUnknown(container: ContainerSpec, newest: ObservedContainer, index: number): Step {
  const message = 'Init container is in "unknown" state, try killing it before restart';
  return { start: [index], kill: { ...identity(container, newest), message, reason: "Unknown" } };
}

function identity({ name }: ContainerSpec, { id }: ObservedContainer): { readonly id: string; readonly name: string } {
  return { id, name };
}
