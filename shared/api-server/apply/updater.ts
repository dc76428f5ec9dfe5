/**
 * Who owns which fields after a write, and what an apply makes of an object.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff merge/{update,conflict}.go.
 */
import { jsonEqual } from "@deltaloop/base";
import { compared, type Comparison } from "./compare.ts";
import { difference, EMPTY_SET, type FieldSet, intersection, union } from "./field-set.ts";
import { merged } from "./merge.ts";
import { fieldsOf, reconciled, type Typed, withNamedFields, withoutFields } from "./typed.ts";

/** The fields that one manager owns, under the names of one version. */
export interface Owned {
  readonly apiVersion: string;
  readonly isApplied: boolean;
  readonly fields: FieldSet;
}

/** The owned fields by the identifier of the manager. */
export type Owners = ReadonlyMap<string, Owned>;

export interface Conflict {
  readonly manager: string;
  readonly fields: FieldSet;
}

/** Fields that others own with another value. */
export class ConflictError extends Error {
  override name = "ConflictError";
  readonly conflicts: readonly Conflict[];

  constructor(conflicts: readonly Conflict[]) {
    super("the configuration conflicts with other managers");
    this.conflicts = conflicts;
  }
}

export interface Writing {
  readonly manager: string;
  readonly apiVersion: string;
  /** The object in another version; undefined for a version that is not served any more. */
  readonly convert: (object: Typed, apiVersion: string) => Typed | undefined;
  /** Leaves out what this write cannot change, as the status in a write of the spec. */
  readonly filter: (fields: FieldSet, apiVersion: string) => FieldSet;
}

/** The owners after a create, update or patch that made `next` of `live`. */
export function ownersAfterUpdate(live: Typed, next: Typed, owners: Owners, writing: Writing): Owners {
  const { manager, apiVersion, filter } = writing;
  const known = reconciledOwners(live, owners, writing);
  const { owners: others, comparison } = ownersAfterChange(live, next, known, writing, true);
  const before = others.get(manager)?.fields ?? EMPTY_SET;
  const fields = filter(union(union(difference(before, comparison.removed), comparison.modified), comparison.added), apiVersion);
  return withOwned(others, manager, { apiVersion, isApplied: false, fields });
}

/** The object and its owners after an apply; the object is undefined if nothing changed. @throws {ConflictError} */
export function applied(
  live: Typed,
  configuration: Typed,
  owners: Owners,
  writing: Writing & { readonly force: boolean },
): { readonly object: Typed | undefined; readonly owners: Owners } {
  const { manager, apiVersion, force, filter } = writing;
  const known = new Map(reconciledOwners(live, owners, writing));
  const last = known.get(manager);
  known.set(manager, { apiVersion, isApplied: true, fields: filter(fieldsOf(configuration), apiVersion) });
  const object = pruned(merged(live, configuration), known, last, writing);
  const after = ownersAfterChange(live, object, known, writing, force);
  return { object: jsonEqual(live.value, object.value) ? undefined : object, owners: after.owners };
}

function withOwned(owners: Owners, manager: string, owned: Owned): Owners {
  const next = new Map(owners);
  if (owned.fields.size === 0) next.delete(manager);
  else next.set(manager, owned);
  return next;
}

function reconciledOwners(live: Typed, owners: Owners, { convert }: Writing): Owners {
  const known = new Map<string, Owned>();
  for (const [manager, owned] of owners) {
    const object = convert(live, owned.apiVersion);
    if (object === undefined) continue;
    const fields = reconciled(owned.fields, object.type, object.schema);
    known.set(manager, fields === owned.fields ? owned : { ...owned, fields });
  }
  return known;
}

/** The others lose what was removed and, with `force`, what was changed. */
function ownersAfterChange(
  live: Typed,
  next: Typed,
  owners: Owners,
  { manager: writer, apiVersion, convert, filter }: Writing,
  force: boolean,
): { readonly owners: Owners; readonly comparison: Comparison } {
  const filtered = ({ removed, modified, added }: Comparison, version: string): Comparison => ({
    removed: filter(removed, version),
    modified: filter(modified, version),
    added: filter(added, version),
  });
  const comparison = filtered(compared(live, next), apiVersion);
  const byVersion = new Map([[apiVersion, comparison]]);
  const inVersion = (version: string): Comparison | undefined => {
    const known = byVersion.get(version);
    if (known !== undefined) return known;
    const [before, after] = [convert(live, version), convert(next, version)];
    if (before === undefined || after === undefined) return undefined;
    const made = filtered(compared(before, after), version);
    byVersion.set(version, made);
    return made;
  };

  const remaining = new Map<string, Owned>();
  const conflicts: Conflict[] = [];
  for (const [manager, owned] of owners) {
    if (manager === writer) {
      if (owned.fields.size > 0) remaining.set(manager, owned);
      continue;
    }
    const change = inVersion(owned.apiVersion);
    if (change === undefined) continue;
    const conflict = intersection(owned.fields, union(change.modified, change.added));
    if (conflict.size > 0) conflicts.push({ manager, fields: conflict });
    const fields = difference(difference(owned.fields, conflict), change.removed);
    if (fields.size > 0) remaining.set(manager, fields === owned.fields ? owned : { ...owned, fields });
  }
  if (!force && conflicts.length > 0) throw new ConflictError(conflicts);
  return { owners: remaining, comparison };
}

/** Removes each field that the manager's last apply contained, that this apply omits, and that no other manager owns. */
function pruned(object: Typed, owners: Owners, last: Owned | undefined, { apiVersion, convert }: Writing): Typed {
  if (last === undefined || last.fields.size === 0) return object;
  const then = convert(object, last.apiVersion);
  if (then === undefined) return object;
  const { schema, type } = then;
  const lastFields = withNamedFields(last.fields, type, schema);
  const withoutLast = withoutFields(then, lastFields);
  const withOwnedFields = addOwned(then, withoutLast, owners, last.apiVersion, convert);
  const kept = addDangling(then, withOwnedFields, last, lastFields, convert);
  return convert(kept, apiVersion) ?? object;
}

/** Adds the fields that others, or the new configuration, own. */
function addOwned(full: Typed, reduced: Typed, owners: Owners, firstVersion: string, convert: Writing["convert"]): Typed {
  const byVersion = new Map<string, FieldSet>();
  for (const { apiVersion, fields } of owners.values()) byVersion.set(apiVersion, union(byVersion.get(apiVersion) ?? EMPTY_SET, fields));
  let result = reduced;
  // Starts with that version, because a conversion may need the fields.
  for (const version of [firstVersion, ...[...byVersion.keys()].filter((one) => one !== firstVersion)]) {
    const managed = byVersion.get(version);
    if (managed === undefined) continue;
    const [all, some] = [convert(full, version), convert(result, version)];
    if (all === undefined || some === undefined) continue;
    const named = (fields: FieldSet): FieldSet => withNamedFields(fields, all.type, all.schema);
    result = withoutFields(all, difference(named(fieldsOf(all)), union(named(fieldsOf(some)), named(managed))));
  }
  return result;
}

/** Adds what the manager did not apply last time either. */
function addDangling(full: Typed, reduced: Typed, last: Owned, lastFields: FieldSet, convert: Writing["convert"]): Typed {
  const some = convert(reduced, last.apiVersion);
  if (some === undefined) return full;
  const named = (object: Typed): FieldSet => withNamedFields(fieldsOf(object), full.type, full.schema);
  return withoutFields(full, intersection(difference(named(full), named(some)), lastFields));
}
