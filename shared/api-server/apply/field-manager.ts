/**
 * The fields' managers through writes and applies.
 *
 * FM1 every write with a change of its own gives its manager what it changed, and takes that from the others.
 * FM2 an entry's time changes only with such a write.
 * FM3 at most 10 updating managers are listed; the oldest become one, `ancient-changes`.
 *
 * Source: apimachinery/pkg/util/managedfields/internal/{fieldmanager,buildmanagerinfo,capmanagers,managedfieldsupdater}.go,
 * internal/{stripmeta,skipnonapplied,lastappliedmanager,lastappliedupdater,structuredmerge,conflict}.go.
 */
import { clone, ensureObject, isObject, type Json, type JsonObject, metaOf, textAt } from "@deltaloop/base";
import { compared } from "./compare.ts";
import { difference, EMPTY_SET, type FieldSet, pathsOf, recursiveDifference, setOf, union } from "./field-set.ts";
import { compareText, goJson, goQuote } from "./go-json.ts";
import {
  decodeManagedFields,
  encodeManagedFields,
  type Managed,
  managerId,
  managerOf,
  NOTHING_MANAGED,
  secondsOf,
} from "./managed-fields.ts";
import { fieldElement, pathText } from "./path-element.ts";
import { fieldsOf, type Typed, typed } from "./typed.ts";
import type { TypeRef, TypeSchema } from "./type-schema.ts";
import { applied, type Conflict, ConflictError, type Owned, ownersAfterUpdate, type Writing } from "./updater.ts";

/** The types of one kind, and which fields its subresources change. */
export interface ManagedKind {
  readonly schema: TypeSchema;
  readonly apiVersion: string;
  readonly kind: string;
  /** The type in a version; undefined if the kind is not served in it. */
  readonly typeIn: (apiVersion: string) => TypeRef | undefined;
  /** An object of which nothing is set. */
  readonly empty: JsonObject;
  /** Fields that a write of the subresource cannot change. */
  readonly resetFields: (subresource: string) => FieldSet;
}

export interface FieldWrite {
  readonly kind: ManagedKind;
  readonly subresource: string;
  /** `fieldManager` of the request, or the start of its User-Agent. */
  readonly manager: string;
  /** RFC 3339, in seconds. */
  readonly now: string;
}

/** One conflict of an apply. */
export interface FieldConflict {
  readonly manager: string;
  readonly path: string;
}

/** Source: internal/fieldmanager.go (DefaultMaxUpdateManagers). */
const UPDATE_MANAGERS_MAX = 10;
/** Source: apimachinery/pkg/api/validation/objectmeta.go (TotalAnnotationSizeLimitB). */
const ANNOTATIONS_BYTES_MAX = 256 * 1024;
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
/** The writer of an update before it is known whether it changed anything. */
const CURRENT_OPERATION = "current-operation";

const SERVER_FIELDS = setOf(
  ...["apiVersion", "kind", "metadata"].map((name) => [fieldElement(name)]),
  ...["name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion"].map(
    (name) => [fieldElement("metadata"), fieldElement(name)],
  ),
);

/**
 * The managed fields after a create, update or patch that made `next` of `live`.
 *
 * @param live `kind.empty` for a create
 * @throws {TypeMismatchError} then the fields of `live` remain
 */
export function managedAfterUpdate(live: JsonObject, next: JsonObject, write: FieldWrite): Json[] | undefined {
  const before = managedBefore(live, next, write.subresource !== "");
  // An object without managed fields keeps none: its managers are tracked from the create on, or not at all.
  if (before.owners.size === 0 && (textAt(metaOf(live), "uid") ?? "") !== "") return undefined;
  return encodeManagedFields(afterUpdate(live, next, before, write));
}

/** A client may send managed fields, and resets them with an empty list or an empty entry. */
function managedBefore(live: JsonObject, next: JsonObject, isSubresource: boolean): Managed {
  const sent = metaOf(next)["managedFields"];
  if (!isSubresource && Array.isArray(sent)) {
    if (sent.length === 0 || (sent.length === 1 && isObject(sent[0]) && Object.keys(sent[0]).length === 0)) return NOTHING_MANAGED;
    const managed = decoded(sent);
    if (managed.owners.size > 0) return managed;
  }
  return decoded(metaOf(live)["managedFields"]);
}

function decoded(entries: Json | undefined): Managed {
  try {
    return Array.isArray(entries) ? decodeManagedFields(entries) : NOTHING_MANAGED;
  } catch {
    return NOTHING_MANAGED;
  }
}

function afterUpdate(live: JsonObject, next: JsonObject, before: Managed, { kind, subresource, manager, now }: FieldWrite): Managed {
  const { apiVersion } = kind;
  const writing = writingOf(kind, subresource, CURRENT_OPERATION);
  const owners = new Map(ownersAfterUpdate(typedOf(live, kind, true), typedOf(next, kind, true), before.owners, writing));
  const times = new Map(before.times);
  stripServerFields(owners, CURRENT_OPERATION);
  const own = owners.get(CURRENT_OPERATION);
  if (own !== undefined) {
    const id = managerId({ manager: manager || "unknown", operation: "Update", apiVersion, subresource });
    owners.delete(CURRENT_OPERATION);
    owners.set(id, { ...own, fields: union(own.fields, owners.get(id)?.fields ?? EMPTY_SET) });
    times.set(id, now);
  }
  return capped({ owners, times });
}

/**
 * An applied configuration merged into `live`, with its managed fields.
 *
 * @param live `kind.empty` for a create
 * @throws {ApplyConflictError}
 * @throws {TypeMismatchError} if the configuration is not of the kind's type
 */
export function appliedObject(live: JsonObject, configuration: JsonObject, write: FieldWrite & { readonly force: boolean }): JsonObject {
  const { kind, subresource, manager } = write;
  const entries = metaOf(live)["managedFields"];
  let before = Array.isArray(entries) ? decodeManagedFields(entries) : NOTHING_MANAGED;
  if (before.owners.size === 0) before = afterUpdate(kind.empty, live, before, { ...write, manager: "before-first-apply" });
  const from = typedOf(live, kind, true);
  const id = managerId({ manager: manager || "unknown", operation: "Apply", apiVersion: kind.apiVersion, subresource });
  const writing = writingOf(kind, subresource, id);
  const to = typedOf(configuration, kind, false);
  let result: ReturnType<typeof applied>;
  try {
    result = applied(from, to, before.owners, { ...writing, force: write.force });
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    const conflicts = manager === "kubectl" ? conflictsWithoutLastApplied(error.conflicts, from, kind) : error.conflicts;
    if (conflicts.length > 0) throw new ApplyConflictError(conflicts);
    result = applied(from, to, before.owners, { ...writing, force: true });
  }
  const owners = new Map(result.owners);
  stripServerFields(owners, id);
  const times = new Map(before.times);
  if (result.object !== undefined) times.set(id, write.now);
  const object = withManagedFields(result.object?.value ?? live, { owners, times });
  if (manager === "kubectl") updateLastApplied(object, configuration);
  return object;
}

function withManagedFields(from: JsonObject, managed: Managed): JsonObject {
  const object = clone(from);
  const meta = ensureObject(object, "metadata");
  const entries = encodeManagedFields(managed);
  if (entries === undefined) delete meta["managedFields"];
  else meta["managedFields"] = entries;
  return object;
}

function typedOf(object: JsonObject, { schema, apiVersion, typeIn, kind }: ManagedKind, allowsDuplicates: boolean): Typed {
  const type = typeIn(apiVersion);
  if (type === undefined) throw new RangeError(`${kind} has no type in ${apiVersion}`);
  return typed(withoutManagedFields(object, apiVersion, kind), type, schema, allowsDuplicates);
}

function withoutManagedFields(object: JsonObject, apiVersion: string, kind: string): JsonObject {
  const { managedFields, ...metadata } = metaOf(object);
  return { ...object, apiVersion, kind, ...(object["metadata"] === undefined ? {} : { metadata }) };
}

function writingOf({ schema, apiVersion, typeIn, resetFields }: ManagedKind, subresource: string, manager: string): Writing {
  const reset = resetFields(subresource);
  const convert = (object: Typed, version: string): Typed | undefined => {
    if (object.value["apiVersion"] === version) return object;
    const type = typeIn(version);
    return type && typed({ ...object.value, apiVersion: version }, type, schema, false);
  };
  return { manager, apiVersion, convert, filter: (fields) => recursiveDifference(fields, reset) };
}

function stripServerFields(owners: Map<string, Owned>, manager: string): void {
  const owned = owners.get(manager);
  if (owned === undefined) return;
  const fields = difference(owned.fields, SERVER_FIELDS);
  if (fields.size === 0) owners.delete(manager);
  else owners.set(manager, { ...owned, fields });
}

/** The oldest updating managers as one for each version, until there are few enough. */
function capped({ owners, times }: Managed): Managed {
  const updaters = [...owners].filter(([, owned]) => !owned.isApplied).map(([id]) => id);
  if (updaters.length <= UPDATE_MANAGERS_MAX) return { owners, times };
  updaters.sort((a, b) => secondsOf(times.get(a)) - secondsOf(times.get(b)) || compareText(a, b));
  const kept = new Map(owners);
  const keptTimes = new Map(times);
  const firsts = new Map<string, string>();
  let excess = updaters.length - UPDATE_MANAGERS_MAX;
  for (const id of updaters) {
    if (excess === 0) break;
    const owned = kept.get(id);
    if (owned === undefined) continue;
    const { apiVersion } = owned;
    const bucket = managerId({ manager: "ancient-changes", operation: "Update", apiVersion, subresource: "" });
    const first = firsts.get(apiVersion);
    if (first === undefined) {
      firsts.set(apiVersion, id);
      continue;
    }
    const ancient = kept.get(bucket) ?? kept.get(first);
    if (!kept.has(bucket)) kept.delete(first);
    kept.set(bucket, { ...owned, fields: union(owned.fields, ancient?.fields ?? EMPTY_SET) });
    // Deletes the entry even if it is the bucket itself, as upstream does.
    kept.delete(id);
    excess -= 1;
    const time = times.get(id);
    if (time === undefined) keptTimes.delete(bucket);
    else keptTimes.set(bucket, time);
  }
  return { owners: kept, times: keptTimes };
}

/**
 * Drops conflicts over fields that client-side apply set and no manager has changed since: they belong to the same user. Source:
 * internal/lastappliedmanager.go.
 */
function conflictsWithoutLastApplied(conflicts: readonly Conflict[], live: Typed, kind: ManagedKind): readonly Conflict[] {
  const allowed = lastAppliedFields(live, kind);
  if (allowed === undefined) return conflicts;
  return conflicts.flatMap(({ manager, fields }) => {
    const left = difference(fields, allowed);
    return left.size > 0 ? [{ manager, fields: left }] : [];
  });
}

/** Reads annotations as upstream does: null counts as empty, and a value that is not a string counts as no annotations at all. */
function annotationsOf(object: JsonObject): Record<string, string> | undefined {
  const annotations = metaOf(object)["annotations"];
  if (!isObject(annotations) || Object.values(annotations).some((value) => value !== null && typeof value !== "string")) return undefined;
  return Object.fromEntries(Object.entries(annotations).map(([key, value]) => [key, String(value ?? "")]));
}

function lastAppliedOf(object: JsonObject): string | undefined {
  return annotationsOf(object)?.[LAST_APPLIED] || undefined;
}

function lastAppliedFields(live: Typed, kind: ManagedKind): FieldSet | undefined {
  const text = lastAppliedOf(live.value);
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || (textAt(value, "kind") ?? "") === "" || value["apiVersion"] !== kind.apiVersion) return undefined;
    const last = typed(value, live.type, live.schema, false);
    const { modified, added, removed } = compared(last, typed(live.value, live.type, live.schema, false));
    return difference(difference(difference(fieldsOf(last), modified), added), removed);
  } catch {
    return undefined;
  }
}

/** Source: internal/lastappliedupdater.go. */
function updateLastApplied(object: JsonObject, configuration: JsonObject): void {
  const annotations = annotationsOf(object);
  if (annotations === undefined || (annotations[LAST_APPLIED] ?? "") === "") return;
  const applies = clone(configuration);
  const own = annotationsOf(applies);
  delete own?.[LAST_APPLIED];
  const meta = ensureObject(applies, "metadata");
  if (own === undefined) delete meta["annotations"];
  else meta["annotations"] = own;
  annotations[LAST_APPLIED] = `${goJson(applies)}\n`;
  const bytes = Object.entries(annotations).reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  if (bytes > ANNOTATIONS_BYTES_MAX) delete annotations[LAST_APPLIED];
  ensureObject(object, "metadata")["annotations"] = annotations;
}

/** An apply that would change fields of other managers. Source: internal/conflict.go. */
export class ApplyConflictError extends Error {
  override name = "ApplyConflictError";
  readonly causes: readonly FieldConflict[];

  constructor(conflicts: readonly Conflict[]) {
    const sorted = conflicts.toSorted((a, b) => compareText(a.manager, b.manager));
    const causes = sorted.flatMap(({ manager, fields }) =>
      pathsOf(fields).map((path) => ({ manager: managerText(manager), path: pathText(path) })),
    );
    super(conflictText(causes, sorted));
    this.causes = causes;
  }
}

function conflictText(causes: readonly FieldConflict[], conflicts: readonly Conflict[]): string {
  const [first] = causes;
  if (causes.length === 1 && first !== undefined) return `Apply failed with 1 conflict: conflict with ${first.manager}: ${first.path}`;
  const lines = conflicts.flatMap(({ manager, fields }) => [
    `conflicts with ${managerText(manager)}:`,
    ...pathsOf(fields).map((path) => `- ${pathText(path)}`),
  ]);
  return `Apply failed with ${causes.length} conflicts: ${lines.join("\n")}`;
}

function managerText(id: string): string {
  const { manager, subresource, operation, apiVersion } = managerOf(id);
  const name = goQuote(manager) + (subresource === "" ? "" : ` with subresource ${goQuote(subresource)}`);
  return operation === "Update" ? `${name} using ${apiVersion}` : name;
}
