/**
 * An object with an applied configuration merged into it.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff typed/merge.go.
 */
import { type Json, type JsonObject, isObject, setOwn, ownAt } from "@deltaloop/base";
import { asList, asMap, indexed } from "./list-items.ts";
import type { PathElement } from "./path-element.ts";
import { deduce, fieldType, type Typed } from "./typed.ts";
import type { ListType, MapType, TypeRef, TypeSchema } from "./type-schema.ts";

export function merged(live: Typed, applied: Typed): Typed {
  const value = merge(live.value, applied.value, live.type, live.schema);
  return { ...live, value: isObject(value) ? value : {} };
}

function merge(lhs: Json | undefined, rhs: Json | undefined, type: TypeRef, schema: TypeSchema): Json | undefined {
  if (lhs === undefined && rhs === undefined) return undefined;
  // If the values have different kinds, the result has the kind of the applied value.
  const { map, scalar, list } = deduce(schema.resolve(type), rhs === undefined ? lhs : rhs);
  if (map !== undefined) return mergeMap(lhs, rhs, map, schema);
  if (scalar !== undefined) return leaf(lhs, rhs);
  return list === undefined ? undefined : mergeList(lhs, rhs, list, schema);
}

function leaf(lhs: Json | undefined, rhs: Json | undefined): Json | undefined {
  return rhs === undefined ? lhs : rhs;
}

function mergeMap(lhs: Json | undefined, rhs: Json | undefined, type: MapType, schema: TypeSchema): Json | undefined {
  const [left, right] = [asMap(lhs), asMap(rhs)];
  if (type.isAtomic || (isEmpty(left) && isEmpty(right))) return leaf(lhs, rhs);
  const out: JsonObject = {};
  for (const key of new Set([...Object.keys(left ?? {}), ...Object.keys(right ?? {})])) {
    const of = fieldType(type, key);
    const value = of === undefined ? leaf(ownAt(left, key), ownAt(right, key)) : merge(ownAt(left, key), ownAt(right, key), of, schema);
    if (value !== undefined) setOwn(out, key, value);
  }
  return isEmpty(out) ? undefined : out;
}

function isEmpty(map: JsonObject | undefined): boolean {
  return map === undefined || Object.keys(map).length === 0;
}

/** The entries of `rhs` keep their order; those of `lhs` alone stay where they are between the common ones. */
function mergeList(lhs: Json | undefined, rhs: Json | undefined, type: ListType, schema: TypeSchema): Json | undefined {
  const [left, right] = [asList(lhs), asList(rhs)];
  if (type.isAtomic || ((left?.length ?? 0) === 0 && (right?.length ?? 0) === 0)) return leaf(lhs, rhs);
  const leftItems = indexed(schema, type, left);
  const rightItems = indexed(schema, type, right);
  const inLeft = new Map<string, Json>();
  // A repeated entry is not merged, but replaced.
  for (const [{ id }, item] of leftItems) inLeft.set(id, inLeft.has(id) ? null : item);
  const inRight = new Map(rightItems.map(([{ id }, item]) => [id, item]));
  const out: Json[] = [];
  const add = (l: Json | undefined, r: Json | undefined): void => {
    const item = merge(l, r, type.element, schema);
    if (item !== undefined) out.push(item);
  };
  for (const { element, left: i } of interleaved(leftItems, rightItems, inLeft, inRight)) {
    if (i === undefined) add(inLeft.get(element.id), inRight.get(element.id));
    else add(leftItems[i]?.[1], undefined);
  }
  return out.length > 0 ? out : undefined;
}

type Items = readonly (readonly [PathElement, Json])[];

/** The order of the result: common and applied entries, and the places of entries that only `lhs` has. */
function* interleaved(
  lhs: Items,
  rhs: Items,
  inLeft: ReadonlyMap<string, Json>,
  inRight: ReadonlyMap<string, Json>,
): Generator<{ readonly element: PathElement; readonly left?: number }> {
  const shared = rhs.filter(([{ id }]) => inLeft.has(id)).map(([{ id }]) => id);
  let nextShared = shared.shift();
  const done = new Set<string>();
  for (let l = 0, r = 0; l < lhs.length || r < rhs.length;) {
    const left = lhs[l]?.[0];
    const right = rhs[r]?.[0];
    if (left !== undefined && right !== undefined) {
      if (left.id === right.id) {
        done.add(left.id);
        yield { element: left };
        l += 1;
        r += 1;
        nextShared = shared.shift();
        continue;
      }
      // Shared, but not the one that comes next.
      if (inRight.has(left.id) && nextShared !== undefined && nextShared !== left.id) {
        l += 1;
        continue;
      }
    }
    if (left !== undefined) {
      if (!inRight.has(left.id)) {
        yield { element: left, left: l };
        l += 1;
        continue;
      }
      if (done.has(left.id)) l += 1;
    }
    if (right !== undefined) {
      done.add(right.id);
      yield { element: right };
      r += 1;
      if (nextShared === right.id) nextShared = shared.shift();
    }
  }
}
