/** What a node frees of its own before a pod goes (node-agent §14.5). */
import type { Disks, Signal } from "../types/eviction-thresholds.ts";

/** Dead containers of pods that have ended; images that nobody uses. */
export type Reclaimer = "containers" | "images";

/**
 *     one disk          nodefs, imagefs, containerfs: containers, images
 *     images apart      nodefs: nothing               imagefs, containerfs: containers, images
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
