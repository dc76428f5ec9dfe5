/**
 * Formats in Redis of version rows (`v`), slice entries (`s`), tombstones (`t`) and last-write records (a field of an owner's intents, `i`).
 * Version row and slice entry of one object change in the same step:
 *
 *     v:  rv 0x1F uid 0x1F owner 0x1F signature 0x1F flags
 *     s:  flags 0x1F rv 0x1F uid 0x1F signature 0x1F object as JSON, without fields that the key and the row have
 *     t:  rv 0x1F uid 0x1F signature
 *     i:  field `t:w:<id>`: signature, and a last-write record as JSON
 *
 * flags: `g<ms>`: flagged as gone (deleted, DELETED event not seen yet) at that time. Only scripts set it, and the signature does not cover
 * it.
 *
 * A signature (signer.ts) covers the epoch, the resource, the key and the text except the flags; an entry's also covers the owner, so that
 * an entry moved to another slice fails. Scripts copy these texts and never verify them.
 */
import type { Cached, CachedPod, CachedReplicaSet, OwnerId, RowTexts, View, ObjectKey } from "@deltaloop/kube/objects";
import { splitKey } from "@deltaloop/kube/objects";
import { RECORD_FIELD } from "../decision-mark.ts";
import { SIGNATURE_CHARACTERS } from "../signer.ts";
import type { Signer } from "../signer.ts";
import type { Forged, ItemChange, LastWriteRecord, Row } from "../ports/store.ts";
import { restored, shortened } from "./short-texts.ts";
import type { Short } from "./short-texts.ts";

export const US = "\x1f";

/** Signer and epoch of the texts. */
export interface Seal {
  readonly signer: Signer;
  readonly epoch: string;
  /** The text forms of user controllers' rows, from the catalog. */
  readonly rowTexts?: RowTexts | undefined;
}

/** Result of verifying a text from Redis. */
export type Opened<T> = { readonly kind: "good"; readonly value: T } | { readonly kind: "forged" };

const FORGED = { kind: "forged" } as const;

/** The prefix of a row that look-ups compare. */
export function expectedText(
  short: Short,
  view: View,
  row: { readonly rv: string; readonly uid: string; readonly owner?: OwnerId },
): string {
  return `${row.rv}${US}${shortened(short, view, row.uid)}${US}${row.owner ?? ""}${US}`;
}

type Put = Pick<ItemChange, "key" | "rv" | "uid" | "owner" | "object">;

/** Encodes the version row of a put. */
export function rowText(seal: Seal, resource: View, { key, rv, uid: whole, owner = "" }: Put): string {
  const { signer, epoch } = seal;
  const uid = shortened(seal, resource, whole);
  return `${rv}${US}${uid}${US}${owner}${US}${signer.sign("v", [epoch, resource, key, uid, rv, owner])}${US}`;
}

/** Encodes the slice entry of a put. */
export function entryText(seal: Seal, resource: View, item: Put): string {
  const { key, rv, owner = "" } = item;
  const uid = shortened(seal, resource, item.uid);
  const object = objectText(seal, resource, item);
  return `${US}${rv}${US}${uid}${US}${seal.signer.sign("s", [seal.epoch, resource, key, uid, rv, owner, object])}${US}${object}`;
}

/** Encodes a tombstone. */
export function tombstoneText(seal: Seal, resource: View, { key, rv, uid: whole }: Pick<Put, "key" | "rv" | "uid">): string {
  const { signer, epoch } = seal;
  const uid = shortened(seal, resource, whole);
  return `${rv}${US}${uid}${US}${signer.sign("t", [epoch, resource, key, uid, rv])}`;
}

/** Verifies a version row; the result has no object. */
export function openRow(seal: Seal, resource: View, key: ObjectKey, text: string): Opened<Omit<Row, "object">> {
  const [rv = "", uid = "", owner = "", signature = "", flags = ""] = text.split(US);
  if (!isGood(seal.signer.verify("v", [seal.epoch, resource, key, uid, rv, owner], signature))) return FORGED;
  return { kind: "good", value: { key, uid: restored(seal, uid), rv, ...(owner !== "" && { owner }), gone: flags !== "" } };
}

/** Verifies an entry of the slice of `owner` (undefined for the orphans of the key's namespace). */
export function openEntry(
  seal: Seal,
  resource: View,
  key: ObjectKey,
  owner: OwnerId | undefined,
  text: string,
): Opened<Row & { readonly goneSinceMs?: number }> {
  const flagsEnd = text.indexOf(US);
  const rvEnd = text.indexOf(US, flagsEnd + 1);
  const uidEnd = text.indexOf(US, rvEnd + 1);
  const signatureEnd = text.indexOf(US, uidEnd + 1);
  const rv = text.slice(flagsEnd + 1, rvEnd);
  const uid = text.slice(rvEnd + 1, uidEnd);
  const object = text.slice(signatureEnd + 1);
  const parts = [seal.epoch, resource, key, uid, rv, owner ?? "", object];
  if (!isGood(seal.signer.verify("s", parts, text.slice(uidEnd + 1, signatureEnd)))) return FORGED;
  const flags = text.slice(0, flagsEnd);
  const whole = restored(seal, uid);
  const content = parseObject(seal, resource, key, whole, rv, object);
  if (content === undefined) return FORGED;
  return {
    kind: "good",
    value: {
      key,
      uid: whole,
      rv,
      ...(owner !== undefined && { owner }),
      gone: flags !== "",
      object: content,
      ...(flags !== "" && { goneSinceMs: Number(flags.slice(1)) }),
    },
  };
}

export function isGenuineTombstone({ signer, epoch }: Seal, resource: View, key: ObjectKey, text: string): boolean {
  const [rv = "", uid = "", signature = ""] = text.split(US);
  return isGood(signer.verify("t", [epoch, resource, key, uid, rv], signature));
}

/** Encodes a last-write record of `owner`. */
export function recordText(seal: Seal, owner: OwnerId, id: string, record: LastWriteRecord): string {
  const json = JSON.stringify(record);
  const text = seal.rowTexts?.shorten(json) ?? json;
  return seal.signer.sign("w", [seal.epoch, owner, id, text]) + text;
}

/** Returns the last-write records with a valid signature among the fields of an owner's intents. */
export function openRecords(
  seal: Seal,
  owner: OwnerId,
  pairs: readonly (readonly [field: string, text: string])[],
): ReadonlyMap<string, LastWriteRecord> {
  const genuine = pairs.flatMap(([field, text]) => {
    const [id, record] = [field.slice(RECORD_FIELD.length), text.slice(SIGNATURE_CHARACTERS)];
    if (
      !field.startsWith(RECORD_FIELD) ||
      !isGood(seal.signer.verify("w", [seal.epoch, owner, id, record], text.slice(0, SIGNATURE_CHARACTERS)))
    )
      return [];
    const opened = parsed(seal, record) as LastWriteRecord | undefined; // the signature proves that recordText wrote it
    return opened === undefined ? [] : [[id, opened] as const];
  });
  return new Map(genuine);
}

function isGood(verdict: ReturnType<Signer["verify"]>): boolean {
  return verdict === "current" || verdict === "former";
}

/** A pod's DELETED event arrives within seconds; an older flag, or one with a future time, is verified live. */
const GONE_MS_MAX = 60_000;

/** Location and verification context of a slice's entries. */
export interface SlicePlace {
  readonly resource: View;
  readonly owner: OwnerId | undefined;
  /** The slice's own name (keys.ts). */
  readonly slice: string;
  /** If absent, a flag `gone` is trusted at any age. */
  readonly nowMs?: number;
}

/** Verifies the entries of a whole slice. Returns them in key order, so that reads are repeatable. */
export function openSlice(
  seal: Seal,
  place: SlicePlace,
  pairs: readonly (readonly [key: string, entry: string])[],
): { readonly rows: readonly Row[]; readonly forged: readonly Forged[] } {
  const rows: Row[] = [];
  const forged: Forged[] = [];
  for (const [key, text] of pairs.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))) {
    const row = openPlaced(seal, place, key, text);
    if (row) rows.push(row);
    else forged.push({ resource: place.resource, key, where: "entry", slice: place.slice, text });
  }
  return { rows, forged };
}

/** Returns the entry of `key` in a slice; undefined if the object must be read live (A14). */
export function openPlaced(seal: Seal, { resource, owner, slice, nowMs }: SlicePlace, key: ObjectKey, text: string): Row | undefined {
  if (owner === undefined && slice !== `-${key.slice(0, key.indexOf("/"))}`) return undefined;
  const opened = openEntry(seal, resource, key, owner, text);
  if (opened.kind === "forged") return undefined;
  const { goneSinceMs, ...row } = opened.value;
  const isStale = nowMs !== undefined && goneSinceMs !== undefined && !(Math.abs(nowMs - goneSinceMs) <= GONE_MS_MAX);
  return isStale ? undefined : row;
}

/** Encodes the object without namespace, name, uid and resourceVersion, which are a third of a small pod. */
function objectText(seal: Seal, resource: View, item: Put): string {
  const { object } = item;
  // JSON omits undefined. A copy with the same shape is cheaper than a copy without the fields.
  const leftOut = { namespace: undefined, name: undefined, uid: undefined, resourceVersion: undefined };
  if (resource === "pods") {
    const pod = object as CachedPod; // `resource` determines the shape
    return JSON.stringify(says(item, pod) ? { ...pod, ...leftOut } : pod);
  }
  const other = object as CachedReplicaSet; // all other kinds have metadata
  const text = JSON.stringify(says(item, other.metadata) ? { ...other, metadata: { ...other.metadata, ...leftOut } } : other);
  return shortened(seal, resource, text);
}

function parsed(short: Short, text: string): unknown {
  try {
    return JSON.parse(restored(short, text));
  } catch {
    return undefined;
  }
}

function says(
  item: Put,
  object: { readonly namespace: string; readonly name: string; readonly uid: string; readonly resourceVersion: string },
): boolean {
  const { key } = item;
  const slash = object.namespace.length;
  return (
    object.uid === item.uid &&
    object.resourceVersion === item.rv &&
    key.length === slash + 1 + object.name.length &&
    key.startsWith(object.namespace) &&
    key[slash] === "/" &&
    key.endsWith(object.name)
  );
}

/**
 * Decodes the object of a verified entry. Returns undefined for a text in a form that this view does not use; the entry then counts as
 * absent (A14).
 */
function parseObject(seal: Seal, resource: View, key: ObjectKey, uid: string, rv: string, text: string): Cached | undefined {
  const { namespace, name } = splitKey(key);
  // objectText wrote this text with this version of the projection, which the gate guarantees.
  if (resource === "pods") {
    return { namespace, name, uid, resourceVersion: rv, ...(JSON.parse(text) as Partial<CachedPod>) };
  }
  const rest = parsed(seal, text) as CachedReplicaSet | undefined;
  if (rest === undefined) return undefined;
  return { ...rest, metadata: { namespace, name, uid, resourceVersion: rv, ...(rest.metadata as Partial<CachedReplicaSet["metadata"]>) } };
}
