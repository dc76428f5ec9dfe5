/**
 * The fields in which two objects differ.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff typed/compare.go.
 */
import { type Json, jsonEqual, ownAt } from "@deltaloop/base";
import { type FieldSet, type GrowingSet, insert } from "./field-set.ts";
import { asList, asMap, indexed } from "./list-items.ts";
import { fieldElement, type PathElement } from "./path-element.ts";
import { deduce, fieldType, type Typed } from "./typed.ts";
import type { Atom, ListType, MapType, TypeRef, TypeSchema } from "./type-schema.ts";

export interface Comparison {
  readonly removed: FieldSet;
  readonly modified: FieldSet;
  readonly added: FieldSet;
}

interface Walk {
  readonly schema: TypeSchema;
  readonly removed: GrowingSet;
  readonly modified: GrowingSet;
  readonly added: GrowingSet;
  /** Changed during the walk. */
  readonly path: PathElement[];
}

export function compared(before: Typed, after: Typed): Comparison {
  const walk: Walk = { schema: before.schema, removed: new Map(), modified: new Map(), added: new Map(), path: [] };
  compare(before.value, after.value, before.type, walk);
  return walk;
}

function compare(lhs: Json | undefined, rhs: Json | undefined, type: TypeRef, walk: Walk): void {
  const atom = walk.schema.resolve(type);
  const [left, right] = [deduce(atom, lhs), deduce(atom, rhs)];
  let isLeaf: boolean;
  if (rhs === undefined) isLeaf = compareAs(left, lhs, rhs, walk);
  else if (lhs === undefined || isSameKind(left, right)) isLeaf = compareAs(right, lhs, rhs, walk);
  else {
    // One kind goes, another comes.
    compareAs(left, lhs, rhs, walk);
    isLeaf = compareAs(right, lhs, rhs, walk);
  }
  if (isLeaf) return;
  if (lhs === undefined) insert(walk.added, walk.path);
  else if (rhs === undefined) insert(walk.removed, walk.path);
}

function isSameKind(a: Atom, b: Atom): boolean {
  return (
    (a.map === undefined) === (b.map === undefined) &&
    (a.scalar === undefined) === (b.scalar === undefined) &&
    (a.list === undefined) === (b.list === undefined)
  );
}

/** @returns whether it was compared as a whole */
function compareAs({ map, scalar, list }: Atom, lhs: Json | undefined, rhs: Json | undefined, walk: Walk): boolean {
  if (map !== undefined) return compareMaps(map, lhs, rhs, walk);
  if (scalar !== undefined) return compareLeaves(lhs, rhs, walk);
  return list !== undefined && compareLists(list, lhs, rhs, walk);
}

function compareLeaves(lhs: Json | undefined, rhs: Json | undefined, { added, removed, modified, path }: Walk): true {
  if (lhs === undefined) insert(added, path);
  else if (rhs === undefined) insert(removed, path);
  else if (!jsonEqual(lhs, rhs)) insert(modified, path);
  return true;
}

function compareMaps(type: MapType, lhs: Json | undefined, rhs: Json | undefined, walk: Walk): boolean {
  const [left, right] = [asMap(lhs) ?? {}, asMap(rhs) ?? {}];
  const keys = Object.keys(left);
  const rightKeys = Object.keys(right);
  // Empty and null stay apart.
  if (type.isAtomic || (keys.length === 0 && rightKeys.length === 0)) return compareLeaves(lhs, rhs, walk);
  for (const key of rightKeys) if (!Object.hasOwn(left, key)) keys.push(key);
  for (const key of keys) {
    const of = fieldType(type, key);
    if (of === undefined) continue;
    walk.path.push(fieldElement(key));
    compare(ownAt(left, key), ownAt(right, key), of, walk);
    walk.path.pop();
  }
  return false;
}

function compareLists(type: ListType, lhs: Json | undefined, rhs: Json | undefined, walk: Walk): boolean {
  const [left, right] = [asList(lhs) ?? [], asList(rhs) ?? []];
  if (type.isAtomic || (left.length === 0 && right.length === 0)) return compareLeaves(lhs, rhs, walk);
  const entries = new Map<string, { readonly element: PathElement; readonly before: Json[]; readonly after: Json[] }>();
  for (const [side, items] of [
    ["before", left],
    ["after", right],
  ] as const)
    for (const [element, item] of indexed(walk.schema, type, items)) {
      const entry = entries.get(element.id) ?? { element, before: [], after: [] };
      entry[side].push(item);
      entries.set(element.id, entry);
    }
  for (const { element, before, after } of entries.values()) {
    walk.path.push(element);
    compareEntries(type.element, before, after, walk);
    walk.path.pop();
  }
  return false;
}

/** Entries of one element. Repeated ones count as a whole. */
function compareEntries(type: TypeRef, before: readonly Json[], after: readonly Json[], walk: Walk): void {
  if (before.length <= 1 && after.length <= 1) compare(before[0], after[0], type, walk);
  else if (before.length >= 2 && after.length >= 2) {
    if (before.length !== after.length || !before.every((item, i) => jsonEqual(item, after[i]))) insert(walk.modified, walk.path);
  } else if (before.length >= 2) {
    if (after.length > 0) compare(undefined, after[0], type, walk);
    insert(walk.removed, walk.path);
  } else {
    if (before.length > 0) compare(before[0], undefined, type, walk);
    insert(walk.added, walk.path);
  }
}
