/** What a pod's volumes need on this machine before its sandbox may be made (node-agent §10). */
import { parseQuantity, quantityNanos } from "@deltaloop/kube/quantity";
import { podRequests, wholeAmount } from "../types/pod-requests.ts";
import type { ContainerSpec, NodePod, VolumeSpec } from "../types/pod.ts";

/** What must be done for one volume; `plugin` is the directory name that upstream gives its kind. */
export type VolumePlan = { readonly name: string; readonly plugin: string } & (
  | { readonly kind: "emptyDir"; readonly medium?: "Memory"; readonly sizeLimitBytes?: number }
  | { readonly kind: "hostPath"; readonly path: string; readonly type: string }
  /** configMap, secret, downwardAPI, projected: files that the agent writes (volumePayload). */
  | { readonly kind: "payload"; readonly tmpfs: boolean }
  /** The pod waits with this in its FailedMount event. */
  | { readonly kind: "unsupported"; readonly message: string }
);

/**
 * One plan per volume, in the order of the spec. All must be done before the sandbox is made.
 *
 * @param allocatableMemoryBytes the most that a tmpfs is allowed to grow to; without it the kernel's own bound holds
 *
 * Source: pkg/volume/{emptydir,hostpath,configmap,secret,downwardapi,projected}; pkg/apis/core/v1/defaults.go SetDefaults_Volume (a
 * volume without a source is an empty directory).
 */
export function volumePlans(pod: NodePod, allocatableMemoryBytes?: number): readonly VolumePlan[] {
  return (pod.spec.volumes ?? []).map((volume) => volumePlan(pod, volume, allocatableMemoryBytes));
}

/** The group that owns the files of the pod's volumes (hostPath excepted). */
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
    const foreign = (projected.sources ?? []).map(unsupportedSource).find((source) => source !== undefined);
    return foreign === undefined
      ? { name, plugin: "kubernetes.io~projected", kind: "payload", tmpfs: true }
      : unsupported(name, `projected source ${foreign}`);
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

/** What stands beside the name in a volume, e.g. `persistentVolumeClaim`. */
function sourceKind(volume: VolumeSpec): string | undefined {
  return Object.entries(volume).find(([field, source]) => field !== "name" && source !== undefined && source !== null)?.[0];
}

const PROJECTED_SOURCES: readonly string[] = ["configMap", "secret", "downwardAPI", "serviceAccountToken"];

function unsupportedSource(source: object): string | undefined {
  return Object.entries(source).find(([field, value]) => value !== undefined && value !== null && !PROJECTED_SOURCES.includes(field))?.[0];
}

function unsupported(name: string, what: string): VolumePlan {
  return { name, plugin: "", kind: "unsupported", message: `${what} is not supported by this node agent` };
}

/**
 * What the pod's memory cgroup is limited to, 0 = not at all: it is only if every container has a limit.
 *
 * Source: pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod.
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
