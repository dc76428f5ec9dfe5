/**
 * What init containers need while their sandbox is kept (node-agent §6.4). Plain ones run one after the other, each to its
 * end; sidecars go on running, and the next one starts as soon as a sidecar has started up.
 */
import { containerHash, initContainersOf, isSidecar } from "../types/pod.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";
import { newestOf, restartPolicyOf } from "../types/observed-pod.ts";
import type { ObservedContainer, ObservedPod, ProbeAnswers } from "../types/observed-pod.ts";
import { resizeStep } from "./resize-actions.ts";
import type { ContainerUpdate } from "./resize-actions.ts";

export interface ContainerToKill {
  readonly id: string;
  readonly name: string;
  /** Of the event. */
  readonly message: string;
  /** Chooses the grace period. Absent: the spec changed. */
  readonly reason?: KillReason;
}

export type KillReason = "Unknown" | "StartupProbe" | "LivenessProbe" | "FailedPostStartHook";

export interface InitContainerActions {
  /** Regular containers may start. */
  readonly initialised: boolean;
  /** One failed for good. */
  readonly killPod: boolean;
  /** Positions in the spec, ascending. */
  readonly start: readonly number[];
  readonly kill: readonly ContainerToKill[];
  readonly update: readonly ContainerUpdate[];
}

/** What the newest instance of one init container asks for. */
interface Step {
  readonly initialised?: true;
  readonly failed?: true;
  readonly start?: readonly number[];
  readonly kill?: ContainerToKill;
  readonly update?: readonly ContainerUpdate[];
}

/**
 * Walks from the last one to the first, because the furthest that was ever begun tells how far the pod has come:
 *
 *     init1 EXITED 0, init2 EXITED 0, init3 none   → start init3
 *     init1 EXITED 0, init2 EXITED 1               → start init2 again; under Never the pod has failed
 *     init1 none (collected), init2 RUNNING        → wait: what is before it was passed
 *     sidecar1 EXITED, sidecar2 RUNNING and last   → start sidecar1, and regular containers beside it
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_container.go computeInitContainerActions.
 */
export function initContainerActions(pod: NodePod, observed: ObservedPod, probes: ProbeAnswers): InitContainerActions {
  const containers = initContainersOf(pod);
  // An exited one does not count: after a reboot all are exited, and initialising begins anew.
  const passedBefore = pod.spec.containers.some(({ name }) => isCreatedOrRunning(newestOf(observed, name)));
  let passed = passedBefore;
  let initialised = passedBefore || containers.length === 0;
  const start: number[] = [];
  const kill: ContainerToKill[] = [];
  const update: ContainerUpdate[] = [];
  for (const [index, container] of [...containers.entries()].toReversed()) {
    const newest = newestOf(observed, container.name);
    const sidecar = isSidecar(container);
    if (newest === undefined) {
      if (passed && sidecar) start.push(index);
      continue;
    }
    if (passed && !sidecar) continue;
    const at = { pod, container, newest, index, isLast: index === containers.length - 1, passed };
    const step = sidecar ? sidecarStep(at, probes) : plainStep(at);
    if (step.failed === true) return { initialised: false, killPod: true, start: [], kill: [], update: [] }; // nothing after it was ever begun
    if (step.initialised === true) initialised = true;
    start.push(...(step.start ?? []));
    if (step.kill !== undefined) kill.push(step.kill);
    update.unshift(...(step.update ?? [])); // walked backwards
    passed = true;
  }
  if (!passed && containers.length > 0) start.push(0);
  return { initialised, killPod: false, start: start.toSorted((a, b) => a - b), kill, update };
}

interface Place {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  readonly newest: ObservedContainer;
  readonly index: number;
  readonly isLast: boolean;
  /** Something after it was begun: it has done its part before. */
  readonly passed: boolean;
}

function plainStep({ pod, container, newest, index, isLast }: Place): Step {
  const mayRestart = restartPolicyOf(pod, container) !== "Never";
  switch (newest.state) {
    case "CONTAINER_CREATED": // its start failed
      return { start: [index] };
    case "CONTAINER_RUNNING": {
      // It is never restarted for this: it would begin anew.
      const step = resizeStep({ ...container, resizePolicy: [] }, newest);
      return "updates" in step ? { update: step.updates } : {};
    }
    case "CONTAINER_EXITED":
      if (newest.endedForRestart === true) return { start: [index] };
      if (newest.exitCode !== 0) return mayRestart ? { start: [index] } : { failed: true };
      return isLast ? { initialised: true } : { start: [index + 1] };
    case "CONTAINER_UNKNOWN":
      return mayRestart ? killUnknown(container, newest, index) : { failed: true };
  }
}

function sidecarStep({ container, newest, index, isLast, passed }: Place, probes: ProbeAnswers): Step {
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

/** Whether it runs cannot be told: two instances of one container must never run. */
function killUnknown(container: ContainerSpec, newest: ObservedContainer, index: number): Step {
  const message = 'Init container is in "unknown" state, try killing it before restart';
  return { start: [index], kill: { ...identity(container, newest), message, reason: "Unknown" } };
}

function identity({ name }: ContainerSpec, { id }: ObservedContainer): { readonly id: string; readonly name: string } {
  return { id, name };
}

function isCreatedOrRunning(container: ObservedContainer | undefined): boolean {
  return container?.state === "CONTAINER_CREATED" || container?.state === "CONTAINER_RUNNING";
}
