/** A complete pod, which parseNodePod has validated. */
import type { V1Container, V1ContainerStatus, V1PodSpec, V1Probe, V1Volume } from "@kubernetes/client-node";
import type { Labels, OwnerReference, Wire } from "@deltaloop/kube/objects";
import type { PodStatus } from "../../ports/node-store.ts";

export interface NodePod {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: NodePodMeta;
  readonly spec: PodSpec;
  readonly status?: PodStatus;
}

export interface NodePodMeta {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Labels;
  readonly annotations?: Labels;
  readonly ownerReferences?: readonly OwnerReference[];
}

export type PodSpec = Wire<V1PodSpec>;
export type ContainerSpec = Wire<V1Container>;
export type ContainerStatusEntry = Wire<V1ContainerStatus>;
export type ProbeSpec = Wire<V1Probe>;
export type VolumeSpec = Wire<V1Volume>;

/** Returns `<pod>_<namespace>`. Only one static pod with a given full name runs at a time. */
export function fullName({ metadata: { name, namespace } }: NodePod): string {
  return `${name}_${namespace}`;
}

export function initContainersOf(pod: NodePod): readonly ContainerSpec[] {
  return pod.spec.initContainers ?? [];
}

/** Whether the init container is a sidecar, which keeps running next to the regular containers. */
export function isSidecar(initContainer: ContainerSpec): boolean {
  return initContainer.restartPolicy === "Always";
}

/** The wire types of both kinds have all fields that are used here. */
export function ephemeralContainersOf(pod: NodePod): readonly (ContainerSpec & { readonly targetContainerName?: string })[] {
  return pod.spec.ephemeralContainers ?? [];
}

/** Returns the container with this name, of any kind. Source: pkg/kubelet/container/helpers.go GetContainerSpec. */
export function containerNamed(pod: NodePod, name: string): ContainerSpec | undefined {
  return [...pod.spec.containers, ...initContainersOf(pod), ...ephemeralContainersOf(pod)].find((each) => each.name === name);
}

export function isTerminalPhase(phase: string | undefined): phase is "Succeeded" | "Failed" {
  return phase === "Succeeded" || phase === "Failed";
}

/** Checks only the fields that the agent relies on; the API server validates the rest. @throws {TypeError} that names the missing field */
export function parseNodePod(value: unknown): NodePod {
  const pod = value as { readonly metadata?: Partial<NodePodMeta>; readonly spec?: Partial<PodSpec> } | null; // each field is checked below
  for (const field of ["name", "namespace", "uid"] as const)
    if (typeof pod?.metadata?.[field] !== "string" || pod.metadata[field] === "") throw new TypeError(`pod has no metadata.${field}`);
  const containers = pod?.spec?.containers;
  if (!Array.isArray(containers) || containers.length === 0)
    throw new TypeError(`pod ${pod?.metadata?.name}: spec.containers is missing or empty`);
  for (const container of containers)
    if (typeof container?.name !== "string") throw new TypeError(`pod ${pod?.metadata?.name}: a container has no name`);
  return value as NodePod; // checked above
}

const FNV_OFFSET_BASIS = 0x811c9dc5;
const FNV_PRIME = 0x01000193;
const encoder = new TextEncoder();

/**
 * Returns the kubelet's container hash, so that agent and kubelet can take over each other's containers. It is the 32-bit FNV-1a hash of
 * the JSON of image and name, printed as a Go byte slice. It is stored in annotations, so its value must never change.
 *
 *     { name: "foo1", image: "foo:v1" } → {"image":"foo:v1","name":"foo1"} → ([]uint8)[123 34 105 … 125] → "a7ccf167"
 *
 * Source: pkg/kubelet/container/helpers.go HashContainer, pickFieldsToHash; k8s.io/utils/dump ForHash.
 */
export function containerHash({ name, image = "" }: { readonly name: string; readonly image?: string }): string {
  const printed = `([]uint8)[${encoder.encode(goJson({ image, name })).join(" ")}]`;
  let hash = FNV_OFFSET_BASIS;
  for (const byte of encoder.encode(printed)) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return (hash >>> 0).toString(16);
}

/** Go's encoding/json also escapes these characters. */
function goJson(value: object): string {
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export type PodCondition = NonNullable<PodStatus["conditions"]>[number];
