/**
 * A14 in memory. Memory has no other writer, so there are no MACs: a test or simulation marks a location as forged, which then counts as a
 *     location with an invalid MAC.
 */
import type { ObjectKey, View } from "@deltaloop/kube/objects";
import type { Forged, Row } from "../../ports/store.ts";
import { laneOfKey, removeFrom, sliceName } from "./data.ts";
import type { LaneData, MemoryData, ResourceData } from "./data.ts";
import { splitKey } from "@deltaloop/kube/objects";

/** A flag `gone` is trusted for this long. */
const GONE_MS_MAX = 60_000;

/** For tests: marks the text at a location as forged, or adds a forged text there. */
export function spoil({ epoch }: MemoryData, forged: Forged): void {
  epoch?.resources.get(forged.resource)?.forged.set(placeOf(forged), forged);
}

function placeOf({ where, slice = "", key }: Forged): string {
  return `${where} ${slice} ${key}`;
}

export function forgedRow(resource: ResourceData, key: ObjectKey): Forged | undefined {
  return resource.forged.get(`row  ${key}`);
}

export function forgedTombstone(resource: ResourceData, key: ObjectKey): Forged | undefined {
  return resource.forged.get(`tombstone  ${key}`);
}

export function forgedEntry(resource: ResourceData, row: Row): Forged | undefined {
  return resource.forged.get(`entry ${sliceName(row.owner, splitKey(row.key).namespace)} ${row.key}`);
}

/** Returns the rows and the forged values of a slice. If `nowMs` is absent, a flag `gone` is trusted at any age. */
export function openSlice(
  name: View,
  resource: ResourceData | undefined,
  slice: string,
  rows: readonly Row[],
  nowMs?: number,
): { readonly rows: readonly Row[]; readonly forged: readonly Forged[] } {
  if (!resource) return { rows: [], forged: [] };
  const stale = rows.filter((row) => row.gone && nowMs !== undefined && isStale(resource, row, nowMs));
  const planted = [...resource.forged.values()].filter((each) => each.where === "entry" && each.slice === slice);
  if (stale.length + planted.length === 0) return { rows, forged: [] };
  const bad = new Set([...stale, ...planted].map(({ key }) => key));
  return {
    rows: rows.filter(({ key }) => !bad.has(key)),
    forged: [
      ...planted.filter(({ text }) => text !== ""),
      ...stale.map(({ key }) => ({ resource: name, key, where: "entry", slice, text: GONE }) as const),
    ],
  };
}

const GONE = "gone";

function isStale(resource: ResourceData, row: Row, nowMs: number): boolean {
  return !(Math.abs(nowMs - (resource.goneSinceMs.get(row.key) ?? -Infinity)) <= GONE_MS_MAX);
}

/** Whether all forged values are still stored unchanged. */
export function stands(resource: ResourceData, row: Row | undefined, forged: readonly Forged[]): boolean {
  return forged.every((each) => (each.text === GONE ? row?.gone === true : resource.forged.has(placeOf(each))));
}

/** Removes the forged texts, and the row if it is one of them. */
export function removeForged(resource: ResourceData, lane: LaneData, row: Row | undefined, forged: readonly Forged[]): Row | undefined {
  let left = row;
  for (const each of forged) {
    resource.forged.delete(placeOf(each));
    if (each.where === "tombstone") lane.tombstones.delete(each.key);
    if (each.where !== "row" || !row) continue;
    lane.rows.delete(row.key);
    const { namespace } = splitKey(row.key);
    removeFrom(resource.slices, sliceName(row.owner, namespace), row.key);
    removeFrom(resource.namespaces, namespace, row.key);
    left = undefined;
  }
  return left;
}

/** A new row replaces the forged one. */
export function overwrite(resource: ResourceData, row: Row): void {
  if (resource.forged.size === 0) return;
  resource.forged.delete(`row  ${row.key}`);
  resource.forged.delete(`entry ${sliceName(row.owner, splitKey(row.key).namespace)} ${row.key}`);
}

/** All forged locations of a lane: rows and tombstones. */
export function forgedInLane(resource: ResourceData, lane: LaneData): readonly Forged[] {
  return [...resource.forged.values()].filter(({ where, key }) => where !== "entry" && laneOfKey(resource, key) === lane);
}
