/**
 * Finds which MAC keys have signed the cache, and replaces signatures of former keys (docs/internals/threat-model.md, "Rotation").
 *
 * It checks the entries of every slice that may be read: slices referenced by rows, those of primaries, and those of orphans by namespace.
 * Entries in other slices are never read. Rows and slices are read one after the other, so a concurrent change may be counted twice or
 * missed; a text is replaced only if it is unchanged (scripts/index/replace.lua).
 */
import { laneOf } from "../lane.ts";
import { infoIn, ownerIdIn, splitKey } from "@deltaloop/kube/objects";
import type { OwnerId, View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Ghost, KeyStore, KeyUse, WorkQueue } from "../ports/store.ts";
import { asPairs } from "./connection.ts";
import type { Context } from "./context.ts";
import { sliceName } from "./keys.ts";
import type { EpochKeys } from "./keys.ts";
import { readPlaces } from "./read-index.ts";
import { judgeEntry, judgeRow, judgeTombstone } from "./resign.ts";
import type { Judged } from "./resign.ts";
import { openRow } from "./rows.ts";

/** Slices read, and texts replaced, per call: Lua runs one call at a time. */
const SLICES_PER_CALL = 50;
const TEXTS_PER_CALL = 100;

export function createKeyStore(context: Context, queue: Pick<WorkQueue, "add">): KeyStore {
  return {
    async keyUse(resource, repair) {
      const cached = await readCached(context, resource);
      const replacements = cached.texts.filter(({ judged, ghost }) => ghost || judged.verdict === "former");
      if (repair) await replaceAll(context, queue, resource, replacements);
      return { ...count(cached.texts), hidden: cached.hidden };
    },
  };
}

type Pairs = readonly (readonly [key: ObjectKey, text: string])[];

/** A text and its location. */
interface Cached {
  readonly epoch: string;
  /** The hash, which for a row or tombstone depends on the current number of lanes. */
  readonly hash: () => string;
  readonly key: ObjectKey;
  readonly text: string;
  readonly judged: Judged;
  /** The hash and text of the row, for an entry without a row. */
  readonly ghost?: { readonly v: () => string; readonly row: string; readonly owner: Primary | undefined };
}

interface Primary {
  readonly controller: ControllerName;
  readonly key: ObjectKey;
}

/** A slice and its owner; without an owner it has the orphans of a namespace. */
interface Slice {
  readonly name: string;
  readonly owner: OwnerId | undefined;
  readonly primary?: Primary;
}

async function readCached(context: Context, resource: View): Promise<{ readonly texts: readonly Cached[]; readonly hidden: number }> {
  const slices = new Map<string, Slice>();
  for (const slice of await slicesOfPrimaries(context, resource)) slices.set(slice.name, slice);
  const cached: Cached[] = [];
  /** Text of each row and the slice that it references. */
  const rows = new Map<ObjectKey, { readonly text: string; readonly slice?: string }>();
  const laneKeys = (names: EpochKeys, key: ObjectKey) => names.lane(resource, laneOf(key, context.lanes(resource)));
  for (const { names, rowTexts, tombstones } of await readLanes(context, resource)) {
    const seal = context.seal(names.epoch);
    for (const [key, text] of rowTexts) {
      const judged = judgeRow(seal, resource, key, text);
      cached.push({ epoch: names.epoch, hash: () => laneKeys(names, key)[1], key, text, judged });
      const row = openRow(seal, resource, key, text);
      if (row.kind === "forged") {
        rows.set(key, { text });
        continue;
      }
      const { owner } = row.value;
      const slice = sliceName(owner, splitKey(key).namespace);
      rows.set(key, { text, slice });
      if (!slices.has(slice)) slices.set(slice, { name: slice, owner });
    }
    for (const [key, text] of tombstones)
      cached.push({
        epoch: names.epoch,
        hash: () => laneKeys(names, key)[2],
        key,
        text,
        judged: judgeTombstone(seal, resource, key, text),
      });
  }
  const entriesAt = new Set<string>();
  for (const { slice, names, entries } of await readSlices(context, resource, [...slices.values()])) {
    const seal = context.seal(names.epoch);
    for (const [key, text] of entries) {
      entriesAt.add(`${slice.name} ${key}`);
      const judged = judgeEntry(seal, resource, key, slice.owner, text);
      const row = rows.get(key);
      const isSigned = judged.verdict === "current" || judged.verdict === "former";
      // A forged row references no slice; A14 repairs row and entry.
      const isGhost = isSigned && (row === undefined || (row.slice !== undefined && row.slice !== slice.name));
      cached.push({
        epoch: names.epoch,
        hash: () => names.slice(resource, slice.name),
        key,
        text,
        judged,
        ...(isGhost && { ghost: { v: () => laneKeys(names, key)[1], row: row?.text ?? "", owner: slice.primary } }),
      });
    }
  }
  const hidden = [...rows].filter(([key, { slice }]) => slice !== undefined && !entriesAt.has(`${slice} ${key}`));
  return { texts: cached, hidden: hidden.length };
}

/** Limit per call; the next call finds the remaining entries. */
const GHOSTS_MAX = 1_000;

/** Implements `readGhosts`: returns entries in readable slices, signed or not, that no row references. */
export async function readGhosts(context: Context, resource: View): Promise<readonly Ghost[]> {
  const slices = new Map((await slicesOfPrimaries(context, resource)).map((slice) => [slice.name, slice]));
  const ghosts: Ghost[] = [];
  for (const part of chunks([...slices.values()], SLICES_PER_CALL)) {
    const found = (await readSlices(context, resource, part)).flatMap(({ slice, entries }) =>
      entries.map(([key, text]) => ({ key, slice, text })),
    );
    const wanted = found.map(({ key }, index) => ({ resource, key, index }));
    const places = await readPlaces(context, wanted, [], []);
    const rows = new Map(places?.rows.map((row) => [row.key, row]));
    const forged = new Set(places?.forged.filter(({ where }) => where === "row").map(({ key }) => key)); // A14 repairs both
    for (const { key, slice, text } of found) {
      const row = rows.get(key);
      if (forged.has(key) || (row && sliceName(row.owner, splitKey(key).namespace) === slice.name)) continue;
      const stands = { resource, key, where: "entry", slice: slice.name, text } as const;
      if (ghosts.push({ stands, ...(slice.primary && { owner: slice.primary }) }) === GHOSTS_MAX) return ghosts;
    }
  }
  return ghosts;
}

/** Slices of the primaries whose dependents `resource` are. */
async function slicesOfPrimaries(context: Context, resource: View): Promise<readonly Slice[]> {
  const slices: Slice[] = [];
  for (const controller of context.catalog.controllers) {
    const { primary, dependents } = infoIn(context.catalog, controller);
    if (dependents !== resource) continue;
    for (const { names, rowTexts } of await readLanes(context, primary)) {
      for (const [key, text] of rowTexts) {
        const row = openRow(context.seal(names.epoch), primary, key, text);
        if (row.kind === "forged") continue;
        const owner = ownerIdIn(context.catalog, controller, key, row.value.uid);
        slices.push({ name: owner, owner, primary: { controller, key } });
        slices.push({ name: sliceName(undefined, splitKey(key).namespace), owner: undefined });
      }
    }
  }
  return slices;
}

async function readLanes(
  context: Context,
  resource: View,
): Promise<readonly { readonly names: EpochKeys; readonly rowTexts: Pairs; readonly tombstones: Pairs }[]> {
  const lanes: Awaited<ReturnType<typeof readLanes>>[number][] = [];
  for (let lane = 0; lane < context.lanes(resource); lane++) {
    const answer = await context.runInCurrentEpoch((names) =>
      context.keys("readLane", { lane: names.lane(resource, lane), meta: names.meta(resource) }).call(names.epoch, {}),
    );
    if (!answer) return [];
    const { names, reply } = answer;
    if (reply[4] !== "") context.believe(resource, Number(reply[4]));
    lanes.push({ names, rowTexts: asPairs(reply[1]), tombstones: asPairs(reply[2]) });
  }
  return lanes;
}

async function readSlices(
  context: Context,
  resource: View,
  slices: readonly Slice[],
): Promise<readonly { readonly slice: Slice; readonly names: EpochKeys; readonly entries: Pairs }[]> {
  const all: Awaited<ReturnType<typeof readSlices>>[number][] = [];
  for (const part of chunks(slices, SLICES_PER_CALL)) {
    const answer = await context.runInCurrentEpoch((names) =>
      context.keys("readSlices", { slices: part.map(({ name }) => names.slice(resource, name)) }).call(names.epoch, {}),
    );
    if (!answer) return [];
    const { names, reply } = answer;
    all.push(...part.map((slice, i) => ({ slice, names, entries: asPairs(reply[i + 1]) })));
  }
  return all;
}

async function replaceAll(context: Context, queue: Pick<WorkQueue, "add">, resource: View, replacements: readonly Cached[]): Promise<void> {
  for (const [epoch, ofEpoch] of Map.groupBy(replacements, (each) => each.epoch)) {
    for (const part of chunks(ofEpoch, TEXTS_PER_CALL)) {
      await context.runByLanes(() => {
        const table = context.keys("replace", { meta: context.names.of(epoch).meta(resource) });
        const texts = part.map(({ hash, key, text, judged, ghost }) => ({
          hashSlot: table.slot(hash()),
          field: key,
          old: text,
          new: ghost ? "" : judged.resigned,
          rowsSlot: ghost ? table.slot(ghost.v()) : 0,
          row: ghost?.row ?? "",
        }));
        return table.call(epoch, { resource, laneCount: String(context.lanes(resource)), texts });
      });
    }
    // The owners are enqueued even if the write failed, because an unneeded run is harmless. The sweeper sends the doorbells.
    const owners = ofEpoch.flatMap(({ ghost }) => (ghost?.owner ? [ghost.owner] : []));
    for (const { controller, key } of new Map(owners.map((owner) => [`${owner.controller} ${owner.key}`, owner])).values())
      await queue.add(epoch, controller, key, 0);
  }
}

function count(cached: readonly Cached[]): Omit<KeyUse, "hidden"> {
  const of = (wanted: (each: Cached) => boolean): number => cached.filter(wanted).length;
  return {
    current: of(({ judged, ghost }) => !ghost && judged.verdict === "current"),
    former: of(({ judged, ghost }) => !ghost && judged.verdict === "former"),
    foreign: of(({ judged }) => judged.verdict === "unknown" || judged.verdict === "forged"),
    ghosts: of(({ ghost }) => ghost !== undefined),
  };
}

function chunks<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
