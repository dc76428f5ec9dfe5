import type { Disks, Signal } from "../types/eviction-thresholds.ts";

/** `containers` removes dead containers of terminated pods; `images` removes unused images. */
export type Reclaimer = "containers" | "images";

/**
 * The node-level reclaim that precedes evictions (node-agent §14.5):
 *
 *     one disk          nodefs, imagefs, containerfs: containers, images
 *     image disk        nodefs: nothing               imagefs, containerfs: containers, images
 *     split             nodefs, containerfs: containers      imagefs: images
 *
 * Source: pkg/kubelet/eviction/helpers.go buildSignalToNodeReclaimFuncs.
 */
export function reclaimers(signal: Signal, { hasImageFs, splitsContainerFs }: Disks): readonly Reclaimer[] {
  const [disk] = signal.split(".");
  if (disk !== "nodefs" && disk !== "imagefs" && disk !== "containerfs") return [];
  if (!hasImageFs) return ["containers", "images"];
  if (splitsContainerFs) return disk === "imagefs" ? ["images"] : ["containers"];
  return disk === "nodefs" ? [] : ["containers", "images"];
}
