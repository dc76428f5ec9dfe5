/** Decides whether keys of a controller are handed out (informer §11.6), and keeps the state of lanes that this depends on (A11–A13). */
import { dropTombstones } from "./tombstones.ts";
import { compareResourceVersions, infoIn } from "@deltaloop/kube/objects";
import type { View, ControllerName } from "@deltaloop/kube/objects";
import type { EpochRecord, HeartbeatLane } from "../../ports/store.ts";
import { describeStop } from "../../ports/guard-store.ts";
import type { StoreIdentity } from "../../store-options.ts";
import { OTHER_PRIMARY, otherRelease } from "../../store-options.ts";
import { CLOCK_TRUST_MS } from "@deltaloop/base";
import { EPOCHS_MAX, EPOCHS_REASON, recentEpochs } from "../../ports/lineage.ts";
import { storeTime } from "./store-time.ts";
import type { MemoryStoreOptions } from "./store-time.ts";
import type { LaneData, MemoryData, ResourceData } from "./data.ts";
import { stopFor } from "./guard-store.ts";

/** Longest time for which a lane may have no message applied in sequence. Heartbeats arrive every 15 s. */
const SILENCE_MS_MAX = 60_000;
const CLOCK_SET_BACK = "the store's clock was set back: waiting for the next checkpoint";

/** Why the gate of `controller` is closed, as text for users; `undefined` when it is open. */
export function gateReason(
  data: Pick<MemoryData, "epoch" | "primary" | "guard" | "openedMs">,
  controller: ControllerName,
  options: MemoryStoreOptions,
): string | undefined {
  const { epoch, primary } = data;
  if (!epoch) return "there is no epoch";
  const { nowMs, uncheckedMs, sinceCheckedMs } = storeTime(data.epoch?.clock, options.clock.now());
  const stop = stopFor(data, options);
  if (stop) return describeStop(stop);
  if (recentEpochs(data.openedMs, nowMs) >= EPOCHS_MAX) return EPOCHS_REASON;
  if (sinceCheckedMs < -CLOCK_TRUST_MS) return CLOCK_SET_BACK;
  const foreign = identityReason(epoch.record, options.identity);
  if (foreign !== undefined) return foreign;
  const { release } = epoch.record;
  if (release !== undefined && options.releases?.includes(release) === false) return otherRelease(release, options.releases);
  for (const name of infoIn(epoch.catalog, controller).reads) {
    if ((epoch.resources.get(name)?.primary ?? primary) !== primary) return OTHER_PRIMARY;
    const reason = resourceReason(name, epoch.resources.get(name), options.holeLimitMs, uncheckedMs);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/** A build never reads data of another projection, digest or hash layout (T46). */
function identityReason(record: EpochRecord, identity: StoreIdentity): string | undefined {
  for (const part of ["projection", "digestPrefix", "hashLayout"] as const) {
    if (identity[part] !== "" && record[part] !== identity[part])
      return `the epoch has ${part} ${record[part]}, this build ${identity[part]}`;
  }
  return undefined;
}

function resourceReason(name: View, resource: ResourceData | undefined, holeLimitMs: number, nowMs: number): string | undefined {
  if (!resource || resource.state !== "SYNCED" || resource.syncedGeneration < 1) {
    const because = resource?.state === "SUSPECT" && resource.suspectReason !== undefined ? ` (${resource.suspectReason})` : "";
    return `${name}: ${resource?.state ?? "INIT"}${because}`;
  }
  for (const [number, lane] of resource.lanes.entries()) {
    if (lane.contiguousAtMs === undefined || nowMs - lane.contiguousAtMs > SILENCE_MS_MAX) {
      return `${name}: lane ${number} has been silent for more than ${SILENCE_MS_MAX} ms`;
    }
    if (lane.holeSinceMs !== undefined && nowMs - lane.holeSinceMs > holeLimitMs) {
      return `${name}: lane ${number} has had a hole in its sequence for more than ${holeLimitMs} ms`;
    }
  }
  return undefined;
}

/** A3: whether this sequence number has been committed before. */
export function isCommitted(lane: LaneData, sequence: number): boolean {
  return sequence <= lane.last || lane.holes.has(sequence);
}

/**
 * A11: the next sequence advances the lane, including the sequences behind a filled hole; a later sequence opens a hole. The age of a hole
 * restarts when it moves: an unordered queue nearly always has a hole, but each hole is short.
 */
export function commitSequence(lane: LaneData, sequence: number, watermark: string | undefined, nowMs: number): void {
  if (sequence !== lane.last + 1) {
    lane.holes.set(sequence, watermark);
    lane.holeSinceMs ??= nowMs;
    return;
  }
  lane.contiguousAtMs = nowMs;
  lane.last = sequence;
  raiseWatermark(lane, watermark);
  while (lane.holes.has(lane.last + 1)) {
    lane.last++;
    raiseWatermark(lane, lane.holes.get(lane.last));
    lane.holes.delete(lane.last);
  }
  lane.holeSinceMs = lane.holes.size > 0 ? nowMs : undefined;
}

/** HB3, HB4: a heartbeat of the lane's fence. @returns whether messages before it are missing */
export function applyHeartbeat(lane: LaneData, { sequence, rv }: Pick<HeartbeatLane, "sequence" | "rv">, nowMs: number): boolean {
  if (sequence > lane.last) lane.holeSinceMs ??= nowMs;
  if (sequence === lane.last) {
    lane.contiguousAtMs = nowMs;
    raiseWatermark(lane, rv);
  }
  return sequence > lane.last;
}

/**
 * A12: deletes at or below the watermark need no tombstone, because A6 applies. A13: the watermark does not move while the lane is frozen.
 */
function raiseWatermark(lane: LaneData, watermark: string | undefined): void {
  if (watermark === undefined || lane.frozen || compareResourceVersions(watermark, lane.watermark) <= 0) return;
  lane.watermark = watermark;
  dropTombstones(lane);
}
