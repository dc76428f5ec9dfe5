/** Reads of the index. Rows are frozen where they are made, so they are handed out as they are. */
import { compareResourceVersions } from "../../api/resource-version.ts";
import type { CachedResource } from "../../api/resources.ts";
import type { IndexRequest, IndexView, Row, SliceRef } from "../../ports/store.ts";
import { laneOfKey, readSlice, sliceName, sortedRows } from "./data.ts";
import type { MemoryData } from "./data.ts";

export function readIndex({ epoch }: MemoryData, request: IndexRequest): IndexView {
  const counted = new Map(
    [...(request.counts ?? []), ...(request.primaries ?? [])].map(({ resource, namespace }) => [
      `${resource} ${namespace}`,
      { resource, namespace },
    ]),
  );
  const found = (request.rows ?? []).flatMap(({ resource, key, put }) => {
    const data = epoch?.resources.get(resource);
    const row = data && laneOfKey(data, key).rows.get(key);
    return row ? [{ resource, row, current: put !== undefined && compareResourceVersions(row.rv, put) >= 0 }] : [];
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
      rows: sortedRows(epoch?.resources.get(resource)?.namespaces.get(namespace)),
    })),
  };
}

export function readSlices({ epoch }: MemoryData, slices: readonly SliceRef[]): readonly (readonly Row[])[] {
  return slices.map((slice) =>
    readSlice(epoch?.resources.get(slice.resource), "owner" in slice ? slice.owner : sliceName(undefined, slice.orphansOf)),
  );
}

export function readLane({ epoch }: MemoryData, name: CachedResource, lane: number): readonly Omit<Row, "object">[] {
  const rows = sortedRows(epoch?.resources.get(name)?.lanes[lane]?.rows);
  return rows.map(withoutObject);
}

function withoutObject({ key, uid, rv, owner, gone }: Row): Omit<Row, "object"> {
  return { key, uid, rv, ...(owner !== undefined && { owner }), gone };
}
