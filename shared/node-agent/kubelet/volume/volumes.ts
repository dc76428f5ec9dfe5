/** Plans the set-up of volumes (node-agent §10). */
import { parseQuantity, quantityNanos } from "@deltaloop/kube/quantity";
import { podRequests, wholeAmount } from "../types/pod-requests.ts";
import type { ContainerSpec, NodePod, VolumeSpec } from "../types/pod.ts";

/** How to set up one volume. `plugin` is upstream's directory name. */
export type VolumePlan = { readonly name: string; readonly plugin: string } & (
  | { readonly kind: "emptyDir"; readonly medium?: "Memory"; readonly sizeLimitBytes?: number }
  | { readonly kind: "hostPath"; readonly path: string; readonly type: string }
  /** For configMap, secret, downwardAPI and projected volumes: files from volumePayload. */
  | { readonly kind: "payload"; readonly tmpfs: boolean }
  /** The pod waits, and the FailedMount event has this message. */
  | { readonly kind: "unsupported"; readonly message: string }
);

/**
 * Returns one plan per volume, in spec order. All volumes must be set up before the sandbox is created. @param allocatableMemoryBytes
 * maximum size of a tmpfs; default: the kernel's Source: pkg/volume/{emptydir,hostpath,configmap,secret,downwardapi,projected};
 * pkg/apis/core/v1/defaults.go SetDefaults_Volume.
 */
export function volumePlans(pod: NodePod, allocatableMemoryBytes?: number): readonly VolumePlan[] {
  return (pod.spec.volumes ?? []).map((volume) => volumePlan(pod, volume, allocatableMemoryBytes));
}

/** Returns the group that owns the pod's volume files, except those of hostPath volumes. */
export function fsGroupOf(pod: NodePod): number | undefined {
  return pod.spec.securityContext?.fsGroup;
}

function volumePlan(pod: NodePod, volume: VolumeSpec, allocatableMemoryBytes: number | undefined): VolumePlan {
  const { name, emptyDir, hostPath, projected } = volume;
  if (hostPath) return { name, plugin: "kubernetes.io~host-path", kind: "hostPath", path: hostPath.path, type: hostPath.type ?? "" };
  if (volume.configMap) return { name, plugin: "kubernetes.io~configmap", kind: "payload", tmpfs: false };
  if (volume.secret) return { name, plugin: "kubernetes.io~secret", kind: "payload", tmpfs: true };
  if (volume.downwardAPI) return { name, plugin: "kubernetes.io~downward-api", kind: "payload", tmpfs: true };
  if (projected) {
    const unknown = (projected.sources ?? []).map(unsupportedSource).find((source) => source !== undefined);
    return unknown === undefined
      ? { name, plugin: "kubernetes.io~projected", kind: "payload", tmpfs: true }
      : unsupported(name, `projected source ${unknown}`);
  }
  const kind = sourceKind(volume);
  if (kind !== undefined && kind !== "emptyDir") return unsupported(name, `volume type ${kind}`);
  return emptyDirPlan(pod, name, emptyDir, allocatableMemoryBytes);
}

function emptyDirPlan(
  pod: NodePod,
  name: string,
  emptyDir: VolumeSpec["emptyDir"],
  allocatableMemoryBytes: number | undefined,
): VolumePlan {
  const { medium = "", sizeLimit } = emptyDir ?? {};
  const plan = { name, plugin: "kubernetes.io~empty-dir", kind: "emptyDir" } as const;
  const limitBytes = sizeLimit === undefined ? 0 : wholeUnits(sizeLimit);
  if (medium === "") return { ...plan, ...(limitBytes > 0 && { sizeLimitBytes: limitBytes }) };
  if (medium !== "Memory") return unsupported(name, `emptyDir medium ${medium}`);
  const bounds = [limitBytes, memoryLimitOf(pod), allocatableMemoryBytes ?? 0].filter((bytes) => bytes > 0);
  return { ...plan, medium, ...(bounds.length > 0 && { sizeLimitBytes: Math.min(...bounds) }) };
}

/** Returns the name of the source's field, such as `persistentVolumeClaim`. */
function sourceKind(volume: VolumeSpec): string | undefined {
  return Object.entries(volume).find(([field, source]) => field !== "name" && source !== undefined && source !== null)?.[0];
}

const PROJECTED_SOURCES: readonly string[] = [
  "configMap",
  "secret",
  "downwardAPI",
  "serviceAccountToken",
  "clusterTrustBundle",
  "podCertificate",
];

function unsupportedSource(source: object): string | undefined {
  return Object.entries(source).find(([field, value]) => value !== undefined && value !== null && !PROJECTED_SOURCES.includes(field))?.[0];
}

function unsupported(name: string, what: string): VolumePlan {
  return { name, plugin: "", kind: "unsupported", message: `${what} is not supported by this node agent` };
}

/**
 * Returns the limit of the pod's memory cgroup, or 0 unless every container has a limit. Source: pkg/kubelet/cm/helpers_linux.go
 * ResourceConfigForPod.
 */
function memoryLimitOf({ spec, ...pod }: NodePod): number {
  const asRequested = (container: ContainerSpec): ContainerSpec => ({
    ...container,
    resources: { requests: { memory: container.resources?.limits?.["memory"] ?? "0" } },
  });
  const containers = spec.containers.map(asRequested);
  const initContainers = (spec.initContainers ?? []).map(asRequested);
  if ([...containers, ...initContainers].some(({ resources }) => wholeUnits(resources?.requests?.["memory"] ?? "0") === 0)) return 0;
  return wholeAmount(podRequests({ ...pod, spec: { ...spec, containers, initContainers } }), "memory");
}

function wholeUnits(text: string): number {
  const quantity = parseQuantity(text);
  return quantity === undefined ? 0 : wholeAmount(new Map([["", quantityNanos(quantity)]]), "");
}
