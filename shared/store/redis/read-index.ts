/** Implements `readIndex`: look-ups of the index by key and by namespace (informer §11.3). */
import { laneOf } from "../lane.ts";
import type { OwnerId, View, ObjectKey } from "@deltaloop/kube/objects";
import { checkListed, isCurrent, splitKey } from "@deltaloop/kube/objects";
import type { CachedEntry, Forged, IndexRequest, IndexView, NamespaceCount, Row } from "../ports/store.ts";
import { parsePrimary } from "./changes.ts";
import { asList, asNumber, asPairs, asText } from "./connection.ts";
import type { Reply } from "./connection.ts";
import type { Context } from "./context.ts";
import { sliceName } from "./keys.ts";
import type { Seal } from "./rows.ts";
import { isGenuineTombstone, openPlaced, openRow } from "./rows.ts";

/**
 * Rounds in which an object may move to another slice between the two halves of a read. After that the object counts as absent, which the
 * comparison in `applyPack` detects.
 */
const READ_ROUNDS_MAX = 4;

interface Wanted {
  readonly resource: View;
  readonly key: ObjectKey;
  readonly put?: string;
  readonly listRV?: string;
  /** Position in the result. */
  readonly index: number;
}

interface Place {
  readonly resource: View;
  readonly key: ObjectKey;
  readonly owner: OwnerId | undefined;
}

interface FoundRow extends Place, Wanted {
  readonly row: Omit<Row, "object">;
}

/**
 * Reads counts and rows first, then objects from the slices that the rows name; objects that moved are read again. If all rows are current,
 * as for own writes, the first half suffices.
 */
export async function readIndex(context: Context, request: IndexRequest): Promise<IndexView> {
  const namespaces = request.primaries ?? [];
  const wantedCounts = unique([...(request.counts ?? []), ...namespaces].map(({ resource, namespace }) => ({ resource, namespace })));
  const rows: (IndexView["rows"][number] | undefined)[] = [];
  const current: NonNullable<IndexView["current"]>[number][] = [];
  const primaries = namespaces.map(({ resource, namespace }) => ({ resource, namespace, rows: [] as Row[] }));
  const forged: Forged[] = [];
  let counts: readonly NamespaceCount[] | undefined;
  let missing: readonly Forged[] = [];
  let wanted = (request.rows ?? []).map((row, index) => ({ ...row, index }));
  for (let round = 0; round < READ_ROUNDS_MAX; round++) {
    const first = await readPlaces(context, wanted, round === 0 ? wantedCounts : [], round === 0 ? namespaces : []);
    counts ??= wantedCounts.map(({ resource, namespace }, i) => ({ resource, namespace, count: first?.counts[i] ?? 0 }));
    if (!first) break;
    forged.push(...first.forged);
    const stands = ({ put, listRV, row }: (typeof first.rows)[number]): boolean => put !== undefined && isCurrent(row.rv, put, listRV);
    current.push(...first.rows.filter(stands).map(({ resource, row }) => ({ resource, row })));
    const older = first.rows.filter((place) => !stands(place));
    const places = [...older, ...first.primaries.flat()];
    const found = await readObjects(context, places);
    forged.push(...found.flatMap((each) => (each.kind === "forged" ? [each.forged] : [])));
    older.forEach((place, i) => {
      const each = found[i];
      if (each?.kind === "row") rows[place.index] = { resource: place.resource, row: each.row };
    });
    let at = older.length;
    first.primaries.forEach((namespace, i) => {
      for (const each of found.slice(at, at + namespace.length)) if (each.kind === "row") primaries[i]?.rows.push(each.row);
      at += namespace.length;
    });
    // A primary that moved to another slice changed its namespace's count, so IX8 makes the caller's step return `retry`.
    wanted = older.filter((_, i) => found[i]?.kind === "missing");
    missing = older.flatMap((_, i) => (found[i]?.kind === "missing" ? [found[i].forged] : []));
    if (wanted.length === 0) break;
  }
  forged.push(...missing);
  return {
    rows: rows.filter((row) => row !== undefined),
    current,
    primaries: primaries.map(({ rows: each, ...rest }) => ({ ...rest, rows: each.toSorted(byKey) })),
    counts: counts ?? [],
    ...(forged.length > 0 && { forged }),
  };
}

/** Implements `readEntries`: reads rows first, then entries of the slices that they reference. */
export async function readEntries(context: Context, resource: View, keys: readonly ObjectKey[]): Promise<readonly CachedEntry[]> {
  const wanted = keys.map((key, index) => ({ resource, key, index }));
  const places = await readPlaces(context, wanted, [], []);
  if (!places) return [];
  const found = await readObjects(context, places.rows);
  const entries = places.rows.flatMap(({ key, row }, i): readonly CachedEntry[] => {
    const each = found[i];
    if (each?.kind !== "row") return each ? [{ key, stands: each.forged }] : [];
    const isOfRow = each.row.rv === row.rv && each.row.uid === row.uid;
    return [{ key, ...(isOfRow && { row: each.row }), stands: each.stands }];
  });
  return [...entries, ...places.forged.filter(({ where }) => where === "row").map((stands) => ({ key: stands.key, stands }))];
}

export async function readPlaces(
  context: Context,
  rows: readonly Wanted[],
  counts: readonly { readonly resource: View; readonly namespace: string }[],
  namespaces: readonly { readonly resource: View; readonly namespace: string }[],
): Promise<
  | {
      readonly counts: readonly number[];
      readonly rows: readonly FoundRow[];
      readonly primaries: readonly (readonly Place[])[];
      readonly forged: readonly Forged[];
    }
  | undefined
> {
  if (rows.length + counts.length + namespaces.length === 0) return { counts: [], rows: [], primaries: [], forged: [] };
  const resources = [...new Set(rows.map((row) => row.resource))];
  let order: Wanted[] = [];
  const answer = await context.runInCurrentEpoch((names) => {
    const table = context.keys("readIndex", {});
    const lanes = new Map<number, Wanted[]>();
    for (const row of rows) {
      const [, v, t] = names.lane(row.resource, laneOf(row.key, context.lanes(row.resource)));
      const slot = table.block([v, t]);
      const lane = lanes.get(slot);
      if (lane) lane.push(row);
      else lanes.set(slot, [row]);
    }
    order = [...lanes.values()].flat();
    return table.call(names.epoch, {
      resources: resources.map((name) => ({ name, metaSlot: table.slot(names.meta(name)), lanes: context.lanes(name) })),
      counts: counts.map(({ resource, namespace }) => ({ slot: table.slot(names.counts(resource)), namespace })),
      lanes: [...lanes].map(([rowsBase, lane]) => ({ rowsBase, rows: lane.length })),
      rows: order,
      namespaces: namespaces.map(({ resource, namespace }) => {
        const controller = checkListed(context.catalog, resource);
        return {
          primariesSlot: table.slot(names.primaries(resource, namespace)),
          ownersSlot: table.slot(names.queue(controller)[3]),
        };
      }),
    });
  });
  if (!answer) return undefined;
  const [, countReplies, rowReplies, namespaceReplies, tombstoneReplies] = answer.reply;
  const texts = asList(rowReplies);
  const seal = context.seal(answer.names.epoch);
  const forged = forgedTombstones(seal, order, asList(tombstoneReplies));
  return {
    counts: asList(countReplies).map(asNumber),
    rows: order.flatMap((row, i) => {
      const text = texts[i];
      if (typeof text !== "string") return [];
      const opened = openRow(seal, row.resource, row.key, text);
      if (opened.kind === "good") return [{ ...row, owner: opened.value.owner, row: opened.value }];
      forged.push({ resource: row.resource, key: row.key, where: "row", text });
      return [];
    }),
    primaries: asList(namespaceReplies).map((reply, i) => {
      const { resource = "replicasets", namespace = "" } = namespaces[i] ?? {};
      // The hash of a namespace's primaries (`k`) is not signed: ignore invalid keys in it, so that they cannot block a lane.
      const named = asPairs(reply).filter(([key]) => isKeyOf(namespace, key));
      return named.map(([key, u]) => ({ resource, key, owner: parsePrimary(context.catalog, u).owner }));
    }),
    forged,
  };
}

function isKeyOf(namespace: string, key: string): boolean {
  const [of, name, ...more] = key.split("/");
  return of === namespace && name !== undefined && name !== "" && more.length === 0;
}

/** Returns the forged tombstones among `tombstones`, a list of positions in `order`, each followed by the text. */
function forgedTombstones(seal: Seal, order: readonly Wanted[], tombstones: readonly Reply[]): Forged[] {
  const forged: Forged[] = [];
  for (let i = 0; i < tombstones.length; i += 2) {
    const wanted = order[asNumber(tombstones[i])];
    const text = asText(tombstones[i + 1]);
    if (wanted && !isGenuineTombstone(seal, wanted.resource, wanted.key, text))
      forged.push({ resource: wanted.resource, key: wanted.key, where: "tombstone", text });
  }
  return forged;
}

/** The content of a location. `missing` means that there is no value; after READ_ROUNDS_MAX rounds the location counts as forged. */
type Found =
  | { readonly kind: "row"; readonly row: Row; readonly stands: Forged }
  | { readonly kind: "forged" | "missing"; readonly forged: Forged };

/** Reads the objects at these locations, in order. */
async function readObjects(context: Context, places: readonly Place[]): Promise<readonly Found[]> {
  if (places.length === 0) return [];
  const slices = new Map<string, number[]>();
  places.forEach(({ resource, key, owner }, i) => {
    const slice = `${resource} ${sliceName(owner, splitKey(key).namespace)}`;
    const members = slices.get(slice);
    if (members) members.push(i);
    else slices.set(slice, [i]);
  });
  const answer = await context.runInCurrentEpoch((names) => {
    const groups = [...slices.values()];
    const table = context.keys("readEntries", {
      slices: groups.map(([i = 0]) => {
        const place = places[i];
        if (!place) throw new RangeError(`no entry at index ${i}`);
        return names.slice(place.resource, sliceName(place.owner, splitKey(place.key).namespace));
      }),
    });
    return table.call(names.epoch, {
      sizes: groups.map(({ length }) => ({ keys: length })),
      entries: groups.flat().map((i) => ({ key: places[i]?.key ?? "" })),
    });
  });
  const found: Found[] = places.map(({ resource, key, owner }) => ({
    kind: "missing",
    forged: { resource, key, where: "entry", slice: sliceName(owner, splitKey(key).namespace), text: "" },
  }));
  if (!answer) return found;
  const seal = context.seal(answer.names.epoch);
  [...slices.values()].flat().forEach((i, position) => {
    const place = places[i];
    const text = answer.reply[position + 1];
    const forged = found[i];
    if (!place || typeof text !== "string" || forged?.kind !== "missing") return;
    const row = openPlaced(seal, { ...place, slice: forged.forged.slice ?? "" }, place.key, text);
    const stands = { ...forged.forged, text };
    found[i] = row ? { kind: "row", row, stands } : { kind: "forged", forged: stands };
  });
  return found;
}

function unique<T extends { readonly resource: string; readonly namespace: string }>(list: readonly T[]): readonly T[] {
  return [...new Map(list.map((each) => [`${each.resource} ${each.namespace}`, each])).values()];
}

function byKey(a: Row, b: Row): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
}
