/**
 * Sets of field paths, as a tree.
 *
 * FS1 a set is never changed once it is built; operations share subtrees.
 * FS2 no node is without a member in it or below it, so a set is empty exactly if it has no nodes.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff fieldpath/{set,serialize}.go.
 */
import { isObject, type Json, type JsonObject, setOwn } from "@deltaloop/base";
import { compareElements, parseElement, type Path, type PathElement } from "./path-element.ts";

export interface FieldNode {
  readonly element: PathElement;
  /** Whether the path that ends here is in the set. */
  readonly isMember: boolean;
  readonly children: FieldSet | undefined;
}

/** Nodes by the id of their element. */
export type FieldSet = ReadonlyMap<string, FieldNode>;

export const EMPTY_SET: FieldSet = new Map();

interface GrowingNode {
  readonly element: PathElement;
  isMember: boolean;
  children: GrowingSet | undefined;
}

/** A set while it is built. */
export type GrowingSet = Map<string, GrowingNode>;

/** Adds a path. The empty path, the whole object, has no owner. */
export function insert(set: GrowingSet, path: Path): void {
  let at = set;
  for (const [i, element] of path.entries()) {
    let node = at.get(element.id);
    if (node === undefined) {
      node = { element, isMember: false, children: undefined };
      at.set(element.id, node);
    }
    if (i === path.length - 1) node.isMember = true;
    else at = node.children ??= new Map();
  }
}

export function setOf(...paths: readonly Path[]): FieldSet {
  const set: GrowingSet = new Map();
  for (const path of paths) insert(set, path);
  return set;
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0) return b;
  if (b.size === 0 || a === b) return a;
  const out = new Map(a);
  for (const [id, node] of b) {
    const other = a.get(id);
    if (other === undefined) out.set(id, node);
    else
      out.set(id, {
        element: other.element,
        isMember: other.isMember || node.isMember,
        children: union(other.children ?? EMPTY_SET, node.children ?? EMPTY_SET),
      });
  }
  return out;
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  return filterNodes(a, (node) => {
    const other = b.get(node.element.id);
    if (other === undefined) return undefined;
    const children = intersection(node.children ?? EMPTY_SET, other.children ?? EMPTY_SET);
    return { element: node.element, isMember: node.isMember && other.isMember, children };
  });
}

/** Returns the fields of `a` that are not in `b`; a parent in `b` does not remove its children. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  if (b.size === 0) return a;
  return filterNodes(a, (node) => {
    const other = b.get(node.element.id);
    if (other === undefined) return node;
    const { children } = node;
    return {
      element: node.element,
      isMember: node.isMember && !other.isMember,
      children: children && other.children ? difference(children, other.children) : children,
    };
  });
}

/** Like `difference`, but a path in `b` also removes its children. */
export function recursiveDifference(a: FieldSet, b: FieldSet): FieldSet {
  if (b.size === 0) return a;
  return filterNodes(a, (node) => {
    const other = b.get(node.element.id);
    if (other === undefined) return node;
    if (other.isMember) return undefined;
    const { children } = node;
    return {
      element: node.element,
      isMember: node.isMember,
      children: children && other.children ? recursiveDifference(children, other.children) : children,
    };
  });
}

function filterNodes(set: FieldSet, map: (node: FieldNode) => FieldNode | undefined): FieldSet {
  const out = new Map<string, FieldNode>();
  for (const [id, node] of set) {
    const mapped = map(node);
    if (mapped !== undefined && (mapped.isMember || (mapped.children?.size ?? 0) > 0)) out.set(id, mapped);
  }
  return out;
}

/** All paths, those of one level before those below it, in upstream's order. */
export function pathsOf(set: FieldSet, prefix: Path = []): Path[] {
  const nodes = sorted(set);
  return [
    ...nodes.filter((node) => node.isMember).map((node) => [...prefix, node.element]),
    ...nodes.flatMap((node) => (node.children === undefined ? [] : pathsOf(node.children, [...prefix, node.element]))),
  ];
}

function sorted(set: FieldSet): FieldNode[] {
  return [...set.values()].sort((a, b) => compareElements(a.element, b.element));
}

/** The value of `fieldsV1`. */
export function encodeFields(set: FieldSet): JsonObject {
  const encoded: JsonObject = {};
  for (const { element, isMember, children } of sorted(set)) {
    const hasChildren = children !== undefined && children.size > 0;
    const below = hasChildren ? encodeFields(children) : {};
    setOwn(encoded, element.id, isMember && hasChildren ? { ".": {}, ...below } : below);
  }
  return encoded;
}

/** @throws {SyntaxError} */
export function decodeFields(fields: Json | undefined): FieldSet {
  if (fields === undefined || fields === null) return EMPTY_SET;
  const out = new Map<string, FieldNode>();
  if (!isObject(fields)) throw new SyntaxError("fieldsV1 is not an object");
  for (const [key, below] of Object.entries(fields)) {
    if (key === ".") continue;
    const element = parseElement(key);
    if (element === undefined) continue;
    const children = decodeFields(below);
    const isMember = children.size === 0 || (isObject(below) && Object.hasOwn(below, "."));
    out.set(element.id, { element, isMember, children });
  }
  return out;
}
