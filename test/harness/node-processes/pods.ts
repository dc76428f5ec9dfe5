/** Pods of the images that test/containerd builds, and their state in the API server. */
import { IMAGES } from "../../containerd/images.ts";
import { eventually } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";

/** A script that runs until SIGTERM and then exits at once. Without the trap, a shell as PID 1 of a container ignores SIGTERM. */
export const STAY = 'trap "exit 0" TERM; sleep 3600 & wait';
const WAIT_MS_MAX = 60_000;

interface State {
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly running?: { readonly startedAt: string };
  readonly terminated?: {
    readonly exitCode: number;
    readonly reason?: string;
    readonly message?: string;
    readonly startedAt?: string;
    readonly finishedAt?: string;
  };
}

export interface ContainerView {
  readonly name: string;
  readonly ready: boolean;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly containerID?: string;
  readonly image: string;
  readonly state: State;
  readonly lastState: State;
}

interface ConditionView {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
}

export interface PodView {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly phase: string;
    readonly reason?: string;
    readonly message?: string;
    readonly podIP?: string;
    readonly hostIP?: string;
    readonly qosClass?: string;
    readonly conditions?: readonly ConditionView[];
    readonly containerStatuses?: readonly ContainerView[];
    readonly initContainerStatuses?: readonly ContainerView[];
    readonly ephemeralContainerStatuses?: readonly ContainerView[];
  };
}

/** Returns a pod with a grace period of 1 s, unless the spec sets another one. */
export function podOf(name: string, spec: object, metadata: object = {}): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, ...metadata }, spec: { terminationGracePeriodSeconds: 1, ...spec } };
}

/** A container that runs a script in busybox's shell. */
export function shell(name: string, script: string, more: object = {}): object {
  return { name, image: IMAGES.busybox, command: ["sh", "-c", script], ...more };
}

/** A container whose server listens on port 8080. */
export function server(more: object = {}): object {
  return { name: "main", image: IMAGES.serverV1, ...more };
}

export async function getPod(cluster: Cluster, name: string): Promise<PodView | undefined> {
  return await cluster.get<PodView>(`/api/v1/namespaces/default/pods/${name}`);
}

/**
 * Waits for a pod for which `look` returns true, and returns it.
 * @throws {Error} with the pod's status after the deadline
 */
export async function podWhere(
  cluster: Cluster,
  name: string,
  what: string,
  look: (pod: PodView) => boolean,
  timeoutMs = WAIT_MS_MAX,
): Promise<PodView> {
  return await eventually(
    `pod ${name} ${what}`,
    async () => {
      const pod = await getPod(cluster, name);
      if (pod !== undefined && look(pod)) return pod;
      throw new Error(pod === undefined ? "the pod does not exist" : JSON.stringify(pod.status));
    },
    timeoutMs,
  );
}

export async function podGone(cluster: Cluster, name: string, timeoutMs = WAIT_MS_MAX): Promise<void> {
  await eventually(`pod ${name} is gone`, async () => (await getPod(cluster, name)) === undefined, timeoutMs);
}

export async function podReady(cluster: Cluster, name: string, timeoutMs = WAIT_MS_MAX): Promise<PodView> {
  return await podWhere(cluster, name, "is ready", isReady, timeoutMs);
}

/** Waits until the pod has Succeeded or Failed. */
export async function podEnded(cluster: Cluster, name: string, timeoutMs = WAIT_MS_MAX): Promise<PodView> {
  return await podWhere(cluster, name, "has ended", ({ status }) => status.phase === "Succeeded" || status.phase === "Failed", timeoutMs);
}

export function isReady({ status }: PodView): boolean {
  return conditionOf(status, "Ready")?.status === "True";
}

export function conditionOf({ conditions = [] }: PodView["status"], type: string): ConditionView | undefined {
  return conditions.find((condition) => condition.type === type);
}

/**
 * Returns the status of a regular or init container.
 * @throws {Error} if no container has that name
 */
export function containerOf({ status }: PodView, name = "main"): ContainerView {
  const all = [...(status.containerStatuses ?? []), ...(status.initContainerStatuses ?? []), ...(status.ephemeralContainerStatuses ?? [])];
  const found = all.find((container) => container.name === name);
  if (found === undefined) throw new Error(`no status for container ${name} in ${JSON.stringify(status)}`);
  return found;
}

/** Returns the container's id in the runtime. */
export function runtimeId({ containerID = "" }: ContainerView): string {
  return containerID.replace("containerd://", "");
}

/** Returns the response of a `server` container. */
export async function answerOf(ip: string | undefined): Promise<string> {
  return await (await fetch(`http://${ip}:8080/`, { signal: AbortSignal.timeout(5_000) })).text();
}

/** Waits until the object has an Event for each of `wanted`, as `reason: message`. Events arrive with a delay. */
export async function eventsSay(cluster: Cluster, name: string, ...wanted: readonly string[]): Promise<void> {
  await eventually(`the Events of ${name}`, async () => {
    const said = await eventsOf(cluster, name);
    const missing = wanted.filter((one) => !said.includes(one));
    if (missing.length > 0) throw new Error(`missing Events: ${missing.join(" | ")}; found: ${said.join(" | ")}`);
    return true;
  });
}

/** Returns the Events of the object, each repeated according to its count. */
export async function eventsOf(cluster: Cluster, name: string): Promise<readonly string[]> {
  const selector = encodeURIComponent(`involvedObject.name=${name}`);
  const events = await cluster.get<{ readonly items: readonly { readonly reason: string; readonly message: string }[] }>(
    `/api/v1/namespaces/default/events?fieldSelector=${selector}`,
  );
  return (events?.items ?? []).map(({ reason, message }) => `${reason}: ${message}`);
}
