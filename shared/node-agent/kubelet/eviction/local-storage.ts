/** Local storage limits (node-agent §14.5). */
import { canonicalQuantity, parseQuantity, numericQuantity } from "@deltaloop/kube/quantity";
import { initContainersOf, isSidecar, type ContainerSpec, type NodePod } from "../types/pod.ts";
import { binaryQuantity, containerStorageMessage, emptyDirMessage, podStorageMessage } from "./messages.ts";
import type { PodUsage } from "./usage.ts";

const STORAGE = "ephemeral-storage";

/** Values of upstream's eviction metric label. */
export type StorageLimit = "emptydirfs.limit" | "ephemeralpodfs.limit" | "ephemeralcontainerfs.limit";

export interface StorageExcess {
  readonly limit: StorageLimit;
  readonly message: string;
}

/**
 * Returns the first exceeded limit. The limits of emptyDir volumes are checked first, then the pod's, then the containers'. Source:
 * pkg/kubelet/eviction/eviction_manager.go localStorageEviction.
 *
 * @param hasImageFs whether writable layers are on a separate image filesystem, in which case they do not count for a container
 */
export function storageExcess(pod: NodePod, usage: PodUsage, hasImageFs: boolean): StorageExcess | undefined {
  return ofEmptyDirs(pod, usage) ?? ofPod(pod, usage) ?? ofContainers(pod, usage, hasImageFs);
}

/** Whether the pod has a local storage limit. */
export function hasStorageLimit(pod: NodePod): boolean {
  const { volumes = [], containers } = pod.spec;
  return (
    volumes.some(({ emptyDir }) => emptyDir?.sizeLimit !== undefined) ||
    [...containers, ...initContainersOf(pod)].some(({ resources }) => resources?.limits?.[STORAGE] !== undefined)
  );
}

function ofEmptyDirs({ spec }: NodePod, { volumes }: PodUsage): StorageExcess | undefined {
  for (const { name, emptyDir } of spec.volumes ?? []) {
    const used = volumes.get(name)?.usedBytes;
    const limit = bytes(emptyDir?.sizeLimit);
    if (used !== undefined && limit > 0 && used > limit)
      return { limit: "emptydirfs.limit", message: emptyDirMessage(name, canonical(emptyDir?.sizeLimit)) };
  }
  return undefined;
}

function ofPod(pod: NodePod, { ephemeralBytes }: PodUsage): StorageExcess | undefined {
  const limit = podLimit(pod);
  if (limit === undefined || ephemeralBytes <= limit.bytes) return undefined;
  return { limit: "ephemeralpodfs.limit", message: podStorageMessage(limit.text) };
}

function ofContainers(pod: NodePod, { containers }: PodUsage, hasImageFs: boolean): StorageExcess | undefined {
  const limited = [...pod.spec.containers, ...initContainersOf(pod).filter(isSidecar)];
  for (const { name, logs, rootfs } of containers) {
    const text = limited.find((container) => container.name === name)?.resources?.limits?.[STORAGE];
    const limit = bytes(text);
    const used = (logs?.usedBytes ?? 0) + (hasImageFs ? 0 : (rootfs?.usedBytes ?? 0));
    if (limit > 0 && used > limit) return { limit: "ephemeralcontainerfs.limit", message: containerStorageMessage(name, canonical(text)) };
  }
  return undefined;
}

/**
 * The pod's limit: the sum over the containers that have a limit, computed as podRequests computes requests. The text has the units of
 * the first limit. Source: component-helpers resource/helpers.go PodLimits.
 */
function podLimit(pod: NodePod): { readonly bytes: number; readonly text: string } | undefined {
  const limitOf = ({ resources }: ContainerSpec): string | undefined => resources?.limits?.[STORAGE];
  const inits = initContainersOf(pod);
  const all = [...pod.spec.containers, ...inits].flatMap((container) => limitOf(container) ?? []);
  const [first] = all;
  if (first === undefined) return undefined;
  let running = pod.spec.containers.reduce((sum, container) => sum + bytes(limitOf(container)), 0);
  let [sidecars, starting] = [0, 0];
  for (const container of inits) {
    const own = bytes(limitOf(container));
    starting = Math.max(starting, own + sidecars);
    if (!isSidecar(container)) continue;
    sidecars += own;
    running += own;
  }
  const sum = Math.max(running, starting);
  const isBinary = parseQuantity(first)?.format === "BinarySI";
  return { bytes: sum, text: all.length === 1 ? canonical(first) : isBinary ? binaryQuantity(sum) : canonical(`${sum}`) };
}

function bytes(text: string | undefined): number {
  return Number(numericQuantity(text ?? "0") ?? 0) / 1e9;
}

function canonical(text: string | undefined): string {
  return canonicalQuantity(text ?? "0") ?? "0";
}
