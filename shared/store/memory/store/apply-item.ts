/**
 * Applies one object's change by the rules A4–A10, with all other changes of the same step (IX3).
 *
 * Order matters: stale items are detected before look-ups are compared, so a stale item needs no look-ups. Rows and intents change before
 * effects are applied, because effects use the uids and dependents after the change.
 */
import { deepFreeze } from "@deltaloop/base";
import {
  compareResourceVersions,
  controllerIn,
  isCurrent,
  maxResourceVersion,
  ownedSlices,
  ownerIdIn,
  splitKey,
} from "@deltaloop/kube/objects";
import type { View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Forged, ItemChange, ItemOutcome, NamespaceCount, Row } from "../../ports/store.ts";
import { LEFT_FIELD } from "../../decision-mark.ts";
import { addTo, laneOfKey, queueOf, removeFrom, sliceName } from "./data.ts";
import type { EpochData, LaneData, ResourceData } from "./data.ts";
import { writeTombstone } from "./tombstones.ts";
import { forgedRow, forgedTombstone, overwrite, removeForged, stands } from "./forged.ts";
import { lowerOp } from "./intents.ts";
import type { Ring } from "./ring.ts";
import { addKey, queueEffect } from "./work-queue.ts";

const PREDECESSORS_MAX = 64;

/** One call's step on one resource. */
export interface Step {
  readonly epoch: EpochData;
  readonly name: View;
  readonly resource: ResourceData;
  readonly ring: Ring;
  readonly nowMs: number;
  /** The key whose run writes through. */
  readonly ownKey?: ObjectKey;
  /** `stream`: a delta, or a delete of a manifest; `list`: a listed object; `own`: a response or live read of a run. */
  readonly source: "stream" | "list" | "own";
  /** The version of the list that contains the items (IX9). */
  readonly listRV?: string;
  /** Set when an item replaced a row or tombstone of a lost history (IX9). */
  isHistoryLost?: boolean;
  /** The primary whose own status write returned the items; this write does not enqueue the primary's key. */
  readonly exempt?: { readonly controller: ControllerName; readonly key: ObjectKey };
}

/** Applies one item. `moved` means that a look-up is outdated and nothing changed (IX8). */
export function applyItem(step: Step, item: ItemChange): ItemOutcome | "moved" {
  const lane = laneOfKey(step.resource, item.key);
  const row = lane.rows.get(item.key);
  if (item.forged) return putBack(step, lane, row, item, item.forged);
  if (item.unread && !isAsGuessed(step.resource, lane, row, item)) return "moved";
  if (item.type === "gone") return applyGone(step, lane, row, item);
  const dropped = item.type === "put" ? staleness(step, lane, row, item) : isNewer(row, item.rv);
  if (dropped) return dropped;
  if (!isAsExpected(row, item.expected)) return "moved";

  const before = row?.rv ?? lane.tombstones.get(item.key);
  if (item.type === "put" && before !== undefined && compareResourceVersions(before, item.rv) > 0) step.isHistoryLost = true;
  return replace(step, lane, row, item, row);
}

/** A14: replaces a value that has an invalid MAC with the object that was read live afterwards. A6 does not apply. */
function putBack(step: Step, lane: LaneData, found: Row | undefined, item: ItemChange, forged: readonly Forged[]): ItemOutcome | "moved" {
  if (!stands(step.resource, found, forged)) return "moved";
  const isForged = forged.some(({ where }) => where === "row");
  // a newer version was applied after the live read, so the caller must read again
  if (item.type === "put" && found && !isForged && compareResourceVersions(found.rv, item.rv) > 0) return "moved";
  const row = removeForged(step.resource, lane, found, forged);
  return replace(step, lane, row, item, undefined);
}

/** Replaces `row` by the item; a put inherits the flag of `before` (A7). */
function replace(step: Step, lane: LaneData, row: Row | undefined, item: ItemChange, before: Row | undefined): "changed" {
  if (row) removeRow(step, lane, row);
  if (item.type === "put") addRow(step, lane, before, item);
  else {
    step.resource.goneSinceMs.delete(item.key);
    writeTombstone(lane, item);
  }
  if (item.counted) countChange(step.resource, item.key);
  followPrimary(step, row, item);
  settle(step, item);
  return "changed";
}

/** Applies the effects of a changed row: settles intents and queues affected keys. */
function settle(step: Step, item: ItemChange): void {
  lowerAnswered(step, item);
  for (const effect of item.effects) queueEffect(step.epoch, effect, step.ring, step.nowMs, step.exempt);
}

/** Flags a row whose uid a live read did not find. Readers treat it as deleted until the stream confirms the delete. */
function applyGone(step: Step, lane: LaneData, row: Row | undefined, item: ItemChange): ItemOutcome | "moved" {
  if (!row || row.uid !== item.uid || row.gone) return "same";
  if (!isAsExpected(row, item.expected)) return "moved";
  putRow(step, lane, { ...row, gone: true }, step.nowMs);
  settle(step, item);
  return "changed";
}

/**
 * A4, A5, A6 and IX9: why a put is dropped, or undefined. A listed object at or below the watermark that has no row is accepted, because
 * its row was lost. A response is `late` if a newer row has another owner: the owner no longer controls the pod that the run created or
 * adopted. This does not apply to the run's own primary: after a restore of etcd, live reads of it stay older than its row.
 */
function staleness(step: Step, lane: LaneData, row: Row | undefined, item: ItemChange): ItemOutcome | undefined {
  if (row && !isCurrent(row.rv, item.rv, step.listRV)) return undefined;
  if (row) return step.source === "own" && row.owner !== item.owner && item.key !== step.ownKey ? "late" : "same";
  const tombstone = lane.tombstones.get(item.key);
  if (tombstone !== undefined && isCurrent(tombstone, item.rv, step.listRV)) return "late";
  return step.source !== "list" && compareResourceVersions(item.rv, lane.watermark) <= 0 ? "absent" : undefined;
}

/** A8: whether the row is newer than the delete. */
function isNewer(row: Row | undefined, rv: string): ItemOutcome | undefined {
  return row && compareResourceVersions(row.rv, rv) > 0 ? "same" : undefined;
}

/** IX10: whether an unread put may be applied: the key has neither row nor tombstone, or an equal row without a flag. */
function isAsGuessed(resource: ResourceData, lane: LaneData, row: Row | undefined, item: ItemChange): boolean {
  const { type, key, rv, uid, owner, expected } = item;
  if (type !== "put" || lane.tombstones.has(key) || forgedRow(resource, key) || forgedTombstone(resource, key)) return false;
  if (!row) return expected === undefined;
  return isAsExpected(row, { rv, uid, ...(owner !== undefined && { owner }) }) && !row.gone;
}

export function isAsExpected(row: Row | undefined, expected: ItemChange["expected"]): boolean {
  return row?.rv === expected?.rv && row?.uid === expected?.uid && row?.owner === expected?.owner;
}

/** IX8: namespace counts are compared once, at the start of a call; the call's own changes do not count. */
export function countsMoved(epoch: EpochData, counts: readonly NamespaceCount[]): boolean {
  return counts.some(({ resource, namespace, count }) => (epoch.resources.get(resource)?.counts.get(namespace) ?? 0) !== count);
}

/** A7: the flag `gone` stays while the uid is unchanged, unless IX9 replaces a newer row of a lost history. */
function addRow(step: Step, lane: LaneData, before: Row | undefined, item: ItemChange): void {
  if (!item.object) throw new TypeError(`the put of ${item.key} has no object`);
  const gone = before?.gone === true && before.uid === item.uid && compareResourceVersions(before.rv, item.rv) < 0;
  const sinceMs = gone ? step.resource.goneSinceMs.get(item.key) : undefined;
  const put: Row = {
    key: item.key,
    uid: item.uid,
    rv: item.rv,
    ...(item.owner !== undefined && { owner: item.owner }),
    gone,
    object: item.object as Row["object"], // the view determines the shape, which callers know
  };
  putRow(step, lane, put, sinceMs);
}

/** `goneSinceMs` is the time at which the row was flagged, if at all. */
export function putRow({ epoch, name, resource }: Step, lane: LaneData, row: Row, goneSinceMs: number | undefined): void {
  deepFreeze(row);
  overwrite(resource, row);
  if (goneSinceMs === undefined) resource.goneSinceMs.delete(row.key);
  else resource.goneSinceMs.set(row.key, goneSinceMs);
  const { namespace } = splitKey(row.key);
  lane.rows.set(row.key, row);
  addTo(resource.slices, sliceName(row.owner, namespace), row.key, row);
  if (controllerIn(epoch.catalog, name) !== undefined) addTo(resource.namespaces, namespace, row.key, row);
}

function removeRow({ resource }: Step, lane: LaneData, row: Row): void {
  const { namespace } = splitKey(row.key);
  lane.rows.delete(row.key);
  removeFrom(resource.slices, sliceName(row.owner, namespace), row.key);
  removeFrom(resource.namespaces, namespace, row.key);
}

function countChange(resource: ResourceData, key: ObjectKey): void {
  const { namespace } = splitKey(key);
  resource.counts.set(namespace, (resource.counts.get(namespace) ?? 0) + 1);
}

/** Updates the work queue's record of a primary; deletes intents when the object with their uid is deleted (IT4). */
function followPrimary(step: Step, before: Row | undefined, item: ItemChange): void {
  const { catalog } = step.epoch;
  const controller = controllerIn(catalog, step.name);
  if (controller === undefined) return;
  const queue = queueOf(step.epoch, controller);
  if (before && (item.type === "delete" || before.uid !== item.uid)) {
    const owner = ownerIdIn(catalog, controller, before.key, before.uid);
    step.epoch.intents.delete(owner);
    step.epoch.marks.delete(owner);
    step.epoch.left.delete(owner);
    step.epoch.drawn.delete(owner);
    step.epoch.records.delete(owner);
    notePredecessor(step.resource, item);
  }
  if (item.type === "put") {
    queue.primaries.set(item.key, { uid: item.uid, owner: item.owner, isOutside: item.isOutside === true });
    const owned = item.isOutside && item.expected === undefined ? ownedSlices(catalog, controller, item.key, item.uid) : [];
    const isOwner = owned.some(({ view, slice }) => step.epoch.resources.get(view)?.slices.has(slice));
    if (isOwner && addKey(queue, item.key, step.nowMs, step.nowMs)) step.ring.note(controller, item.key);
  } else {
    queue.primaries.delete(item.key);
    queue.endedAtMs.delete(item.key);
    queue.parked.delete(item.key);
    queue.failures.delete(item.key);
  }
}

/** The number of entries is bounded as in the scripts. The greatest version of the dropped entries then applies to every other key. */
function notePredecessor(resource: ResourceData, { key, rv }: ItemChange): void {
  const all = [...resource.predecessors, { key, rv }];
  const dropped = all.slice(0, -PREDECESSORS_MAX);
  resource.predecessors = all.slice(-PREDECESSORS_MAX);
  for (const each of dropped)
    resource.predecessorsFloor = resource.predecessorsFloor === "" ? each.rv : maxResourceVersion(resource.predecessorsFloor, each.rv);
}

/**
 * Settles intents. If the stream settles one, its key is enqueued, because a create or delete may be possible now; a run's own responses
 * enqueue nothing.
 */
function lowerAnswered(step: Step, item: ItemChange): void {
  for (const { owner, op } of item.lowers) {
    if (op === LEFT_FIELD) {
      if (step.epoch.marks.has(owner)) step.epoch.left.set(owner, (step.epoch.left.get(owner) ?? 0) + 1);
      continue;
    }
    const lowered = lowerOp(step.epoch, owner, op);
    if (!lowered || step.source === "own") continue;
    const queue = queueOf(step.epoch, lowered.controller);
    if (addKey(queue, lowered.key, step.nowMs, step.nowMs)) step.ring.note(lowered.controller, lowered.key);
  }
}
