/** Stops containers and pods in order, within their grace periods (node-agent §6.9). */
import { isNotFound } from "../../ports/cri-error.ts";
import type { ContainerToKill, KillReason } from "./init-container-actions.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import type { ObservedContainer, ObservedPod } from "../types/observed-pod.ts";
import { containerNamed, initContainersOf, isSidecar, type ContainerSpec, type NodePod } from "../types/pod.ts";
import type { PodActions } from "./compute-pod-actions.ts";
import { containerLogLink } from "../types/log-paths.ts";
import { HookError, runHook } from "./lifecycle-hooks.ts";
import { messageOf } from "@deltaloop/kube/objects";

export type KillContainerPorts = Pick<NodePorts, "cri" | "prober" | "clock" | "log" | "podEvent">;
export type EndPodPorts = KillContainerPorts & Pick<NodePorts, "operations">;

export interface KillOptions {
  /** The worker's effective grace period. Default: the pod spec's. */
  readonly graceSeconds?: number;
  /** Whether an earlier call already started this container's hook. */
  readonly skipHook?: (containerId: string) => boolean;
}

export type EndOptions = KillOptions & { readonly name: string; /** Whether a failure emits no Event. */ readonly isSilent?: true };

/** An operation that is aborted when the pod no longer exists. */
interface Abortable {
  readonly signal: AbortSignal;
}

/** Name of the operation that stops one container. */
export function stopName(containerId: string): string {
  return `stop:${containerId}`;
}

/** Stops the whole pod as the operation `name`. @throws {Pause} during the grace period, and afterwards any failure */
export async function endPod(
  ports: EndPodPorts,
  pod: NodePod,
  observed: ObservedPod,
  { name, isSilent, ...options }: EndOptions,
): Promise<void> {
  await ports.operations.run({
    uid: pod.metadata.uid,
    name,
    act: (signal) => killPod(ports, pod, observed, { ...options, signal }),
    pause: "the pod's containers are stopping",
    orElse: async (error) => {
      if (!isSilent) ports.podEvent(pod, { type: "Warning", reason: "FailedKillPod", message: `error killing pod: ${String(error)}` });
      throw error;
    },
  });
}

/** Stops all running containers in order, then the sandboxes. Tries all of them. @throws {AggregateError} with all failures */
async function killPod(ports: KillContainerPorts, pod: NodePod, observed: ObservedPod, options: KillOptions & Abortable): Promise<void> {
  const running = observed.containers.filter(({ state }) => state === "CONTAINER_RUNNING" || state === "CONTAINER_UNKNOWN");
  const order = terminationOrder(
    pod,
    running.map(({ name }) => name),
  );
  const stopped: Promise<void>[] = [];
  let before: Promise<unknown> = Promise.resolve();
  for (const group of order) {
    const after = before;
    const ends = running
      .filter(({ name }) => group.includes(name))
      .map((container) => killContainer(ports, pod, container, { ...options, after, podIp: observed.ips[0] ?? "" }));
    stopped.push(...ends);
    before = Promise.allSettled([after, ...ends]);
  }
  const errors = failures(await Promise.allSettled(stopped));
  errors.push(...failures(await Promise.allSettled(observed.sandboxes.map(({ id }) => ports.cri.stopPodSandbox(id).catch(unlessGone)))));
  if (errors.length > 0) throw new AggregateError(errors, errors.map((error) => messageOf(error)).join("; "));
}

/** Stops containers one after another, until the first failure. */
async function killContainers(
  ports: KillContainerPorts,
  pod: NodePod,
  observed: ObservedPod,
  wanted: readonly ContainerToKill[],
  signal: AbortSignal,
): Promise<void> {
  for (const { id, message, reason } of wanted) {
    const container = observed.containers.find((one) => one.id === id);
    if (container !== undefined)
      await killContainer(ports, pod, container, { message, reason, podIp: observed.ips[0] ?? "", after: Promise.resolve(), signal });
  }
}

interface Unwanted {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  readonly actions: PodActions;
}

/** Stops the containers that `actions` lists, and removes surplus instances of init containers. */
export async function endUnwanted(ports: EndPodPorts & Pick<NodePorts, "files">, unwanted: Unwanted): Promise<void> {
  const { pod, observed, actions } = unwanted;
  if (actions.killPod) await endAll(ports, unwanted);
  else await endContainers(ports, unwanted);
  if (!actions.createSandbox) await pruneInitContainers(ports, pod, observed);
}

/** Name of the operation that stops all containers of a pod, although the pod continues. */
export const KILL_ALL = "kill";

/**
 * Stops the pod because its sandbox has changed or because no container is left to run. In a new sandbox, old init containers must not
 * count.
 */
async function endAll(ports: EndPodPorts & Pick<NodePorts, "files">, { pod, observed, actions }: Unwanted): Promise<void> {
  await endPod(ports, pod, observed, { name: KILL_ALL });
  if (!actions.createSandbox) return;
  const names = new Set(initContainersOf(pod).map(({ name }) => name));
  await removeAll(
    ports,
    pod,
    observed.containers.filter(({ name }) => names.has(name)),
  );
}

/** Stops containers one after another. If one fails, or takes longer than a sync waits, the sync ends. */
async function endContainers(ports: EndPodPorts, { pod, observed, actions }: Unwanted): Promise<void> {
  for (const wanted of actions.containersToKill) {
    await ports.operations.run({
      uid: pod.metadata.uid,
      name: stopName(wanted.id),
      act: (signal) => killContainers(ports, pod, observed, [wanted], signal),
      pause: `container ${wanted.name} is stopping`,
    });
  }
}

/** Keeps only the newest dead instance of each init container. */
async function pruneInitContainers(ports: Pick<NodePorts, "cri" | "files">, pod: NodePod, observed: ObservedPod): Promise<void> {
  const dead = observed.containers.filter(({ state }) => state === "CONTAINER_EXITED" || state === "CONTAINER_UNKNOWN");
  for (const { name } of initContainersOf(pod)) await removeAll(ports, pod, dead.filter((container) => container.name === name).slice(1));
}

/** Removes logs first. If that fails, the container still exists, so the next sync retries. */
async function removeAll(
  { cri, files }: Pick<NodePorts, "cri" | "files">,
  pod: NodePod,
  containers: readonly ObservedContainer[],
): Promise<void> {
  for (const { id, name, logPath } of containers) {
    await files.removeContainerLogs(logPath, containerLogLink(pod.metadata, name, id));
    await cri.removeContainer(id).catch(unlessGone);
  }
}

/** Stops a container whose postStart hook failed. */
export async function killStarted(
  ports: KillContainerPorts,
  pod: NodePod,
  { containers }: ObservedPod,
  { containerId, podIp, signal }: { readonly containerId: string; readonly podIp: string; readonly signal: AbortSignal },
): Promise<void> {
  const container = containers.find(({ id }) => id === containerId);
  if (container === undefined) return;
  const reason = "FailedPostStartHook";
  await killContainer(ports, pod, container, { message: reason, reason, podIp, after: Promise.resolve(), signal });
}

async function killContainer(
  ports: KillContainerPorts,
  pod: NodePod,
  container: ObservedContainer,
  options: KillOptions &
    Abortable & {
      readonly message?: string;
      readonly reason?: KillReason | undefined;
      readonly podIp: string;
      /** Resolves when this container may be stopped. */
      readonly after: Promise<unknown>;
    },
): Promise<void> {
  const { cri, clock } = ports;
  const spec = containerNamed(pod, container.name);
  const graceSeconds = killGraceSeconds(pod, spec, { reason: options.reason, override: options.graceSeconds });
  const deadlineMs = clock.now() + graceSeconds * 1000;
  const leftSeconds = (): number => Math.max(0, Math.ceil((deadlineMs - clock.now()) / 1000));
  const skipHook = options.skipHook?.(container.id) === true;
  if (!skipHook)
    ports.podEvent(pod, {
      type: "Normal",
      reason: "Killing",
      message: options.message ?? `Stopping container ${container.name}`,
      container: container.name,
    });
  const preStop = spec?.lifecycle?.preStop;
  if (preStop && !skipHook && graceSeconds > 0) {
    const { podIp, signal } = options;
    const call = { handler: preStop, container: spec, containerId: container.id, podIp, timeoutMs: graceSeconds * 1000, signal };
    await runHook(ports, call).catch((error: unknown) => {
      if (!(error instanceof HookError)) throw error;
      ports.podEvent(pod, { type: "Warning", reason: "FailedPreStopHook", message: "PreStopHook failed", container: container.name });
      ports.log.warn("preStop hook failed", {
        pod: `${pod.metadata.namespace}/${pod.metadata.name}`,
        container: container.name,
        error: error.message,
      });
    });
  }
  // A sidecar waits for the containers that stop before it, but no longer than its grace period.
  const over = new AbortController();
  await Promise.race([options.after, clock.after(leftSeconds() * 1000, over.signal).catch(() => undefined)]);
  over.abort("over");
  await cri.stopContainer(container.id, Math.max(GRACE_SECONDS_MIN, leftSeconds())).catch(unlessGone);
}

function failures(settled: readonly PromiseSettledResult<unknown>[]): unknown[] {
  return settled.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
}

export function unlessGone(error: unknown): void {
  if (!isNotFound(error)) throw error;
}

/** Source: pkg/kubelet/kuberuntime, minimumGracePeriodInSeconds. */
const GRACE_SECONDS_MIN = 2;

/**
 * Returns container names in groups. The containers of a group stop in parallel, after the previous group. Regular and ephemeral
 * containers stop first, and then sidecars in reverse order. preStop hooks do not wait. Source:
 * pkg/kubelet/kuberuntime/kuberuntime_termination_order.go.
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
 * Returns the grace period in seconds; the caller applies the minimum of 2 s. `override` is the worker's effective grace period. Source:
 * pkg/kubelet/kuberuntime/kuberuntime_container.go setTerminationGracePeriod, killContainer.
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
