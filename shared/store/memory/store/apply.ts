/** Packs and manifests of a lane, from the applier (informer §11.3, §11.5). */
import { compareResourceVersions, infoIn, isCurrent } from "@deltaloop/kube/objects";
import type { View, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "../../ports/doorbells.ts";
import type { ApplyResult, IndexStore, IndexView, ItemChange, ItemOutcome, ManifestRow, PackHeader, Row } from "../../ports/store.ts";
import { HISTORY_LOST } from "../../store-options.ts";
import type { MemoryStoreOptions } from "./store-time.ts";
import { applyItem, countsMoved, isAsExpected } from "./apply-item.ts";
import type { Step } from "./apply-item.ts";
import { laneAt, laneOfKey, queueOf } from "./data.ts";
import type { EpochData, LaneData, MemoryData, ResourceData } from "./data.ts";
import { markSuspect } from "./epochs.ts";
import { removeForged, stands } from "./forged.ts";
import { commitSequence, isCommitted } from "./gate.ts";
import { readIndex } from "./index.ts";
import { createRing } from "./ring.ts";
import { syncAll } from "./sync-all.ts";
import type { Synced } from "./sync-all.ts";
import { fatesOf, tally } from "./tallies.ts";

const ITEMS_MAX = 100;

/** Result of the checks before a message is applied. */
type Entry =
  | { readonly kind: "enter"; readonly epoch: EpochData; readonly resource: ResourceData; readonly lane: LaneData }
  | Exclude<ApplyResult, { readonly kind: "applied" | "retry" }>;

/** Checks A1, A16, A2 and A3, in that order. `projection`: the caller's; undefined: the call computes no slices. */
function enter(
  data: MemoryData,
  pack: Omit<PackHeader, "kind">,
  items: readonly ItemChange[],
  { projection, nowMs }: { readonly projection?: number; readonly nowMs: number },
): Entry {
  const { epoch } = data;
  if (!epoch) return { kind: "noEpoch" };
  if (epoch.record.epoch !== pack.epoch) return { kind: "dropped", why: "epoch" };
  if (projection !== undefined && epoch.record.projection !== projection) return { kind: "otherProjection" };
  const resource = epoch.resources.get(pack.resource);
  if (!resource) return { kind: "notOpen" };
  const order = compareResourceVersions(pack.fence, resource.fence);
  if (order !== 0) return order < 0 ? { kind: "dropped", why: "fence" } : { kind: "notOpen" };
  const lane = laneAt(resource, pack.lane);
  if (isCommitted(lane, pack.sequence)) return { kind: "duplicate", bells: stillDirty(epoch, items, nowMs) };
  return { kind: "enter", epoch, resource, lane };
}

/** A3: a redelivered message may have lost its doorbells, so they are rung again for keys that are still dirty. */
function stillDirty(epoch: EpochData, items: readonly ItemChange[], nowMs: number): readonly Doorbell[] {
  const ring = createRing(epoch, nowMs);
  for (const { controller, key } of items.flatMap((item) => item.effects)) {
    if (queueOf(epoch, controller).ready.has(key)) ring.note(controller, key);
  }
  return ring.bells();
}

export function applyPack(
  data: MemoryData,
  pack: PackHeader,
  items: readonly ItemChange[],
  options: Parameters<IndexStore["applyPack"]>[2],
  { identity: { projection } }: Pick<MemoryStoreOptions, "identity">,
  nowMs: number,
): ApplyResult {
  assertDistinct(items, ITEMS_MAX);
  const entry = enter(data, pack, items, { projection, nowMs });
  if (entry.kind !== "enter") {
    tallyRefused(data, pack, items.length, entry);
    return entry;
  }
  const { epoch, resource, lane } = entry;
  const { after, part } = options;
  const isSentAgain = part !== undefined && part === lane.part; // a client that reconnects may send a call twice
  if (after !== undefined && after !== lane.part && !isSentAgain) return { kind: "setBack" };
  const ring = createRing(epoch, nowMs);
  const source = pack.kind === "L" ? "list" : "stream";
  const { listRV } = options;
  const step: Step = { epoch, name: pack.resource, resource, ring, nowMs, source, ...(listRV !== undefined && { listRV }) };
  const outcomes: ItemOutcome[] = [];
  if (items.length > 0 && countsMoved(epoch, options.counts)) return { kind: "retry", index: 0, bells: [], outcomes };
  let moved: number | undefined;
  for (const [index, item] of items.entries()) {
    const outcome = applyItem(step, item);
    if (outcome === "moved") {
      moved = index;
      break;
    }
    outcomes.push(outcome);
  }
  if (step.isHistoryLost === true) for (const name of data.catalog.views) markSuspect(data, name, HISTORY_LOST);
  tally(data, pack, moved ?? items.length, fatesOf(outcomes)); // items that will be redelivered are counted at their redelivery
  if (part !== undefined && (moved === undefined ? !options.commit : moved > 0)) lane.part = part;
  if (moved !== undefined) {
    const found = items[moved]?.unread ? rowsOf(data, pack.resource, items.slice(moved)) : undefined;
    return { kind: "retry", index: moved, bells: ring.bells(), outcomes, ...(found && { found }) };
  }
  if (options.commit) commitSequence(lane, pack.sequence, options.commit.watermark, nowMs);
  return { kind: "applied", bells: ring.bells(), outcomes };
}

/** IX10: the stored rows of `items`, the first of which is unread; undefined if they need a read in other slices. */
function rowsOf(data: MemoryData, resource: View, items: readonly ItemChange[]): Pick<IndexView, "rows" | "current"> | undefined {
  const rows = items.map(({ type, key, rv }) => ({ resource, key, ...(type === "put" && { put: rv }) }));
  const { forged, rows: older, current = [] } = readIndex(data, { rows });
  const owners = new Map(items.map(({ key, owner }) => [key, owner]));
  const isElsewhere = [...older, ...current].some(({ row }) => row.owner !== owners.get(row.key));
  return forged || isElsewhere ? undefined : { rows: older, current };
}

/** TY1: counts the items of acknowledged messages; `noEpoch`, `notOpen` and `otherProjection` are redelivered. */
function tallyRefused(data: MemoryData, pack: PackHeader, items: number, entry: Exclude<Entry, { readonly kind: "enter" }>): void {
  if (entry.kind === "duplicate") tally(data, pack, items, { duplicate: items });
  if (entry.kind === "dropped") tally(data, pack, items, entry.why === "fence" ? { fenced: items } : { otherEpoch: items });
}

/** Requires distinct keys, because the effects of a second item depend on the row that the first item changes. */
export function assertDistinct(items: readonly ItemChange[], itemsMax: number): void {
  if (items.length > itemsMax) throw new RangeError(`the call has ${items.length} items, more than ${itemsMax}`);
  if (new Set(items.map((item) => item.key)).size !== items.length) throw new RangeError("the call has two items with the same key");
}

export function stashManifest(
  data: MemoryData,
  pack: Omit<PackHeader, "kind">,
  rows: readonly ManifestRow[],
  nowMs: number,
): ApplyResult | { readonly kind: "early" } {
  const entry = enter(data, pack, [], { nowMs });
  if (entry.kind !== "enter") return entry;
  const { lane } = entry;
  if (pack.sequence !== lane.last + 1) return early(lane, nowMs);
  const before = lane.stash?.generation === pack.generation ? lane.stash : { rows: [], parts: 0 };
  lane.stash = { generation: pack.generation, rows: [...before.rows, ...rows.map((row) => ({ ...row }))], parts: before.parts + 1 };
  commitSequence(lane, pack.sequence, undefined, nowMs);
  return { kind: "applied", bells: [], outcomes: [] };
}

/**
 * A manifest (the message that ends a list) arrived before earlier messages of its lane: records the missing sequence numbers. On a FIFO
 * queue the manifest blocks the later messages of its lane, so no later message would record the gap (T40).
 */
function early(lane: LaneData, nowMs: number): { readonly kind: "early" } {
  lane.holeSinceMs ??= nowMs;
  return { kind: "early" };
}

export function readManifest(data: MemoryData, pack: Omit<PackHeader, "kind">): Awaited<ReturnType<IndexStore["readManifest"]>> {
  const resource = data.epoch?.record.epoch === pack.epoch ? data.epoch.resources.get(pack.resource) : undefined;
  const nothing = { rows: [], parts: 0 };
  if (!resource || resource.fence !== pack.fence) return nothing;
  const { stash } = laneAt(resource, pack.lane);
  return stash?.generation === pack.generation ? { rows: stash.rows.map((row) => ({ ...row })), parts: stash.parts } : nothing;
}

/** §11.5. Removes the lane's rows that are not in the list at `listRV`. If a listed object has no row, freezes the lane instead. */
export function applyManifest(
  data: MemoryData,
  pack: Omit<PackHeader, "kind">,
  manifest: Parameters<IndexStore["applyManifest"]>[1],
  options: MemoryStoreOptions,
  nowMs: number,
): Awaited<ReturnType<IndexStore["applyManifest"]>> {
  const sweep = manifest.sweep.map((item) => ({ ...item, rv: manifest.listRV }));
  const entry = enter(data, pack, sweep, { projection: options.identity.projection, nowMs });
  if (entry.kind !== "enter") return entry;
  const { epoch, resource, lane } = entry;
  if (pack.sequence !== lane.last + 1) return early(lane, nowMs);
  if (manifest.whole === false) return { kind: "incomplete" };
  for (const each of manifest.forged ?? []) {
    const row = lane.rows.get(each.key);
    if (stands(resource, row, [each])) removeForged(resource, lane, row, [each]);
  }

  const keys = manifest.rows.filter((row) => !isCovered(lane, row, manifest.listRV)).map((row) => row.key);
  if (keys.length > 0) {
    lane.frozen = true;
    lane.stash = undefined;
    replaceNeeded(resource, lane, keys);
    commitSequence(lane, pack.sequence, undefined, nowMs);
    return { kind: "needed", keys };
  }

  if (countsMoved(epoch, manifest.counts) || !isWholeSweep(resource, lane, manifest, sweep))
    return { kind: "retry", index: 0, bells: [], outcomes: [] };
  const ring = createRing(epoch, nowMs);
  const step: Step = { epoch, name: pack.resource, resource, ring, nowMs, source: "stream" };
  const outcomes = sweep.map((item) => {
    const outcome = applyItem(step, item);
    if (outcome === "moved") throw new Error(`${item.key} changed its slice during one call`);
    return outcome;
  });
  tally(data, pack, sweep.length, fatesOf(outcomes));
  lane.frozen = false;
  lane.stash = undefined;
  replaceNeeded(resource, lane, []);
  lane.generation = Math.max(lane.generation, pack.generation);
  commitSequence(lane, pack.sequence, manifest.listRV, nowMs);
  reachGeneration({ ...data, epoch }, pack.resource, resource, step, options);
  return { kind: "applied", bells: ring.bells(), outcomes };
}

/** Whether a listed object is cached at this or a later version, or was deleted after the list (IX9). */
function isCovered(lane: LaneData, listed: ManifestRow, listRV: string): boolean {
  const row = lane.rows.get(listed.key);
  if (row) return isCurrent(row.rv, listed.rv, listRV);
  const tombstone = lane.tombstones.get(listed.key);
  return tombstone !== undefined && tombstone !== listed.rv && isCurrent(tombstone, listed.rv, listRV);
}

/** Whether `sweep` deletes exactly the cached rows that are absent from the list and not newer than it, as the caller read them. */
function isWholeSweep(
  resource: ResourceData,
  lane: LaneData,
  manifest: Parameters<IndexStore["applyManifest"]>[1],
  sweep: readonly ItemChange[],
): boolean {
  const listed = new Set(manifest.rows.map((row) => row.key));
  const zombies = [...lane.rows.values()].filter((row) => !listed.has(row.key) && compareResourceVersions(row.rv, manifest.listRV) <= 0);
  const swept = new Map(sweep.map((item) => [item.key, item]));
  const isWhole = zombies.every((row) => swept.has(row.key));
  return (
    isWhole && sweep.every((item) => (item.forged ? stands(resource, lane.rows.get(item.key), item.forged) : isSwept(lane, item, zombies)))
  );
}

function isSwept(lane: LaneData, item: ItemChange, zombies: readonly Row[]): boolean {
  return zombies.some(({ key }) => key === item.key) && isAsExpected(lane.rows.get(item.key), item.expected);
}

function replaceNeeded(resource: ResourceData, lane: LaneData, keys: readonly ObjectKey[]): void {
  for (const key of resource.needed) {
    if (laneOfKey(resource, key) === lane) resource.needed.delete(key);
  }
  for (const key of keys) resource.needed.add(key);
}

/** §11.5 step 4: enqueues all keys once every lane has applied the manifest of the first list, or of the first one that began after SUSPECT. */
function reachGeneration(store: Synced, name: View, resource: ResourceData, step: Step, options: MemoryStoreOptions): void {
  const reached = Math.min(...resource.lanes.map((lane) => lane.generation));
  if (reached <= resource.syncedGeneration) return;
  const isFirst = resource.syncedGeneration === 0;
  resource.syncedGeneration = reached;
  if (resource.state === "SUSPECT" ? reached <= resource.suspectGeneration : !isFirst) return;
  if (resource.state === "SUSPECT") resource.relistedMs = step.nowMs;
  resource.state = "SYNCED";
  resource.suspectReason = undefined;
  syncAll(
    store,
    store.epoch.catalog.controllers.filter((controller) => infoIn(store.epoch.catalog, controller).reads.includes(name)),
    step.ring,
    options,
    step.nowMs,
  );
}
