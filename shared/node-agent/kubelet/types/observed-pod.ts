/** The state of a pod as observed in the runtime (node-agent §6.1). Source: pkg/kubelet/container/runtime.go, PodStatus. */
import { ownAt } from "@deltaloop/base";
import type {
  Container,
  ContainerMetadata,
  ContainerState,
  ContainerStatus,
  NamespaceMode,
  PodSandboxState,
  PodSandboxStatus,
  StringMap,
} from "../../ports/cri-types.ts";
import { ANNOTATIONS, LABELS } from "./labels.ts";
import type { ContainerSpec, NodePod } from "./pod.ts";
import type { ContainerResources, PodAllocation, Restarts } from "../../ports/node-store.ts";

export interface ObservedPod {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  /** Addresses of the newest sandbox, if it is ready. */
  readonly ips: readonly string[];
  /** Sandboxes, newest first. */
  readonly sandboxes: readonly ObservedSandbox[];
  /** Containers, newest first. Containers with the same name are instances of one container. */
  readonly containers: readonly ObservedContainer[];
}

export interface ObservedSandbox {
  readonly id: string;
  readonly attempt: number;
  readonly state: PodSandboxState;
  readonly createdAtMs: number;
  /** Absent if the runtime reports no network for the sandbox. */
  readonly network?: { readonly ip: string; readonly additionalIps: readonly string[] };
  readonly networkMode?: NamespaceMode;
}

export interface ObservedContainer {
  readonly id: string;
  readonly sandboxId: string;
  readonly name: string;
  readonly state: ContainerState;
  readonly image: string;
  readonly imageRef: string;
  /** The containerHash when the container was created. */
  readonly hash: string;
  readonly restartCount: number;
  readonly createdAtMs: number;
  /** Absent while the container is only created. */
  readonly startedAtMs?: number;
  /** This field and the next three are valid only in state EXITED. */
  readonly finishedAtMs?: number;
  readonly exitCode: number;
  readonly reason: string;
  /** The runtime's message, followed by the termination message. */
  readonly message: string;
  readonly logPath: string;
  /** Current limits; absent if the runtime does not report them. */
  readonly resources?: NonNullable<ContainerStatus["resources"]>;
  /** The resources that the agent set last; absent if not recorded (NodeStore `allocations`). */
  readonly actuated?: ContainerResources;
  /** Whether the agent has stopped, or is stopping, the container for a restart (NodeStore `restarts`). */
  readonly endedForRestart?: true;
}

/** The latest probe result; `undefined` without a probe or without a result. */
export type ProbeAnswer = "Success" | "Failure" | "Unknown" | undefined;

/** Returns the newest instance of a container. */
export function newestOf(observed: ObservedPod, container: string): ObservedContainer | undefined {
  return observed.containers.find(({ name }) => name === container);
}

/** Whether the agent stopped the newest instance for a restart, so that its exit code does not count. */
export function isStoppedForRestart(observed: ObservedPod, container: string): boolean {
  const newest = newestOf(observed, container);
  return newest?.state === "CONTAINER_EXITED" && newest.endedForRestart === true;
}

/** Combines a list entry with its status. `terminationMessage` is the text from the termination log or the container log. */
export function observedContainer(
  listed: Container,
  status: ContainerStatus,
  {
    terminationMessage = "",
    restarts = {},
    allocation,
  }: { readonly terminationMessage?: string; readonly restarts?: Restarts; readonly allocation?: PodAllocation | undefined } = {},
): ObservedContainer {
  const name = status.labels[LABELS.containerName] ?? status.metadata.name;
  const actuated = ownAt(allocation?.containers, name)?.actuated;
  return {
    id: status.id,
    sandboxId: listed.podSandboxId,
    name,
    state: status.state,
    image: status.image,
    imageRef: status.imageRef,
    hash: status.annotations[ANNOTATIONS.hash] ?? "",
    restartCount: restartCountOf(status.annotations, status.metadata),
    createdAtMs: status.createdAtMs,
    ...(status.state !== "CONTAINER_CREATED" && status.startedAtMs !== undefined && { startedAtMs: status.startedAtMs }),
    ...(status.state === "CONTAINER_EXITED" && status.finishedAtMs !== undefined && { finishedAtMs: status.finishedAtMs }),
    exitCode: status.exitCode,
    reason: status.reason,
    message: [status.message, terminationMessage].filter((text) => text !== "").join(": "),
    logPath: status.logPath,
    ...(status.resources !== undefined && { resources: status.resources }),
    ...(actuated !== undefined && { actuated }),
    ...(ownAt(restarts, name) === status.id && { endedForRestart: true }),
  };
}

/** Returns the restart count from the annotation, or else the runtime's attempt. */
export function restartCountOf(annotations: StringMap, { attempt }: Pick<ContainerMetadata, "attempt">): number {
  const restartCount = Number.parseInt(annotations[ANNOTATIONS.restartCount] ?? "", 10);
  return Number.isNaN(restartCount) ? attempt : restartCount;
}

export function observedSandbox(status: PodSandboxStatus): ObservedSandbox {
  const networkMode = status.namespaceOptions?.network;
  return {
    id: status.id,
    attempt: status.metadata.attempt,
    state: status.state,
    createdAtMs: status.createdAtMs,
    ...(status.network !== undefined && { network: status.network }),
    ...(networkMode !== undefined && { networkMode }),
  };
}

/** Sorts sandboxes and containers, newest first. The pod's addresses are those of the newest sandbox, if it is ready. */
export function observedPod(
  pod: { readonly uid: string; readonly name: string; readonly namespace: string },
  sandboxes: readonly ObservedSandbox[],
  containers: readonly ObservedContainer[],
): ObservedPod {
  const newestFirst = <T extends { readonly createdAtMs: number }>(items: readonly T[]): readonly T[] =>
    items.toSorted((a, b) => b.createdAtMs - a.createdAtMs);
  const sorted = newestFirst(sandboxes);
  return { ...pod, ips: addressesOf(sorted[0]), sandboxes: sorted, containers: newestFirst(containers) };
}

const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:.]*:[0-9a-f:.]*)$/iu;

/** Returns no addresses if any of them is invalid (§6.1). */
function addressesOf(sandbox: ObservedSandbox | undefined): readonly string[] {
  if (sandbox?.state !== "SANDBOX_READY" || sandbox.network === undefined) return [];
  const all = [sandbox.network.ip, ...sandbox.network.additionalIps].filter((ip) => ip !== "");
  return all.every((ip) => ADDRESS.test(ip)) ? all : [];
}

/** Returns probe results by container id, because a result applies only to the instance that was probed. */
export interface ProbeAnswers {
  liveness(containerId: string): ProbeAnswer;
  startup(containerId: string): ProbeAnswer;
}

/** Returns the container's own restart policy, or else the pod's. An init container whose policy is `Always` is a sidecar. */
export function restartPolicyOf(pod: NodePod, container: ContainerSpec): string {
  return container.restartPolicy ?? pod.spec.restartPolicy ?? "Always";
}

/**
 * Whether a container is restarted after it has exited without being stopped:
 *
 *     Never, rule: Restart if exit code In [42]     42 → yes     1 → no
 *
 * Rules require that the container has its own policy. Other actions do not occur here, because pods with them stay Pending
 * (unsupported-features.ts).
 * Source: pkg/api/v1/pod/util.go ContainerShouldRestart, FindMatchingContainerRestartRule.
 */
export function restartsAfter(pod: NodePod, container: ContainerSpec, exitCode: number): boolean {
  const rules = container.restartPolicy === undefined ? [] : (container.restartPolicyRules ?? []);
  const matches = ({ exitCodes }: (typeof rules)[number]): boolean =>
    exitCodes !== undefined && (exitCodes.values ?? []).includes(exitCode) === (exitCodes.operator === "In");
  if (rules.some(matches)) return true;
  const policy = restartPolicyOf(pod, container);
  return policy !== "Never" && !(policy === "OnFailure" && exitCode === 0);
}

/**
 * Decides based on the newest instance:
 *
 *     pod is being deleted → no          none, CREATED, UNKNOWN → yes          RUNNING → no
 *     EXITED → as `restartsAfter`
 *     EXITED, stopped for a restart → yes
 *
 * Source: pkg/kubelet/container/helpers.go ShouldContainerBeRestarted. Differs from upstream: upstream stops and restarts in one step.
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
    case "CONTAINER_EXITED":
      return newest.endedForRestart === true || restartsAfter(pod, container, newest.exitCode);
  }
}
