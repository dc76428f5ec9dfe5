/** The index: slices, packs and manifests (informer §11); look-ups are in read-index.ts. */
import type { OwnerId, View } from "@deltaloop/kube/objects";
import { infoIn, isCurrent, isResourceVersion, splitKey } from "@deltaloop/kube/objects";
import { lanesOf } from "../lane.ts";
import type { Signer } from "../signer.ts";
import { ForgedRowsError } from "../ports/errors.ts";
import type { ApplyResult, Forged, IndexStore, IndexView, ItemChange, ManifestRow, PackHeader, Row, SliceRef } from "../ports/store.ts";
import { HISTORY_LOST } from "../store-options.ts";
import { changeArgs, parseBells, parseOutcomes } from "./changes.ts";
import { asList, asNumber, asPairs, asText } from "./connection.ts";
import type { Reply } from "./connection.ts";
import { gateArgs, readerArgs } from "./context.ts";
import type { Context } from "./context.ts";
import { sliceName } from "./keys.ts";
import type { EpochKeys } from "./keys.ts";
import { readGhosts } from "./key-store.ts";
import { readEntries, readIndex } from "./read-index.ts";
import type { Seal } from "./rows.ts";
import { isGenuineTombstone, openPlaced, openRow, openSlice, US } from "./rows.ts";
import { tallyPlace } from "./tally-store.ts";

/** Maximum number of items per `applyPack`. */
const ITEMS_MAX = 100;

export function createIndexStore(context: Context): IndexStore {
  return {
    readIndex: (request) => readIndex(context, request),

    async readSlices(slices) {
      if (slices.length === 0) return [];
      const answer = await context.runInCurrentEpoch((names) =>
        context.keys("readSlices", { slices: slices.map((ref) => names.slice(ref.resource, nameOf(ref))) }).call(names.epoch, {}),
      );
      if (!answer) return slices.map(() => []);
      const seal = context.seal(answer.names.epoch);
      const opened = slices.map((ref, i) =>
        openSlice(seal, { resource: ref.resource, owner: ownerOf(ref), slice: nameOf(ref) }, asPairs(answer.reply[i + 1])),
      );
      const forged = opened.flatMap((slice) => slice.forged);
      if (forged.length > 0) throw new ForgedRowsError(forged);
      return opened.map(({ rows }) => rows);
    },

    async readLane(resource, lane) {
      const answer = await context.runInCurrentEpoch((names) =>
        context.keys("readLane", { lane: names.lane(resource, lane), meta: names.meta(resource) }).call(names.epoch, {}),
      );
      if (!answer) return { rows: [], forged: [], watermark: "0", lanes: lanesOf(resource) };
      const { names, reply } = answer;
      return {
        ...openLane(context.seal(names.epoch), resource, asPairs(reply[1]), asPairs(reply[2])),
        watermark: asText(reply[3]),
        lanes: Number(reply[4]) || lanesOf(resource),
      };
    },

    readEntries: (resource, keys) => readEntries(context, resource, keys),
    readGhosts: (resource) => readGhosts(context, resource),

    async applyPack(pack, items, { counts, listRV, commit, leaveOut = false, part = "", after = "" }) {
      const names = context.names.of(pack.epoch);
      const table = context.keys("applyPack", {
        lane: names.lane(pack.resource, pack.lane),
        tally: context.names.tally,
        meta: names.meta(pack.resource),
      });
      const call = table.call(pack.epoch, {
        fence: checkVersion(pack.fence),
        projection: String(context.options.identity.projection),
        kind: pack.kind,
        sequence: pack.sequence,
        mark: commit ? (commit.watermark === undefined ? "-" : checkVersion(commit.watermark)) : "",
        listRV: listRV === undefined ? "" : checkVersion(listRV),
        historyLostReason: HISTORY_LOST,
        place: tallyPlace(pack.resource, pack.lane),
        leavesOut: leaveOut,
        part,
        after,
        ...changeArgs(names, table, {
          catalog: context.catalog,
          seal: context.seal(pack.epoch),
          resource: pack.resource,
          laneOf: () => pack.lane,
          items,
          counts,
          itemsMax: ITEMS_MAX,
        }),
        metas: listRV === undefined ? [] : context.catalog.views.map((resource) => ({ slot: table.slot(names.meta(resource)) })),
      });
      const reply = asList(await context.run(call));
      const result = refusal(reply) ?? applied(context, names, table.keys, reply);
      // After a commit the message is acknowledged and not redelivered, so its writes must be durable. A partly applied call also waits,
      // because the next call may reach another primary and would wait only for that primary's writes.
      if (commit && (result.kind !== "retry" || result.index > 0)) await context.durable();
      if (result.kind !== "retry" || reply[4] === undefined) return result;
      const found = openStanding(context.seal(pack.epoch), pack.resource, items.slice(result.index), asList(reply[4]).map(asText));
      return { ...result, ...(found && { found }) };
    },

    async stashManifest(pack, rows) {
      const names = context.names.of(pack.epoch);
      const table = context.keys("stashManifest", { lane: names.lane(pack.resource, pack.lane), meta: names.meta(pack.resource) });
      const text = rows.map((row) => `${row.key}${US}${row.uid}${US}${row.rv}`).join("\n");
      const signature = context.options.signer.sign("mp", partOf(pack, pack.sequence, text));
      const call = table.call(pack.epoch, {
        fence: checkVersion(pack.fence),
        generation: String(pack.generation),
        sequence: pack.sequence,
        part: `${signature}\n${text}`,
      });
      const reply = asList(await context.run(call));
      await context.durable();
      if (reply[0] === "early") return { kind: "early" };
      return refusal(reply) ?? applied(context, names, table.keys, reply);
    },

    async readManifest(pack) {
      const names = context.names.of(pack.epoch);
      const table = context.keys("readManifest", { lane: names.lane(pack.resource, pack.lane) });
      const reply = asPairs(await context.run(table.call(pack.epoch, { generation: String(pack.generation), fence: pack.fence })));
      const parts = reply
        .map(([sequence, text]) => ({ sequence: Number(sequence), text: partText(context.options.signer, pack, Number(sequence), text) }))
        .filter((part): part is { readonly sequence: number; readonly text: string } => part.text !== undefined)
        .toSorted((a, b) => a.sequence - b.sequence);
      return {
        rows: parts.flatMap(({ text }) => (text === "" ? [] : text.split("\n").map(parseManifestRow))),
        parts: parts.length,
      };
    },

    async applyManifest(pack, { listRV, rows, sweep, counts, forged = [], whole = true }) {
      const names = context.names.of(pack.epoch);
      const readers = context.catalog.controllers.filter((controller) => infoIn(context.catalog, controller).reads.includes(pack.resource));
      const { reply: answer, keys } = await context.runByLanes(() => {
        const table = context.keys("applyManifest", {
          lane: names.lane(pack.resource, pack.lane),
          meta: names.meta(pack.resource),
          needed: names.needed(pack.resource),
          tally: context.names.tally,
        });
        return table.call(pack.epoch, {
          fence: checkVersion(pack.fence),
          generation: pack.generation,
          sequence: pack.sequence,
          listRV: checkVersion(listRV),
          resource: pack.resource,
          lanePrefix: `${pack.lane}:`,
          isWhole: whole,
          rows: rows.map(({ key, rv }) => ({ key, rv: checkVersion(rv) })),
          absent: forged.map(({ where, key, text }) => ({ where: where === "row" ? "v" : "t", key, text })),
          ...gateArgs(context, names, table, context.catalog.views),
          ...readerArgs(context, names, table, readers),
          ...changeArgs(names, table, {
            catalog: context.catalog,
            seal: context.seal(pack.epoch),
            resource: pack.resource,
            laneOf: () => pack.lane,
            items: sweep.map((item) => ({ ...item, rv: listRV })),
            counts,
          }),
        });
      });
      const reply = asList(answer);
      await context.durable();
      if (reply[0] === "early") return { kind: "early" };
      if (reply[0] === "incomplete") return { kind: "incomplete" };
      if (reply[0] === "needed") return { kind: "needed", keys: asList(reply[1]).map(asText) };
      return refusal(reply) ?? applied(context, names, keys, reply);
    },
  };
}

/** Undefined if a text has an invalid MAC or is not in the slice that its item assumed; the next read of the row reports it. */
function openStanding(
  seal: Seal,
  resource: View,
  items: readonly ItemChange[],
  texts: readonly string[],
): Pick<IndexView, "rows" | "current"> | undefined {
  const rows: IndexView["rows"][number][] = [];
  const current: NonNullable<IndexView["current"]>[number][] = [];
  for (const [i, { key, type, rv, owner }] of items.entries()) {
    const [text = "", tombstone = "", entry = ""] = texts.slice(3 * i);
    if (tombstone !== "" && !isGenuineTombstone(seal, resource, key, tombstone)) return undefined;
    if (text === "") continue;
    const opened = openRow(seal, resource, key, text);
    if (opened.kind === "forged" || opened.value.owner !== owner) return undefined;
    if (type === "put" && isCurrent(opened.value.rv, rv)) {
      current.push({ resource, row: opened.value });
      continue;
    }
    const row = openPlaced(seal, { resource, owner, slice: sliceName(owner, splitKey(key).namespace) }, key, entry);
    if (!row) return undefined;
    rows.push({ resource, row });
  }
  return { rows, current };
}

/** The signed text of a stashed part of a manifest. */
function partOf({ epoch, resource, lane, generation }: Omit<PackHeader, "kind">, sequence: number, text: string): readonly string[] {
  return [epoch, resource, String(lane), String(generation), String(sequence), text];
}

/** The rows of a stashed part; undefined if it has an invalid MAC. */
function partText(signer: Signer, pack: Omit<PackHeader, "kind">, sequence: number, stored: string): string | undefined {
  const end = stored.indexOf("\n");
  const text = stored.slice(end + 1);
  const verdict = signer.verify("mp", partOf(pack, sequence, text), stored.slice(0, end));
  return verdict === "current" || verdict === "former" ? text : undefined;
}

function checkVersion(version: string): string {
  if (!isResourceVersion(version)) throw new RangeError(`not a resourceVersion: "${version}"`);
  return version;
}

/** Decodes the results of a script that changed nothing (A1, A2, A16). */
function refusal(reply: readonly Reply[]): ApplyResult | undefined {
  switch (reply[0]) {
    case "noEpoch":
      return { kind: "noEpoch" };
    case "notOpen":
      return { kind: "notOpen" };
    case "setBack":
      return { kind: "setBack" };
    case "otherProjection":
      return { kind: "otherProjection" };
    case "epoch":
    case "fence":
      return { kind: "dropped", why: reply[0] };
    default:
      return undefined;
  }
}

function applied({ catalog }: Context, names: EpochKeys, keys: readonly string[], reply: readonly Reply[]): ApplyResult {
  const bells = parseBells(catalog, names, keys, reply[1]);
  switch (reply[0]) {
    case "applied":
      return { kind: "applied", bells, outcomes: parseOutcomes(reply[2]) };
    case "retry":
      return { kind: "retry", index: asNumber(reply[3]), bells, outcomes: parseOutcomes(reply[2]) };
    case "duplicate":
      return { kind: "duplicate", bells };
    default:
      throw new TypeError(`unexpected reply of apply: ${JSON.stringify(reply[0])}`);
  }
}

/** Rows in key order, and forged texts. */
function openLane(
  seal: Seal,
  resource: View,
  rowTexts: readonly (readonly [key: string, text: string])[],
  tombstones: readonly (readonly [key: string, text: string])[],
): Omit<Awaited<ReturnType<IndexStore["readLane"]>>, "watermark" | "lanes"> {
  const rows: Omit<Row, "object">[] = [];
  const forged: Forged[] = [];
  for (const [key, text] of rowTexts.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))) {
    const opened = openRow(seal, resource, key, text);
    if (opened.kind === "good") rows.push(opened.value);
    else forged.push({ resource, key, where: "row", text });
  }
  for (const [key, text] of tombstones)
    if (!isGenuineTombstone(seal, resource, key, text)) forged.push({ resource, key, where: "tombstone", text });
  return { rows, forged };
}

function parseManifestRow(text: string): ManifestRow {
  const [key = "", uid = "", rv = ""] = text.split(US);
  return { key, uid, rv };
}

function nameOf(ref: SliceRef): string {
  return "owner" in ref ? ref.owner : sliceName(undefined, ref.orphansOf);
}

function ownerOf(ref: SliceRef): OwnerId | undefined {
  return "owner" in ref ? ref.owner : undefined;
}
