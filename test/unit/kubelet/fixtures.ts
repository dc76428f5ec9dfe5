/**
 * Pods and their states in the runtime, with defaults. Everything is frozen, so that a decision that changes its input throws.
 *
 *     nodePod({ containers: ["foo1"], restartPolicy: "Never" })
 *     observed({ containers: [container({ name: "foo1", state: "CONTAINER_EXITED", exitCode: 1 })] })
 */
import { deepFreeze } from "../../../shared/base/freeze.ts";
import type { Labels } from "../../../shared/kube/objects/wire.ts";
import { observedPod } from "../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type {
  ObservedContainer,
  ObservedPod,
  ObservedSandbox,
  ProbeAnswers,
} from "../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { PodActions } from "../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import { containerHash } from "../../../shared/node-agent/kubelet/types/pod.ts";
import type { ContainerSpec, NodePod, NodePodMeta, PodSpec } from "../../../shared/node-agent/kubelet/types/pod.ts";
import type { PodStatus } from "../../../shared/node-agent/ports/node-store.ts";

export const NOW_MS = Date.parse("2026-03-01T10:00:00Z");
export const IMAGE = "registry.test/foo:v1";
/** The default pod of every builder. */
const POD = { uid: "12345678", name: "foo", namespace: "new" } as const;

/** Returns the RFC 3339 time this long before NOW_MS. */
export function ago(seconds: number): string {
  return new Date(NOW_MS - seconds * 1000).toISOString().replace(".000Z", "Z");
}

/** A regular container of a spec. */
export function containerSpec(name: string, fields: Partial<ContainerSpec> = {}): ContainerSpec {
  return deepFreeze({ name, image: IMAGE, imagePullPolicy: "IfNotPresent", ...fields });
}

/** A sidecar: an init container with the restart policy Always. */
export function sidecarSpec(name: string, fields: Partial<ContainerSpec> = {}): ContainerSpec {
  return containerSpec(name, { restartPolicy: "Always", ...fields });
}

export interface PodOptions {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly labels?: Labels;
  readonly annotations?: Labels;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  /** Other metadata. */
  readonly metadata?: Partial<NodePodMeta>;
  /** The containers; a name stands for a container with IMAGE. Default: foo1, foo2, foo3. */
  readonly containers?: readonly (string | ContainerSpec)[];
  readonly initContainers?: readonly (string | ContainerSpec)[];
  readonly ephemeralContainers?: readonly (string | ContainerSpec)[];
  readonly restartPolicy?: "Always" | "OnFailure" | "Never";
  readonly hostNetwork?: boolean;
  /** Other fields of the spec. */
  readonly spec?: Partial<PodSpec>;
  readonly status?: PodStatus;
}

const specs = (containers: readonly (string | ContainerSpec)[]): ContainerSpec[] =>
  containers.map((container) => (typeof container === "string" ? containerSpec(container) : container));

/** A regular pod `foo` of namespace `new` on node n1, restart policy Always, from the API server. */
export function nodePod({
  name = POD.name,
  namespace = POD.namespace,
  uid = POD.uid,
  labels,
  annotations,
  deletionTimestamp,
  deletionGracePeriodSeconds,
  metadata,
  containers = ["foo1", "foo2", "foo3"],
  initContainers,
  ephemeralContainers,
  restartPolicy = "Always",
  hostNetwork,
  spec,
  status,
}: PodOptions = {}): NodePod {
  return deepFreeze({
    metadata: {
      name,
      namespace,
      uid,
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: ago(60),
      ...(labels !== undefined && { labels }),
      ...(annotations !== undefined && { annotations }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(deletionGracePeriodSeconds !== undefined && { deletionGracePeriodSeconds }),
      ...metadata,
    },
    spec: {
      nodeName: "n1",
      restartPolicy,
      terminationGracePeriodSeconds: 30,
      containers: specs(containers),
      ...(initContainers !== undefined && { initContainers: specs(initContainers) }),
      ...(ephemeralContainers !== undefined && { ephemeralContainers: specs(ephemeralContainers) }),
      ...(hostNetwork !== undefined && { hostNetwork }),
      ...spec,
    },
    ...(status !== undefined && { status }),
  });
}

/** An observed sandbox: attempt 0, READY, with an IP, created 50 s ago. */
export function sandbox(fields: Partial<ObservedSandbox> = {}): ObservedSandbox {
  return deepFreeze({
    id: "sandbox-0",
    attempt: 0,
    state: "SANDBOX_READY",
    createdAtMs: NOW_MS - 50_000,
    network: { ip: "10.0.0.12", additionalIps: [] },
    networkMode: "POD",
    ...fields,
  });
}

/**
 * An observed container: foo1, RUNNING for 40 s, with the hash of IMAGE and id `<name>-0`. In the state EXITED, it exited 10 s ago with
 * code 0.
 */
export function container(fields: Partial<ObservedContainer> = {}): ObservedContainer {
  const { name = "foo1", state = "CONTAINER_RUNNING", exitCode = 0, restartCount = 0 } = fields;
  const exited = state === "CONTAINER_EXITED";
  return deepFreeze({
    id: `${name}-${restartCount}`,
    sandboxId: "sandbox-0",
    image: IMAGE,
    imageRef: `sha256:${"ab".repeat(32)}`,
    hash: containerHash({ name, image: IMAGE }),
    createdAtMs: NOW_MS - 45_000 + restartCount * 1000,
    ...(state !== "CONTAINER_CREATED" && { startedAtMs: NOW_MS - 40_000 + restartCount * 1000 }),
    ...(exited && { finishedAtMs: NOW_MS - 10_000 }),
    reason: exited ? (exitCode === 0 ? "Completed" : "Error") : "",
    message: "",
    logPath: `/var/log/pods/new_foo_12345678/${name}/${restartCount}.log`,
    ...fields,
    name,
    state,
    exitCode,
    restartCount,
  });
}

/** An exited container with its code. */
export function exited(name: string, exitCode: number, fields: Partial<ObservedContainer> = {}): ObservedContainer {
  return container({ name, state: "CONTAINER_EXITED", exitCode, ...fields });
}

export interface ObservedOptions {
  readonly uid?: string;
  readonly name?: string;
  readonly namespace?: string;
  /** Default: one sandbox that is READY. */
  readonly sandboxes?: readonly ObservedSandbox[];
  /** Sorted newest first by the builder. Default: foo1, foo2 and foo3 RUNNING. */
  readonly containers?: readonly ObservedContainer[];
}

/** The default pod's state in the runtime: one READY sandbox, and foo1 to foo3 RUNNING. */
export function observed({
  uid = POD.uid,
  name = POD.name,
  namespace = POD.namespace,
  sandboxes = [sandbox()],
  containers = ["foo1", "foo2", "foo3"].map((running) => container({ name: running })),
}: ObservedOptions = {}): ObservedPod {
  return deepFreeze(observedPod({ uid, name, namespace }, sandboxes, containers));
}

/** The default pod before its first sandbox. */
export const NOTHING: ObservedPod = deepFreeze({ ...POD, ips: [], sandboxes: [], containers: [] });

/** No probe has run yet. */
export const NO_PROBES: ProbeAnswers = { liveness: () => undefined, startup: () => undefined };

/** Expected actions; by default "keep sandbox-0 and do nothing". */
export function podActions(fields: Partial<PodActions> = {}): PodActions {
  return {
    killPod: false,
    createSandbox: false,
    sandboxId: "sandbox-0",
    attempt: 0,
    initContainersToStart: [],
    containersToStart: [],
    ephemeralContainersToStart: [],
    containersToKill: [],
    containersToUpdate: [],
    ...fields,
  };
}
