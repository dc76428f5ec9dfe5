/** Reads of the index. Rows are frozen when created, so they are returned without a copy. */
import { checkListed, isCurrent, splitKey } from "@deltaloop/kube/objects";
import type { View, ObjectKey } from "@deltaloop/kube/objects";
import type { CachedEntry, Forged, Ghost, IndexRequest, IndexStore, IndexView, Row, SliceRef } from "../../ports/store.ts";
import { ForgedRowsError } from "../../ports/errors.ts";
import { forgedEntry, forgedInLane, forgedRow, forgedTombstone, openSlice } from "./forged.ts";
import { lanesOf } from "../../lane.ts";
import { laneOfKey, readSlice, sliceName, sortedRows } from "./data.ts";
import type { MemoryData, ResourceData } from "./data.ts";

export function readIndex({ catalog, epoch }: MemoryData, request: IndexRequest): IndexView {
  for (const { resource } of request.primaries ?? []) checkListed(catalog, resource);
  const counted = new Map(
    [...(request.counts ?? []), ...(request.primaries ?? [])].map(({ resource, namespace }) => [
      `${resource} ${namespace}`,
      { resource, namespace },
    ]),
  );
  const forged: Forged[] = [];
  const found = (request.rows ?? []).flatMap(({ resource, key, put, listRV }) => {
    const data = epoch?.resources.get(resource);
    const row = data && laneOfKey(data, key).rows.get(key);
    const bad =
      data && [forgedRow(data, key), forgedTombstone(data, key), row && forgedEntry(data, row)].filter((each) => each !== undefined);
    forged.push(...(bad ?? []));
    if (bad?.some(({ where }) => where !== "tombstone")) return [];
    return row ? [{ resource, row, current: put !== undefined && isCurrent(row.rv, put, listRV) }] : [];
  });
  return {
    counts: [...counted.values()].map(({ resource, namespace }) => ({
      resource,
      namespace,
      count: epoch?.resources.get(resource)?.counts.get(namespace) ?? 0,
    })),
    rows: found.filter(({ current }) => !current).map(({ resource, row }) => ({ resource, row })),
    current: found.filter(({ current }) => current).map(({ resource, row }) => ({ resource, row: withoutObject(row) })),
    primaries: (request.primaries ?? []).map(({ resource, namespace }) => ({
      resource,
      namespace,
      rows: believed(epoch?.resources.get(resource), sortedRows(epoch?.resources.get(resource)?.namespaces.get(namespace)), forged),
    })),
    ...(forged.length > 0 && { forged }),
  };
}

export function readSlices({ epoch }: MemoryData, slices: readonly SliceRef[]): readonly (readonly Row[])[] {
  const opened = slices.map((slice) => {
    const resource = epoch?.resources.get(slice.resource);
    const name = "owner" in slice ? slice.owner : sliceName(undefined, slice.orphansOf);
    return openSlice(slice.resource, resource, name, readSlice(resource, name));
  });
  const forged = opened.flatMap((slice) => slice.forged);
  if (forged.length > 0) throw new ForgedRowsError(forged);
  return opened.map(({ rows }) => rows);
}

/** Returns the rows of primaries whose entries are not forged. */
function believed(resource: ResourceData | undefined, rows: readonly Row[], forged: Forged[]): readonly Row[] {
  if (!resource || resource.forged.size === 0) return rows;
  return rows.filter((row) => {
    const bad = forgedEntry(resource, row);
    if (bad) forged.push(bad);
    return !bad;
  });
}

export function readLane({ epoch }: MemoryData, name: View, number: number): Awaited<ReturnType<IndexStore["readLane"]>> {
  const resource = epoch?.resources.get(name);
  const lane = resource?.lanes[number];
  const lanes = resource?.lanes.length ?? lanesOf(name);
  if (!resource || !lane) return { rows: [], forged: [], watermark: "0", lanes };
  const rows = sortedRows(lane.rows).filter((row) => !forgedRow(resource, row.key));
  return { rows: rows.map(withoutObject), forged: forgedInLane(resource, lane), watermark: lane.watermark, lanes };
}

/** Reads entries. In memory a row and its entry are one value, which is either written by the Store or forged. */
export function readEntries({ epoch }: MemoryData, name: View, keys: readonly ObjectKey[]): readonly CachedEntry[] {
  const resource = epoch?.resources.get(name);
  if (!resource) return [];
  return keys.flatMap((key): readonly CachedEntry[] => {
    const row = laneOfKey(resource, key).rows.get(key);
    const stands = forgedRow(resource, key) ?? (row && forgedEntry(resource, row));
    if (stands) return [{ key, stands }];
    if (!row) return [];
    return [{ key, row, stands: { resource: name, key, where: "entry", slice: sliceName(row.owner, splitKey(key).namespace), text: "" } }];
  });
}

export function readGhosts({ epoch }: MemoryData, name: View): readonly Ghost[] {
  const resource = epoch?.resources.get(name);
  const planted = [...(resource?.forged.values() ?? [])].filter(({ where, text }) => where === "entry" && text !== "");
  return planted.filter(({ key }) => resource && !laneOfKey(resource, key).rows.has(key)).map((stands) => ({ stands }));
}

function withoutObject({ key, uid, rv, owner, gone }: Row): Omit<Row, "object"> {
  return { key, uid, rv, ...(owner !== undefined && { owner }), gone };
}
