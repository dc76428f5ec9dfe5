/**
 * Tombstones of a lane: the versions of deleted objects, so that an older put does not restore a deleted object. Redis:
 * scripts/lib/index.lua.
 */
import { compareResourceVersions } from "@deltaloop/kube/objects";
import type { ItemChange } from "../../ports/index-store.ts";
import type { LaneData } from "./data.ts";

/** A9: a delete above the watermark writes a tombstone, unless a newer one exists. */
export function writeTombstone(lane: LaneData, { key, rv }: Pick<ItemChange, "key" | "rv">): void {
  if (compareResourceVersions(rv, lane.watermark) <= 0) return;
  const tombstone = lane.tombstones.get(key);
  if (tombstone === undefined || compareResourceVersions(tombstone, rv) < 0) lane.tombstones.set(key, rv);
}

/** A12: removes the tombstones at or below the watermark. A6 rejects older puts there. */
export function dropTombstones(lane: LaneData): void {
  for (const [key, rv] of lane.tombstones) if (compareResourceVersions(rv, lane.watermark) <= 0) lane.tombstones.delete(key);
}
