/** Writes a run's own responses and live reads, and settles its ops, in one step (informer §13 layers 2 and 4). */
import { maxResourceVersion, ownerIdIn } from "@deltaloop/kube/objects";
import type { OwnerId } from "@deltaloop/kube/objects";
import type { WriteThrough, WriteThroughResult, ItemOutcome, AnyTaken } from "../../ports/store.ts";
import { applyItem, countsMoved, putRow } from "./apply-item.ts";
import type { Step } from "./apply-item.ts";
import { assertDistinct } from "./apply.ts";
import { addTo, laneOfKey, queueOf, removeFrom } from "./data.ts";
import type { EpochData, MemoryData } from "./data.ts";
import { restamp, settle } from "./intents.ts";
import { createRing } from "./ring.ts";
import { addKey, finishRun, holds, isOfLineage } from "./work-queue.ts";

const ITEMS_MAX = 500;

/**
 * Rows are accepted even from a run without the lease, because their versions decide (A4–A7); intents only from the run with their token.
 * The run's key is enqueued if a row changed, and if a response was late or absent: the pod that this run created is gone or released, and
 * possibly no event of the stream enqueues the key. The same applies to items before a `retry`, because the caller resends only the others.
 */
export function writeThrough(data: MemoryData, run: AnyTaken, write: WriteThrough, nowMs: number): WriteThroughResult {
  assertDistinct(write.items, ITEMS_MAX);
  const { epoch } = data;
  if (!epoch || epoch.record.epoch !== run.epoch || !isOfLineage(epoch, run)) return { kind: "otherEpoch" };
  const resource = epoch.resources.get(write.resource);
  if (!resource) throw new Error(`write-through of ${write.resource}, which is not open`);
  const ring = createRing(epoch, nowMs);
  const queue = queueOf(epoch, run.controller);
  // Only the holder of the key has seen all that the replaced row lacks (WQ9).
  const isOwnStatus = write.ownStatus && holds(queue, run.key, run.token);
  const step: Step = {
    epoch,
    name: write.resource,
    resource,
    ring,
    nowMs,
    source: "own",
    ownKey: run.key,
    ...(isOwnStatus && { exempt: run }),
  };
  const outcomes: ItemOutcome[] = [];
  if (write.items.length > 0 && countsMoved(epoch, write.counts)) return { kind: "retry", index: 0, bells: [], outcomes };

  let moved = false;
  for (const item of write.items) {
    const outcome = applyItem(step, item);
    moved = outcome === "moved";
    if (outcome === "moved") break;
    outcomes.push(outcome);
    resource.written = maxResourceVersion(item.rv, resource.written ?? "0");
  }
  const flagged = moved ? 0 : write.gone.filter((pod) => flagGone(step, pod)).length;
  const owner = ownerIdIn(epoch.catalog, run.controller, run.key, write.ownerUid);
  if (!moved) settle(epoch, owner, run, write, nowMs);
  if (!moved) mark(epoch, write, owner);
  if (!moved) keepRecords(epoch, run, write, owner);
  restamp(epoch, owner, run.token, nowMs);
  const news = flagged > 0 || outcomes.some((outcome) => outcome !== "same");
  if (news && !isOwnStatus && addKey(queue, run.key, nowMs, nowMs)) ring.note(run.controller, run.key);
  if (moved) return { kind: "retry", index: outcomes.length, bells: ring.bells(), outcomes };
  const done = write.ends && finishRun(epoch, run, write.ends, nowMs);
  return { kind: "ok", bells: ring.bells(), outcomes, ...(done && { done }) };
}

/** Stores the marks of owners that the Store has with the given uid. */
function mark(epoch: EpochData, { marks = [], ownStatus, left = 0 }: WriteThrough, owner: OwnerId): void {
  for (const each of marks) {
    if (queueOf(epoch, each.controller).primaries.get(each.key)?.uid === each.uid)
      epoch.marks.set(ownerIdIn(epoch.catalog, each.controller, each.key, each.uid), Object.freeze({ ...each.mark }));
  }
  if (!ownStatus || left === 0) return;
  const since = (epoch.left.get(owner) ?? 0) - left;
  if (since > 0) epoch.left.set(owner, since);
  else epoch.left.delete(owner);
}

function keepRecords(epoch: EpochData, { controller, key }: AnyTaken, { records = [], ownerUid }: WriteThrough, owner: OwnerId): void {
  const isKnown = queueOf(epoch, controller).primaries.get(key)?.uid === ownerUid;
  for (const { id, record } of records) {
    if (record === undefined) removeFrom(epoch.records, owner, id);
    else if (isKnown) addTo(epoch.records, owner, id, Object.freeze({ ...record }));
  }
}

/**
 * For a DELETE whose response had no object: flags the row, so that readers treat the pod as deleted until the stream delivers its DELETED
 * event.
 */
function flagGone(step: Step, { key, uid }: WriteThrough["gone"][number]): boolean {
  const lane = laneOfKey(step.resource, key);
  const row = lane.rows.get(key);
  if (!row || row.uid !== uid || row.gone) return false;
  putRow(step, lane, { ...row, gone: true }, step.nowMs);
  return true;
}
