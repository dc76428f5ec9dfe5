/**
 * CRI sandboxes and containers are stored in Docker names and labels, so they survive restarts of the agent.
 *
 * KE1 a container is this agent's when its name begins with `k8s_` and it has the agent's record; no other is listed or changed.
 * KE2 what CRI gave is in one label, as JSON, and read from there alone: Docker mixes the image's own labels among a container's,
 *     and an image must not be able to say what a pod's annotation says (a preStop hook stands in one).
 * KE3 the names are dockershim's, so two of {name, namespace, uid, attempt} cannot be at once: Docker refuses the second.
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

interface Kept {
  readonly labels: StringMap;
  readonly annotations: StringMap;
  readonly createdAtMs: number;
}

export interface KeptSandbox extends Kept {
  readonly metadata: PodSandboxMetadata;
  readonly namespaces: NamespaceOption;
}

export interface KeptContainer extends Kept {
  readonly metadata: ContainerMetadata;
  readonly podSandboxId: string;
  /** As its pod says it, where that is known; else as it was created. */
  readonly image: string;
  /** Absolute; empty: no log was requested. */
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

export function keptSandbox(config: PodSandboxConfig, createdAtMs: number): KeptSandbox {
  const { metadata, labels = {}, annotations = {}, linux } = config;
  return { metadata, labels, annotations, createdAtMs, namespaces: linux?.securityContext?.namespaceOptions ?? {} };
}

export function keptContainer(
  podSandboxId: string,
  config: ContainerConfig,
  { logDirectory }: PodSandboxConfig,
  createdAtMs: number,
): KeptContainer {
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

/** The labels of CRI stand beside the record for people and their `docker ps --filter label=…`. */
export function sandboxLabels(kept: KeptSandbox): Record<string, string> {
  return { ...kept.labels, [TYPE]: "podsandbox", [RECORD]: JSON.stringify(kept) };
}

export function containerLabels(kept: KeptContainer): Record<string, string> {
  const { labels, podSandboxId, logPath } = kept;
  return { ...labels, [TYPE]: "container", [SANDBOX_ID]: podSandboxId, [LOG_PATH]: logPath, [RECORD]: JSON.stringify(kept) };
}

/** @param name as Docker says it, with a slash in front @returns `undefined`: it is not ours (KE1) */
export function readSandbox(name: string | undefined, labels: StringMap | null): KeptSandbox | undefined {
  return read(name, labels, "podsandbox") as KeptSandbox | undefined; // written by sandboxLabels
}

export function readContainer(name: string | undefined, labels: StringMap | null): KeptContainer | undefined {
  return read(name, labels, "container") as KeptContainer | undefined; // written by containerLabels
}

function read(name: string | undefined, labels: StringMap | null, type: string): unknown {
  const record = labels?.[RECORD];
  if (record === undefined || labels?.[TYPE] !== type || name?.replace(/^\//u, "").startsWith(`${PREFIX}_`) !== true) return undefined;
  return JSON.parse(record);
}

export function hasLabels(labels: StringMap, wanted: StringMap = {}): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}
