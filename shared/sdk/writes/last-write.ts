/**
 * Last-write records: digests of what was sent last and of the response. A write is needed only if the desired state differs from what was
 * sent, or the object from the response. The two are not compared with each other, so defaults and normalised quantities cause no endless
 * updates.
 */
import type { ObjectBody } from "./wanted.ts";
import { isObject } from "./wanted.ts";

/** The last write of an owned object, of `self`, or of `status`. Digests are keyed. */
export interface LastWrite {
  /** The start of the uid: `content` covers all of it. */
  readonly uid: string;
  /** Digest of what was sent. */
  readonly sent: string;
  /** Digest of the content of the response. */
  readonly content: string;
  /** When this controller last changed the content back, oldest first. */
  readonly revertsMs: readonly number[];
  /** The digest that `sent` replaced, with its time and the primary's generation. Absent if `sent` is the first. */
  readonly replaced?: { readonly sent: string; readonly atMs: number; readonly generation: number };
}

export type Digest = (text: string) => string;

/** Field manager of a controller. */
export function managerOf(name: string): string {
  return `${MANAGER_PREFIX}${name}`;
}
export const MANAGER_PREFIX = "deltaloop-";

/** More reverts than this within the window mean that another writer contests the object. */
const REVERTS_MAX = 5;
const REVERTS_WINDOW_MS = 600_000;
/** An own write enqueues its key at once, so two versions of the code replace each other's writes sooner than this. */
const RETURN_MS = 10_000;

/** 32 bits of a UUID. */
const UID_START = 8;

/** Metadata fields that are not part of the content. */
const NO_CONTENT = ["managedFields", "resourceVersion", "generation"];

/**
 * The content of a response: all but status, managedFields, resourceVersion and generation, and of managedFields this manager's own
 * entries.
 */
export function contentOf(object: ObjectBody, manager: string): string {
  const { status: _, metadata, ...fields } = object;
  const kept = Object.fromEntries(Object.entries(metadata).filter(([name]) => !NO_CONTENT.includes(name)));
  return canonical({ ...fields, metadata: kept, managed: entriesOf(metadata["managedFields"], manager) });
}

/** The content of a status. */
export function statusContentOf({ status }: ObjectBody): string {
  return canonical(status ?? {});
}

export function sentText(body: unknown): string {
  return canonical(body);
}

/**
 * Whether `sent` is what the last write has just replaced, although the primary is the same: two versions of the code run at once. It counts
 * as a revert, so that the number of writes by which they replace each other is bounded.
 */
export function isReturn(record: LastWrite | undefined, sent: string, generation: number, nowMs: number): boolean {
  const { replaced } = record ?? {};
  return replaced?.sent === sent && replaced.generation === generation && nowMs - replaced.atMs < RETURN_MS;
}

/** A sent write, and whether another writer's change was the reason for it. */
export interface SentWrite {
  /** Digest of what was sent. */
  readonly sent: string;
  /** The generation of the primary. */
  readonly generation: number;
  readonly isRevert: boolean;
  /** resourceVersion of the object that the decision read; absent for a create. */
  readonly readVersion?: string;
}

/** The record after an answered write; `before` is that of the same object, if any. */
export function recordOf(
  { sent, generation, isRevert, readVersion }: SentWrite,
  answer: { readonly uid: string; readonly resourceVersion: string; readonly content: string },
  before: LastWrite | undefined,
  nowMs: number,
): LastWrite {
  const { uid, resourceVersion, content } = answer;
  const known = isOf(before, uid) ? before : undefined;
  const recent = known?.revertsMs.filter((atMs) => nowMs - atMs < REVERTS_WINDOW_MS) ?? [];
  const replaced = known === undefined || known.sent === sent ? known?.replaced : { sent: known.sent, atMs: nowMs, generation };
  // An apply that changes nothing was caused by a change of fields that this manager does not own.
  const hasReverted = isRevert && resourceVersion !== readVersion;
  const revertsMs = hasReverted ? [...recent, nowMs].slice(-REVERTS_MAX - 1) : recent;
  return { uid: uid.slice(0, UID_START), sent, content, revertsMs, ...(replaced && { replaced }) };
}

/** Whether the record is of the object with this uid. */
export function isOf(record: LastWrite | undefined, uid: string): record is LastWrite {
  return record !== undefined && record.uid !== "" && uid.startsWith(record.uid);
}

/** Whether another writer keeps changing what this controller changes back. */
export function isContested(record: LastWrite | undefined, nowMs: number): boolean {
  return (record?.revertsMs.filter((atMs) => nowMs - atMs < REVERTS_WINDOW_MS).length ?? 0) > REVERTS_MAX;
}

interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly apiVersion?: string;
  readonly fieldsV1?: unknown;
}

function entriesOf(managedFields: unknown, manager: string): readonly ManagedFieldsEntry[] {
  if (!Array.isArray(managedFields)) return [];
  return managedFields.filter((entry): entry is ManagedFieldsEntry => isObject(entry) && entry["manager"] === manager);
}

/** Whether this manager has an entry, so that the object may be pruned. */
export function isManagedBy(object: ObjectBody, manager: string): boolean {
  return entriesOf(object.metadata["managedFields"], manager).length > 0;
}

/**
 * The JSON patch that turns the entry of this manager's POST into one of its applies; undefined if there is none to turn. Without it,
 * fields that the code no longer sends stay forever. Source: client-go util/csaupgrade/upgrade.go UpgradeManagedFieldsPatch.
 */
export function upgradePatch(object: ObjectBody, manager: string): readonly object[] | undefined {
  const { managedFields, resourceVersion } = object.metadata;
  const all = Array.isArray(managedFields) ? (managedFields as readonly ManagedFieldsEntry[]) : [];
  const isOwn = (entry: ManagedFieldsEntry, operation: string): boolean =>
    entry.manager === manager && entry.operation === operation && (entry.subresource ?? "") === "";
  const created = all.find((entry) => isOwn(entry, "Update"));
  if (created === undefined) return undefined;
  const applied = all.find((entry) => isOwn(entry, "Apply"));
  const isSameVersion = applied?.apiVersion === created.apiVersion;
  const turned = applied
    ? { ...applied, ...(isSameVersion && { fieldsV1: union(applied.fieldsV1, created.fieldsV1) }) }
    : { ...created, operation: "Apply" };
  const value = all.flatMap((entry) => {
    if (entry === (applied ?? created)) return [turned];
    return isOwn(entry, "Update") ? [] : [entry];
  });
  return [
    { op: "replace", path: "/metadata/managedFields", value },
    { op: "replace", path: "/metadata/resourceVersion", value: resourceVersion },
  ];
}

/** The union of two sets of fields: trees whose nodes are fields. */
function union(a: unknown, b: unknown): unknown {
  if (!isObject(a) || !isObject(b)) return a ?? b;
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return Object.fromEntries(names.map((name) => [name, union(a[name], b[name])]));
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, field]) => `${JSON.stringify(name)}:${canonical(field)}`)
    .join()}}`;
}
