/** What the runtime says of one pod (node-agent §6.1): the kubelet's observed state. Source: pkg/kubelet/container/runtime.go, PodStatus. */
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
  /** Of the newest sandbox, if that is READY. */
  readonly ips: readonly string[];
  /** Newest first. */
  readonly sandboxes: readonly ObservedSandbox[];
  /** Newest first; several of one name are instances of one container. */
  readonly containers: readonly ObservedContainer[];
  /** The runtime was asked no earlier than this. */
  readonly readAtMs: number;
}

export interface ObservedSandbox {
  readonly id: string;
  readonly attempt: number;
  readonly state: PodSandboxState;
  readonly createdAtMs: number;
  /** Absent: the runtime says nothing of it. */
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
  /** Hexadecimal, of name and image, as it was when the container was made (containerHash). */
  readonly hash: string;
  readonly restartCount: number;
  readonly createdAtMs: number;
  /** Absent while CREATED. */
  readonly startedAtMs?: number;
  /** These four mean something only when EXITED. */
  readonly finishedAtMs?: number;
  readonly exitCode: number;
  readonly reason: string;
  /** The runtime's own and, after it, the termination message. */
  readonly message: string;
  readonly logPath: string;
  /** What it may use, as the runtime has set it; absent: the runtime does not say. */
  readonly resources?: NonNullable<ContainerStatus["resources"]>;
  /** What the agent made it with, or last set it to; absent: nobody wrote it down (NodeStore `allocations`). */
  readonly actuated?: ContainerResources;
  /** The agent ends it, or has ended it, so that the next instance starts (NodeStore `restarts`). */
  readonly endedForRestart?: true;
}

/** How the agent answers "what does the newest result of this probe say": `undefined` = there is no such probe, or none ran yet. */
export type ProbeAnswer = "Success" | "Failure" | "Unknown" | undefined;

/** The newest instance of a container. */
export function newestOf(observed: ObservedPod, container: string): ObservedContainer | undefined {
  return observed.containers.find(({ name }) => name === container);
}

/** Its newest instance was ended by the agent so that the next one starts: what it ended with says nothing of its work. */
export function isToStartAgain(observed: ObservedPod, container: string): boolean {
  const newest = newestOf(observed, container);
  return newest?.state === "CONTAINER_EXITED" && newest.endedForRestart === true;
}

/** Nothing known of it: what a pod looks like before its first sandbox. */
export function nothingObserved(
  pod: { readonly uid: string; readonly name: string; readonly namespace: string },
  readAtMs: number,
): ObservedPod {
  return { ...pod, ips: [], sandboxes: [], containers: [], readAtMs };
}

/** A container as list and status together say it; `terminationMessage` is what it left behind, if it was read. */
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

/** As it was written down when the container was made; else by the runtime's count. */
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

/** Sorts, and takes the addresses from the newest sandbox if it is READY. */
export function observedPod(
  pod: { readonly uid: string; readonly name: string; readonly namespace: string },
  sandboxes: readonly ObservedSandbox[],
  containers: readonly ObservedContainer[],
  readAtMs: number,
): ObservedPod {
  const newestFirst = <T extends { readonly createdAtMs: number }>(items: readonly T[]): readonly T[] =>
    items.toSorted((a, b) => b.createdAtMs - a.createdAtMs);
  const sorted = newestFirst(sandboxes);
  return { ...pod, ips: addressesOf(sorted[0]), sandboxes: sorted, containers: newestFirst(containers), readAtMs };
}

const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:.]*:[0-9a-f:.]*)$/iu;

/** One that cannot be read, and there are none (§6.1). */
function addressesOf(sandbox: ObservedSandbox | undefined): readonly string[] {
  if (sandbox?.state !== "SANDBOX_READY" || sandbox.network === undefined) return [];
  const all = [sandbox.network.ip, ...sandbox.network.additionalIps].filter((ip) => ip !== "");
  return all.every((ip) => ADDRESS.test(ip)) ? all : [];
}

/** By container id: what one instance's probes say says nothing of the next. */
export interface ProbeAnswers {
  liveness(containerId: string): ProbeAnswer;
  startup(containerId: string): ProbeAnswer;
}

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
 *     EXITED because the agent ended it for its restart → yes
 *
 * Source: pkg/kubelet/container/helpers.go ShouldContainerBeRestarted. Differs from upstream, where who ended it for its restart
 * also starts it, in one go, and nobody is asked in between.
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
      if (newest.endedForRestart === true) return true;
      const policy = restartPolicyOf(pod, container);
      return policy !== "Never" && !(policy === "OnFailure" && newest.exitCode === 0);
    }
  }
}
