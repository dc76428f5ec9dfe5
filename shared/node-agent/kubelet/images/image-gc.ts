/**
 * Which images nobody needs any more, and how many of them must go (node-agent §16.4).
 *
 * IG1 an image that a container names, running or dead, that the runtime has pinned, or that it makes sandboxes of, never goes.
 * IG2 one that was first seen less than `minAgeMs` ago does not go for want of space: it was pulled for a container that is yet to be made.
 * IG3 when each was first seen and last used is known to this process alone, as upstream has it: after a start all are new.
 *
 * Source: pkg/kubelet/images/image_gc_manager.go. Differs from upstream: images mounted as volumes and runtime classes of images are not built;
 * the sandboxes' image of a runtime that pins nothing, as containerd before 1.7, stays, too.
 */
import type { Container, Image, StringMap } from "../../ports/cri-types.ts";
import type { DiskSpace } from "../../ports/node-files.ts";
import type { ImageGcPolicy } from "../types/node-options.ts";

export interface ImageRecord {
  readonly id: string;
  readonly firstSeenMs: number;
  /** Absent: no container had it since this process began. */
  readonly lastUsedMs?: number;
  readonly sizeBytes: number;
  /** IG1. */
  readonly isKept: boolean;
}

export interface DetectedImages {
  readonly images: readonly Image[];
  readonly containers: readonly Container[];
  /** By name, digest or id. */
  readonly sandboxImage: string | undefined;
  readonly nowMs: number;
}

export type ImageRecords = ReadonlyMap<string, ImageRecord>;

/** What is there now, with what is remembered of it. */
export function detectImages(records: ImageRecords, { images, containers, sandboxImage, nowMs }: DetectedImages): ImageRecords {
  const used = new Set(containers.map(({ imageId, imageRef }) => imageId ?? imageRef));
  return new Map(
    images.map(({ id, sizeBytes, pinned, repoTags, repoDigests }) => {
      const { firstSeenMs = nowMs, lastUsedMs } = records.get(id) ?? {};
      const isUsed = used.has(id);
      const last = isUsed ? nowMs : lastUsedMs;
      const isOfSandboxes = sandboxImage !== undefined && [id, ...repoTags, ...repoDigests].includes(sandboxImage);
      const isKept = isUsed || pinned || isOfSandboxes;
      return [id, { id, firstSeenMs, ...(last !== undefined && { lastUsedMs: last }), sizeBytes, isKept }];
    }),
  );
}

/** What containerd makes sandboxes of, by its own account; undefined of a runtime that does not say. Source: containerd pkg/cri/server/status.go. */
export function sandboxImageOf(statusInfo: StringMap): string | undefined {
  try {
    const { sandboxImage } = JSON.parse(statusInfo["config"] ?? "{}") as { readonly sandboxImage?: unknown };
    return typeof sandboxImage === "string" ? sandboxImage : undefined;
  } catch {
    return undefined;
  }
}

/** Those that may go: the one that was not used for longest first, of two that never were the one that was seen first. */
export function evictionOrder(records: ImageRecords): readonly ImageRecord[] {
  const lastUsed = ({ lastUsedMs = -Infinity }: ImageRecord): number => lastUsedMs;
  return [...records.values()]
    .filter(({ isKept }) => !isKept)
    .toSorted((a, b) => (lastUsed(a) === lastUsed(b) ? a.firstSeenMs - b.firstSeenMs : lastUsed(a) - lastUsed(b)));
}

/** Not used for longer than `maxAgeMs`, or never. Nothing goes so before this process is older than that itself. */
export function isExpired({ lastUsedMs = 0 }: ImageRecord, { maxAgeMs = 0 }: ImageGcPolicy, time: GcTime): boolean {
  return maxAgeMs > 0 && time.nowMs - time.beganMs > maxAgeMs && time.nowMs - lastUsedMs > maxAgeMs;
}

export interface GcTime {
  readonly nowMs: number;
  /** When this process began to look after images. */
  readonly beganMs: number;
}

/** IG2. */
export function isOldEnough({ firstSeenMs }: ImageRecord, { minAgeMs }: ImageGcPolicy, { nowMs }: GcTime): boolean {
  return nowMs - firstSeenMs >= minAgeMs;
}

/**
 * Bytes to free so that the file system is filled to `lowThresholdPercent` only; 0 below `highThresholdPercent`.
 *
 *     high 90, low 80: 1000 bytes with 150 free → 0     with 100 free → 100     with 50 free → 150
 */
export function bytesToFree(space: DiskSpace, { highThresholdPercent, lowThresholdPercent }: ImageGcPolicy): number {
  if (usedPercent(space) < highThresholdPercent) return 0;
  return Math.trunc((space.capacityBytes * (100 - lowThresholdPercent)) / 100) - Math.min(space.availableBytes, space.capacityBytes);
}

/** In whole percent, rounded up. */
function usedPercent({ capacityBytes, availableBytes }: DiskSpace): number {
  return 100 - Math.trunc((Math.min(availableBytes, capacityBytes) * 100) / capacityBytes);
}

/** Upstream's words. */
export function tooLittleFreed(space: DiskSpace, freedBytes: number): string {
  return (
    `Insufficient free disk space on the node's image filesystem (${usedPercent(space)}% of ${sizeText(space.capacityBytes)} used). ` +
    `Failed to free sufficient space by deleting unused images (freed ${freedBytes} bytes). ` +
    "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
  );
}

/** `512 B`, `1.5 KiB`, `9.8 GiB`. */
function sizeText(bytes: number): string {
  const unit = ["KiB", "MiB", "GiB", "TiB"].findIndex((_, i) => bytes < 1024 ** (i + 2));
  if (bytes < 1024) return `${bytes} B`;
  const [power, name] = unit === -1 ? [4, "TiB"] : [unit + 1, ["KiB", "MiB", "GiB", "TiB"][unit]];
  return `${(bytes / 1024 ** power).toFixed(1)} ${name}`;
}
