/**
 * Pod statuses as a kubelet writes them, and the next step of a scripted node for a pod. Pure.
 *
 * Source: kubernetes/pkg/kubelet/kubelet_pods.go (convertStatusToAPIStatus), pkg/kubelet/status/generate.go.
 */
import type { V1ContainerStatus, V1PodCondition, V1PodStatus } from "@kubernetes/client-node";
import type { Pod, Wire } from "@deltaloop/kube/objects";

/** `bind` only without a scheduler. `wait` awaits an event. */
export type NextStep = "bind" | "start" | "ready" | "stop" | "finish" | "wait";

export interface StepRules {
  readonly bindPods: boolean;
  /** Whether the node belongs to the fleet. */
  readonly isOurs: (node: string) => boolean;
}

/**
 *     no node → bind → start (Pending) → ready (Running, Ready) → wait
 *     deletionTimestamp → stop (Succeeded) → finish (DELETE)
 */
export function nextStep(pod: Pod, rules: StepRules): NextStep {
  const { spec, status, metadata } = pod;
  const node = spec?.nodeName ?? "";
  if (node === "")
    return rules.bindPods && metadata?.deletionTimestamp === undefined && (spec?.schedulingGates ?? []).length === 0 ? "bind" : "wait";
  if (!rules.isOurs(node)) return "wait";
  const isTerminal = status?.phase === "Succeeded" || status?.phase === "Failed";
  if (metadata?.deletionTimestamp !== undefined) return isTerminal ? "finish" : "stop";
  if (isTerminal) return "wait";
  if (status?.startTime === undefined) return "start";
  if (status.phase === "Running") return "wait";
  return (pod.spec?.containers ?? []).some(({ image }) => isBad(image)) ? "wait" : "ready";
}

/**
 * Whether the tag simulates a failing pull, so that the pod never becomes ready. Upstream's tests use `:404` and `:nonexistent`. Source:
 * test/e2e/apps/deployment.go.
 */
function isBad(image: string | undefined): boolean {
  return image !== undefined && BAD_TAGS.some((tag) => image.endsWith(tag));
}

const BAD_TAGS = [":bad", ":404", ":nonexistent"];

/** The sandbox exists and images are being pulled; a container with a bad image has a waiting reason. */
export function startedStatus(pod: Pod, hostIP: string, now: string): Wire<V1PodStatus> {
  const containerStatuses = containersOf(pod, (name, image) => {
    const waiting = isBad(image)
      ? { reason: "ImagePullBackOff", message: `Back-off pulling image "${image}"` }
      : { reason: "ContainerCreating" };
    return { name, image, imageID: "", ready: false, started: false, restartCount: 0, state: { waiting }, lastState: {} };
  });
  const notReady = {
    reason: "ContainersNotReady",
    message: `containers with unready status: [${containerStatuses.map(({ name }) => name).join(" ")}]`,
  };
  return {
    phase: "Pending",
    startTime: now,
    hostIP,
    hostIPs: [{ ip: hostIP }],
    conditions: conditions(now, "False", notReady),
    containerStatuses,
  };
}

export function runningStatus(pod: Pod, podIP: string, now: string): Wire<V1PodStatus> {
  return {
    phase: "Running",
    podIP,
    podIPs: [{ ip: podIP }],
    conditions: conditions(now, "True"),
    containerStatuses: containersOf(pod, (name, image) => ({
      name,
      image,
      imageID: `scripted://${image}`,
      containerID: `scripted://${pod.metadata?.uid}/${name}`,
      ready: true,
      started: true,
      restartCount: 0,
      state: { running: { startedAt: now } },
      lastState: {},
    })),
  };
}

export function stoppedStatus(pod: Pod, now: string): Wire<V1PodStatus> {
  return {
    phase: "Succeeded",
    conditions: conditions(now, "False", { reason: "PodCompleted" }).filter(({ type }) => type === "Ready" || type === "ContainersReady"),
    containerStatuses: containersOf(pod, (name, image) => ({
      name,
      image,
      imageID: `scripted://${image}`,
      ready: false,
      started: false,
      restartCount: 0,
      state: { terminated: { exitCode: 0, reason: "Completed", startedAt: pod.status?.startTime ?? now, finishedAt: now } },
      lastState: {},
    })),
  };
}

function containersOf(pod: Pod, status: (name: string, image: string) => Wire<V1ContainerStatus>): Wire<V1ContainerStatus>[] {
  return (pod.spec?.containers ?? []).map(({ name, image = "" }) => status(name, image));
}

type Condition = Wire<V1PodCondition>;

/** Omits PodScheduled, which belongs to the scheduler: the patch merges conditions by type. */
function conditions(now: string, ready: "True" | "False", why: { readonly reason?: string; readonly message?: string } = {}): Condition[] {
  const at = { lastTransitionTime: now };
  // A field of the old condition would survive the merge; null removes it.
  const explained = { reason: why.reason ?? null, message: why.message ?? null };
  return [
    { type: "PodReadyToStartContainers", status: "True", ...at },
    { type: "Initialized", status: "True", ...at },
    // JSON null in a strategic merge patch removes the field; the API type cannot express it.
    { type: "Ready", status: ready, ...at, ...explained } as unknown as Condition,
    { type: "ContainersReady", status: ready, ...at, ...explained } as unknown as Condition,
  ];
}
