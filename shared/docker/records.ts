/**
 * Stores CRI sandboxes and containers in Docker names and labels, so that they survive restarts of the agent.
 *
 * KE1 a container belongs to this agent if its name begins with `k8s_` and it has the agent's record. Other containers are never listed
 *     or changed.
 * KE2 CRI's fields are read only from one label, as JSON. Docker merges the image's labels into the container's, and an image must not
 *     be able to set a pod annotation (which may hold a preStop hook).
 * KE3 names have dockershim's format, so that Docker rejects a second container with the same {name, namespace, uid, attempt}.
 *
 * Source: pkg/kubelet/dockershim/naming.go makeSandboxName, makeContainerName; docker_service.go; libdocker (Kubernetes v1.23).
 */
import type {
  ContainerConfig,
  ContainerMetadata,
  NamespaceOption,
  PodSandboxConfig,
  PodSandboxMetadata,
  StringMap,
} from "@deltaloop/node-agent/ports";

const PREFIX = "k8s";
const SANDBOX = "POD";
const RECORD = "deltaloop.cri";
export const TYPE = "io.kubernetes.docker.type";
const SANDBOX_ID = "io.kubernetes.sandbox.id";
const LOG_PATH = "io.kubernetes.container.logpath";

interface BaseRecord {
  readonly labels: StringMap;
  readonly annotations: StringMap;
  readonly createdAtMs: number;
}

export interface SandboxRecord extends BaseRecord {
  readonly metadata: PodSandboxMetadata;
  readonly namespaces: NamespaceOption;
}

export interface ContainerRecord extends BaseRecord {
  readonly metadata: ContainerMetadata;
  readonly podSandboxId: string;
  /** The image in the pod's spec, if known, otherwise the image in the request. */
  readonly image: string;
  /** Absolute path of the log; empty if the caller requested no log. */
  readonly logPath: string;
}

/** `k8s_POD_<pod>_<namespace>_<uid>_<attempt>` */
export function sandboxName({ name, namespace, uid, attempt }: PodSandboxMetadata): string {
  return [PREFIX, SANDBOX, name, namespace, uid, attempt].join("_");
}

/** `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>` */
export function containerName({ name, attempt }: ContainerMetadata, pod: PodSandboxMetadata): string {
  return [PREFIX, name, pod.name, pod.namespace, pod.uid, attempt].join("_");
}

export function sandboxRecord(config: PodSandboxConfig, createdAtMs: number): SandboxRecord {
  const { metadata, labels = {}, annotations = {}, linux } = config;
  return { metadata, labels, annotations, createdAtMs, namespaces: linux?.securityContext?.namespaceOptions ?? {} };
}

export function containerRecord(
  podSandboxId: string,
  config: ContainerConfig,
  { logDirectory }: PodSandboxConfig,
  createdAtMs: number,
): ContainerRecord {
  const { metadata, image, labels = {}, annotations = {}, logPath } = config;
  return {
    metadata,
    podSandboxId,
    labels,
    annotations,
    createdAtMs,
    image: image.userSpecifiedImage ?? image.image,
    logPath: logPath === undefined || logDirectory === undefined ? "" : `${logDirectory.replace(/\/+$/u, "")}/${logPath}`,
  };
}

/** CRI's labels are also set as Docker labels, for `docker ps --filter label=…`. */
export function sandboxLabels(kept: SandboxRecord): Record<string, string> {
  return { ...kept.labels, [TYPE]: "podsandbox", [RECORD]: JSON.stringify(kept) };
}

export function containerLabels(kept: ContainerRecord): Record<string, string> {
  const { labels, podSandboxId, logPath } = kept;
  return { ...labels, [TYPE]: "container", [SANDBOX_ID]: podSandboxId, [LOG_PATH]: logPath, [RECORD]: JSON.stringify(kept) };
}

/** @param name Docker's name, with a leading slash @returns `undefined` if the container does not belong to this agent (KE1) */
export function readSandbox(name: string | undefined, labels: StringMap | null): SandboxRecord | undefined {
  return read(name, labels, "podsandbox") as SandboxRecord | undefined; // the record was written by sandboxLabels
}

export function readContainer(name: string | undefined, labels: StringMap | null): ContainerRecord | undefined {
  return read(name, labels, "container") as ContainerRecord | undefined; // the record was written by containerLabels
}

function read(name: string | undefined, labels: StringMap | null, type: string): unknown {
  const record = labels?.[RECORD];
  if (record === undefined || labels?.[TYPE] !== type || name?.replace(/^\//u, "").startsWith(`${PREFIX}_`) !== true) return undefined;
  return JSON.parse(record);
}

export function hasLabels(labels: StringMap, wanted: StringMap = {}): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}
