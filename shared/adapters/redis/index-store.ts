/** The index: rows, slices, look-ups, packs and manifests (informer §11). */
import { laneOf } from "../../api/lane.ts";
import type { OwnerId } from "../../api/owner-id.ts";
import { compareResourceVersions, isResourceVersion } from "../../api/resource-version.ts";
import { CACHED_RESOURCES, CONTROLLER_INFO, CONTROLLERS, controllerOf, splitKey } from "../../api/resources.ts";
import type { CachedResource, ObjectKey } from "../../api/resources.ts";
import type { ApplyResult, IndexRequest, IndexStore, IndexView, ManifestRow, NamespaceCount, Row, SliceRef } from "../../ports/store.ts";
import { changeArgs, parseBells, parseOutcomes, parsePrimary } from "./changes.ts";
import { asList, asNumber, asPairs, asText } from "./connection.ts";
import type { Reply } from "./connection.ts";
import { gateArgs } from "./context.ts";
import type { Call, Context } from "./context.ts";
import { KeyTable, sliceName } from "./keys.ts";
import type { EpochKeys } from "./keys.ts";
import { parseEntry, parseRow, parseSlice, US } from "./rows.ts";

/** How often an object may move to another slice between the two halves of a read; then it counts as absent, which the
 * comparison in `applyPack` finds out. */
const READ_ROUNDS_MAX = 4;

/** Of one `applyPack`. */
const ITEMS_MAX = 100;

export function createIndexStore(context: Context): IndexStore {
  return {
    readIndex: (request) => readIndex(context, request),

    async readSlices(slices) {
      if (slices.length === 0) return [];
      const answer = await context.runInCurrentEpoch("readSlices", (names) => ({
        keys: [
          context.names.epoch,
          ...slices.map((ref) => names.slice(ref.resource, "owner" in ref ? ref.owner : sliceName(undefined, ref.orphansOf))),
        ],
        args: [context.now(), names.epoch],
      }));
      return slices.map((ref, i) => (answer ? parseSlice(ref.resource, ownerOf(ref), asPairs(answer.reply[i + 1])) : []));
    },

    async readLane(resource, lane) {
      const answer = await context.runInCurrentEpoch("readLane", (names) => ({
        keys: [context.names.epoch, names.lane(resource, lane)[1]],
        args: [context.now(), names.epoch],
      }));
      if (!answer) return [];
      return asPairs(answer.reply[1])
        .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
        .map(([key, row]) => parseRow(key, row));
    },

    async applyPack(pack, items, { counts, commit }) {
      const names = context.names.of(pack.epoch);
      const lane = names.lane(pack.resource, pack.lane);
      const table = new KeyTable([context.names.epoch, ...lane]);
      table.declare(lane, 2);
      const mark = commit ? (commit.watermark === undefined ? "-" : checkVersion(commit.watermark)) : "";
      const changes = changeArgs(names, table, { resource: pack.resource, laneOf: () => pack.lane, items, counts, itemsMax: ITEMS_MAX });
      const args = [context.now(), pack.epoch, checkVersion(pack.fence), pack.kind, String(pack.sequence), mark, ...changes];
      const reply = asList(await context.connection.run("applyPack", table.keys, args));
      return refusal(reply) ?? applied(names, table, reply);
    },

    async stashManifest(pack, rows) {
      const names = context.names.of(pack.epoch);
      const keys = [context.names.epoch, ...names.lane(pack.resource, pack.lane)];
      const parts = rows.map((row) => `${row.key}${US}${row.uid}${US}${row.rv}`).join("\n");
      const args = [context.now(), pack.epoch, checkVersion(pack.fence), String(pack.generation), String(pack.sequence), parts];
      const reply = asList(await context.connection.run("stashManifest", keys, args));
      if (reply[0] === "early") return { kind: "early" };
      return refusal(reply) ?? applied(names, new KeyTable(keys), reply);
    },

    async readManifest(pack) {
      const names = context.names.of(pack.epoch);
      const [l, , , , mp] = names.lane(pack.resource, pack.lane);
      const args = [context.now(), pack.epoch, String(pack.generation), pack.fence];
      const reply = asPairs(await context.connection.run("readManifest", [context.names.epoch, mp, l], args));
      return reply
        .map(([sequence, rows]) => ({ sequence: Number(sequence), rows }))
        .toSorted((a, b) => a.sequence - b.sequence)
        .flatMap(({ rows }) => (rows === "" ? [] : rows.split("\n").map(parseManifestRow)));
    },

    async applyManifest(pack, { listRV, rows, sweep, counts }) {
      const names = context.names.of(pack.epoch);
      const lane = names.lane(pack.resource, pack.lane);
      let table = new KeyTable([]);
      const call = (): Call => {
        table = new KeyTable([context.names.epoch, ...lane, names.meta(pack.resource), names.needed(pack.resource)]);
        table.declare(lane, 2);
        const readers = CONTROLLERS.filter((controller) => CONTROLLER_INFO[controller].reads.includes(pack.resource));
        return {
          args: [
            context.now(),
            pack.epoch,
            checkVersion(pack.fence),
            String(pack.generation),
            String(pack.sequence),
            checkVersion(listRV),
            pack.resource,
            String(rows.length),
            `${pack.lane}:`,
            ...rows.map((row) => row.key),
            ...rows.map((row) => checkVersion(row.rv)),
            ...gateArgs(context, names, table, CACHED_RESOURCES),
            String(readers.length),
            ...readers.flatMap((controller) => [String(table.block(names.queue(controller))), CONTROLLER_INFO[controller].reads.join(",")]),
            ...changeArgs(names, table, {
              resource: pack.resource,
              laneOf: () => pack.lane,
              items: sweep.map((item) => ({ ...item, rv: listRV })),
              counts,
            }),
          ],
          keys: table.keys,
        };
      };
      const reply = asList(await context.run("applyManifest", call));
      if (reply[0] === "early") return { kind: "early" };
      if (reply[0] === "needed") return { kind: "needed", keys: asList(reply[1]).map(asText) };
      return refusal(reply) ?? applied(names, table, reply);
    },
  };
}

function checkVersion(version: string): string {
  if (!isResourceVersion(version)) throw new RangeError(`not a resourceVersion: "${version}"`);
  return version;
}

/** Answers of a script that changed nothing (A1, A2). */
function refusal(reply: readonly Reply[]): ApplyResult | undefined {
  switch (reply[0]) {
    case "noEpoch":
      return { kind: "noEpoch" };
    case "notOpen":
      return { kind: "notOpen" };
    case "epoch":
    case "fence":
      return { kind: "dropped", why: reply[0] };
    default:
      return undefined;
  }
}

function applied(names: EpochKeys, table: KeyTable, reply: readonly Reply[]): ApplyResult {
  const bells = parseBells(names, table.keys, reply[1]);
  switch (reply[0]) {
    case "applied":
      return { kind: "applied", bells, outcomes: parseOutcomes(reply[2]) };
    case "retry":
      return { kind: "retry", index: asNumber(reply[3]), bells, outcomes: parseOutcomes(reply[2]) };
    case "duplicate":
      return { kind: "duplicate", bells };
    default:
      throw new TypeError(`no answer of apply: ${JSON.stringify(reply[0])}`);
  }
}

function parseManifestRow(text: string): ManifestRow {
  const [key = "", uid = "", rv = ""] = text.split(US);
  return { key, uid, rv };
}

function ownerOf(ref: SliceRef): OwnerId | undefined {
  return "owner" in ref ? ref.owner : undefined;
}

interface Wanted {
  readonly resource: CachedResource;
  readonly key: ObjectKey;
  readonly put?: string;
  /** Place in the answer. */
  readonly index: number;
}

interface Place {
  readonly resource: CachedResource;
  readonly key: ObjectKey;
  readonly owner: OwnerId | undefined;
}

interface FoundRow extends Place, Wanted {
  readonly row: Omit<Row, "object">;
}

/**
 * Counts and rows first, then the objects from the slices that the rows name; what moved meanwhile is read again. When all rows
 * are current, as those of our own writes are, the first half is all.
 */
async function readIndex(context: Context, request: IndexRequest): Promise<IndexView> {
  const namespaces = request.primaries ?? [];
  const wantedCounts = unique([...(request.counts ?? []), ...namespaces].map(({ resource, namespace }) => ({ resource, namespace })));
  const rows: (IndexView["rows"][number] | undefined)[] = [];
  const current: NonNullable<IndexView["current"]>[number][] = [];
  const primaries = namespaces.map(({ resource, namespace }) => ({ resource, namespace, rows: [] as Row[] }));
  let counts: readonly NamespaceCount[] | undefined;
  let wanted = (request.rows ?? []).map((row, index) => ({ ...row, index }));
  for (let round = 0; round < READ_ROUNDS_MAX; round++) {
    const first = await readPlaces(context, wanted, round === 0 ? wantedCounts : [], round === 0 ? namespaces : []);
    counts ??= wantedCounts.map(({ resource, namespace }, i) => ({ resource, namespace, count: first?.counts[i] ?? 0 }));
    if (!first) break;
    const isCurrent = ({ put, row }: (typeof first.rows)[number]): boolean =>
      put !== undefined && compareResourceVersions(row.rv, put) >= 0;
    current.push(...first.rows.filter(isCurrent).map(({ resource, row }) => ({ resource, row })));
    const older = first.rows.filter((place) => !isCurrent(place));
    const places = [...older, ...first.primaries.flat()];
    const found = await readObjects(context, places);
    older.forEach((place, i) => {
      const row = found[i];
      if (row) rows[place.index] = { resource: place.resource, row };
    });
    let at = older.length;
    first.primaries.forEach((namespace, i) => {
      for (const row of found.slice(at, at + namespace.length)) if (row) primaries[i]?.rows.push(row);
      at += namespace.length;
    });
    // A primary that moved meanwhile changed its namespace's count, so the caller's step will be refused anyway (I8).
    wanted = older.filter((_, i) => !found[i]);
    if (wanted.length === 0) break;
  }
  return {
    rows: rows.filter((row) => row !== undefined),
    current,
    primaries: primaries.map(({ rows: each, ...rest }) => ({ ...rest, rows: each.toSorted(byKey) })),
    counts: counts ?? [],
  };
}

async function readPlaces(
  context: Context,
  rows: readonly Wanted[],
  counts: readonly { readonly resource: CachedResource; readonly namespace: string }[],
  namespaces: readonly { readonly resource: CachedResource; readonly namespace: string }[],
): Promise<
  { readonly counts: readonly number[]; readonly rows: readonly FoundRow[]; readonly primaries: readonly (readonly Place[])[] } | undefined
> {
  if (rows.length + counts.length + namespaces.length === 0) return { counts: [], rows: [], primaries: [] };
  const resources = [...new Set(rows.map((row) => row.resource))];
  let order: Wanted[] = [];
  const answer = await context.runInCurrentEpoch("readIndex", (names) => {
    const table = new KeyTable([context.names.epoch]);
    const lanes = new Map<number, Wanted[]>();
    for (const row of rows) {
      const slot = table.slot(names.lane(row.resource, laneOf(row.key, context.lanes(row.resource)))[1]);
      const lane = lanes.get(slot);
      if (lane) lane.push(row);
      else lanes.set(slot, [row]);
    }
    order = [...lanes.values()].flat();
    const args = [
      context.now(),
      names.epoch,
      [resources.length, counts.length, lanes.size, namespaces.length].join(","),
      ...resources.flatMap((resource) => [resource, String(table.slot(names.meta(resource))), String(context.lanes(resource))]),
      ...counts.flatMap(({ resource, namespace }) => [String(table.slot(names.counts(resource))), namespace]),
      ...[...lanes].flatMap(([slot, lane]) => [String(slot), String(lane.length), ...lane.map((row) => row.key)]),
      ...namespaces.flatMap(({ resource, namespace }) => {
        const controller = controllerOf(resource);
        if (!controller) throw new RangeError(`${resource} are nobody's primaries`);
        return [String(table.slot(names.primaries(resource, namespace))), String(table.slot(names.queue(controller)[3]))];
      }),
    ];
    return { keys: table.keys, args };
  });
  if (!answer) return undefined;
  const [, countReplies, rowReplies, namespaceReplies] = answer.reply;
  const texts = asList(rowReplies);
  return {
    counts: asList(countReplies).map(asNumber),
    rows: order.flatMap((row, i) => {
      const text = texts[i];
      if (typeof text !== "string") return [];
      const parsed = parseRow(row.key, text);
      return [{ ...row, owner: parsed.owner, row: parsed }];
    }),
    primaries: asList(namespaceReplies).map((reply, i) =>
      asPairs(reply).map(([key, u]) => ({ resource: namespaces[i]?.resource ?? "replicasets", key, owner: parsePrimary(u).owner })),
    ),
  };
}

/** The objects at these places, in order; undefined where something else stands by now. */
async function readObjects(context: Context, places: readonly Place[]): Promise<readonly (Row | undefined)[]> {
  if (places.length === 0) return [];
  const slices = new Map<string, number[]>();
  places.forEach(({ resource, key, owner }, i) => {
    const slice = `${resource} ${sliceName(owner, splitKey(key).namespace)}`;
    const members = slices.get(slice);
    if (members) members.push(i);
    else slices.set(slice, [i]);
  });
  const answer = await context.runInCurrentEpoch("readEntries", (names) => ({
    keys: [
      context.names.epoch,
      ...[...slices.values()].map(([i = 0]) => {
        const place = places[i];
        if (!place) throw new RangeError(`place ${i}`);
        return names.slice(place.resource, sliceName(place.owner, splitKey(place.key).namespace));
      }),
    ],
    args: [
      context.now(),
      names.epoch,
      ...[...slices.values()].flatMap((members) => [String(members.length), ...members.map((i) => places[i]?.key ?? "")]),
    ],
  }));
  const found: (Row | undefined)[] = places.map(() => undefined);
  if (!answer) return found;
  [...slices.values()].flat().forEach((i, position) => {
    const place = places[i];
    const text = answer.reply[position + 1];
    if (place && typeof text === "string") found[i] = parseEntry(place.resource, place.key, place.owner, text);
  });
  return found;
}

function unique<T extends { readonly resource: string; readonly namespace: string }>(list: readonly T[]): readonly T[] {
  return [...new Map(list.map((each) => [`${each.resource} ${each.namespace}`, each])).values()];
}

function byKey(a: Row, b: Row): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
}
