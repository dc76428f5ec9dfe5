/**
 * Selects the images to remove in garbage collection (node-agent §16.4).
 *
 * IG1 pinned images, the sandbox image and images that any container uses are never removed.
 * IG2 images first seen less than `minAgeMs` ago are not removed for space: the container may not exist yet.
 * IG3 first-seen and last-used times are in memory only, as in upstream: after an agent start, all images are new.
 *
 * Source: pkg/kubelet/images/image_gc_manager.go. Differs from upstream: no image volumes and no runtime classes of images; keeps the
 * sandbox image of runtimes that pin nothing (containerd before 1.7).
 */
import type { Container, Image, StringMap } from "../../ports/cri-types.ts";
import type { DiskSpace } from "../../ports/node-files.ts";
import type { ImageGcPolicy } from "../types/node-options.ts";

export interface ImageRecord {
  readonly id: string;
  readonly firstSeenMs: number;
  /** Absent if the image has not been used since this process started. */
  readonly lastUsedMs?: number;
  readonly sizeBytes: number;
  /** Whether the image must be kept (IG1). */
  readonly isKept: boolean;
}

export interface DetectedImages {
  readonly images: readonly Image[];
  readonly containers: readonly Container[];
  /** Name, digest or id of the sandbox image. */
  readonly sandboxImage: string | undefined;
  readonly nowMs: number;
}

export type ImageRecords = ReadonlyMap<string, ImageRecord>;

/** Returns the images that are present, with their recorded times. */
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

/** containerd's configured sandbox image; undefined for other runtimes. Source: containerd pkg/cri/server/status.go. */
export function sandboxImageOf(statusInfo: StringMap): string | undefined {
  try {
    const { sandboxImage } = JSON.parse(statusInfo["config"] ?? "{}") as { readonly sandboxImage?: unknown };
    return typeof sandboxImage === "string" ? sandboxImage : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the removable images in the order of removal: least recently used first; images that were never used, by first-seen time. */
export function evictionOrder(records: ImageRecords): readonly ImageRecord[] {
  const lastUsed = ({ lastUsedMs = -Infinity }: ImageRecord): number => lastUsedMs;
  return [...records.values()]
    .filter(({ isKept }) => !isKept)
    .toSorted((a, b) => (lastUsed(a) === lastUsed(b) ? a.firstSeenMs - b.firstSeenMs : lastUsed(a) - lastUsed(b)));
}

/** Whether the image has been unused for `maxAgeMs`; false until this process has run for that long. */
export function isExpired({ lastUsedMs = 0 }: ImageRecord, { maxAgeMs = 0 }: ImageGcPolicy, time: GcTime): boolean {
  return maxAgeMs > 0 && time.nowMs - time.beganMs > maxAgeMs && time.nowMs - lastUsedMs > maxAgeMs;
}

export interface GcTime {
  readonly nowMs: number;
  /** The time at which image garbage collection started. */
  readonly beganMs: number;
}

/** Whether the image may be removed to free space (IG2). */
export function isOldEnough({ firstSeenMs }: ImageRecord, { minAgeMs }: ImageGcPolicy, { nowMs }: GcTime): boolean {
  return nowMs - firstSeenMs >= minAgeMs;
}

/**
 * Returns the number of bytes to free to reach `lowThresholdPercent`; 0 if the usage is below `highThresholdPercent`.
 *
 *     high 90, low 80: 1000 bytes with 150 free → 0     with 100 free → 100     with 50 free → 150
 */
export function bytesToFree(space: DiskSpace, { highThresholdPercent, lowThresholdPercent }: ImageGcPolicy): number {
  if (usedPercent(space) < highThresholdPercent) return 0;
  return Math.trunc((space.capacityBytes * (100 - lowThresholdPercent)) / 100) - Math.min(space.availableBytes, space.capacityBytes);
}

/** Used space in percent, rounded up. */
function usedPercent({ capacityBytes, availableBytes }: DiskSpace): number {
  return 100 - Math.trunc((Math.min(availableBytes, capacityBytes) * 100) / capacityBytes);
}

/** Upstream's message. */
export function tooLittleFreed(space: DiskSpace, freedBytes: number): string {
  return (
    `Insufficient free disk space on the node's image filesystem (${usedPercent(space)}% of ${sizeText(space.capacityBytes)} used). ` +
    `Failed to free sufficient space by deleting unused images (freed ${freedBytes} bytes). ` +
    "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
  );
}

/** Formats bytes: `512 B`, `1.5 KiB`, `9.8 GiB`. */
function sizeText(bytes: number): string {
  const unit = ["KiB", "MiB", "GiB", "TiB"].findIndex((_, i) => bytes < 1024 ** (i + 2));
  if (bytes < 1024) return `${bytes} B`;
  const [power, name] = unit === -1 ? [4, "TiB"] : [unit + 1, ["KiB", "MiB", "GiB", "TiB"][unit]];
  return `${(bytes / 1024 ** power).toFixed(1)} ${name}`;
}
