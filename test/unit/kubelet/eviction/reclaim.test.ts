// Would catch: images removed because of pressure on another disk, and a pod that is evicted although removing images would suffice.
import { expect, it } from "vitest";
import { reclaimers } from "../../../../shared/node-agent/kubelet/eviction/reclaim.ts";
import type { Disks, Signal } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";

const ONE: Disks = { hasImageFs: false, splitsContainerFs: false };
const APART: Disks = { hasImageFs: true, splitsContainerFs: false };
const SPLIT: Disks = { hasImageFs: true, splitsContainerFs: true };

it.each<{ readonly signal: Signal; readonly disks: Disks; readonly want: string }>([
  { signal: "memory.available", disks: ONE, want: "" },
  { signal: "pid.available", disks: APART, want: "" },
  { signal: "nodefs.available", disks: ONE, want: "containers images" },
  { signal: "containerfs.inodesFree", disks: ONE, want: "containers images" },
  { signal: "nodefs.inodesFree", disks: APART, want: "" },
  { signal: "imagefs.available", disks: APART, want: "containers images" },
  { signal: "containerfs.available", disks: APART, want: "containers images" },
  { signal: "nodefs.available", disks: SPLIT, want: "containers" },
  { signal: "containerfs.available", disks: SPLIT, want: "containers" },
  { signal: "imagefs.inodesFree", disks: SPLIT, want: "images" },
])("[node-agent 219] node-level reclaim for $signal with $disks: $want", ({ signal, disks, want }) => {
  expect(reclaimers(signal, disks).join(" ")).toBe(want);
});
