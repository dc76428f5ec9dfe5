/**
 * Values with their types: validation, the set of their fields, and the removal of fields.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff typed/{typed,validate,tofieldset,remove,helpers}.go.
 */
import { isObject, type Json, type JsonObject, setOwn } from "@deltaloop/base";
import { EMPTY_SET, type FieldSet, type GrowingSet, insert } from "./field-set.ts";
import { compareText, goQuote } from "./go-json.ts";
import { indexed, itemElement } from "./list-items.ts";
import { elementText, fieldElement, type PathElement } from "./path-element.ts";
import type { Atom, ListType, MapType, Scalar, TypeRef, TypeSchema } from "./type-schema.ts";

export interface Typed {
  readonly value: JsonObject;
  readonly type: TypeRef;
  readonly schema: TypeSchema;
}

/** A value that is not of its type. */
export class TypeMismatchError extends Error {
  override name = "TypeMismatchError";

  constructor(problems: readonly string[]) {
    super(problems.length === 1 ? problems[0] : ["errors:", ...problems.map((problem) => `  ${problem}`)].join("\n"));
  }
}

/** @param allowsDuplicates repeated keys in a list are accepted, as in stored objects @throws {TypeMismatchError} */
export function typed(value: JsonObject, type: TypeRef, schema: TypeSchema, allowsDuplicates: boolean): Typed {
  const problems = validate(value, type, schema, allowsDuplicates, "");
  if (problems.length > 0) throw new TypeMismatchError(problems);
  return { value, type, schema };
}

/** Returns the one kind (map, scalar or list) of `atom` that the value has; all kinds if the value is null or has none of them. */
export function deduce(atom: Atom, value: Json | undefined): Atom {
  if (value === undefined || value === null) return atom;
  if (Array.isArray(value)) return atom.list === undefined ? atom : { list: atom.list };
  if (isObject(value)) return atom.map === undefined ? atom : { map: atom.map };
  return atom.scalar === undefined ? atom : { scalar: atom.scalar };
}

export function fieldType(map: MapType, name: string): TypeRef | undefined {
  return map.fields.get(name)?.type ?? map.element;
}

function validate(value: Json, type: TypeRef, schema: TypeSchema, allowsDuplicates: boolean, path: string): readonly string[] {
  const atom = deduce(schema.resolve(type), value);
  const below = (each: Json, of: TypeRef, element: string): readonly string[] =>
    validate(each, of, schema, allowsDuplicates, `${path}${element}`);
  if (atom.map !== undefined) {
    if (value === null) return [];
    return isObject(value) ? validateMap(value, atom.map, below, path) : [at(path, `expected map, got ${dump(value)}`)];
  }
  if (atom.scalar !== undefined) {
    const problem = scalarProblem(atom.scalar, value);
    return problem === undefined ? [] : [at(path, problem)];
  }
  if (atom.list === undefined || value === null) return [];
  if (!Array.isArray(value)) return [at(path, `expected list, got ${dump(value)}`)];
  return validateList(value, atom.list, { schema, allowsDuplicates, below, path });
}

type Below = (value: Json, type: TypeRef, element: string) => readonly string[];

function validateMap(value: JsonObject, map: MapType, below: Below, path: string): readonly string[] {
  const problems: string[] = [];
  for (const [key, each] of Object.entries(value)) {
    const type = fieldType(map, key);
    if (type === undefined) return [...problems, at(`${path}.${key}`, "field not declared in schema")];
    problems.push(...below(each, type, `.${key}`));
  }
  return problems;
}

function validateList(
  items: readonly Json[],
  list: ListType,
  { schema, allowsDuplicates, below, path }: { schema: TypeSchema; allowsDuplicates: boolean; below: Below; path: string },
): readonly string[] {
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const [i, item] of items.entries()) {
    let text = `[${i}]`;
    if (!list.isAtomic) {
      const element = itemElement(schema, list, item);
      if (typeof element === "string") return [...problems, at(path, `element ${i}: ${element}`)];
      text = elementText(element);
      if (seen.has(element.id) && !allowsDuplicates) problems.push(at(path, `duplicate entries for key ${text}`));
      seen.add(element.id);
    }
    problems.push(...below(item, list.element, text));
  }
  return problems;
}

function at(path: string, problem: string): string {
  return path === "" ? problem : `${path}: ${problem}`;
}

const KINDS: Readonly<Record<Scalar, readonly string[]>> = {
  numeric: ["number", "bigint"],
  string: ["string"],
  boolean: ["boolean"],
  untyped: ["number", "bigint", "string", "boolean"],
};
const EXPECTED: Readonly<Record<Scalar, string>> = {
  numeric: "numeric (int or float)",
  string: "string",
  boolean: "boolean",
  untyped: "any scalar",
};

function scalarProblem(scalar: Scalar, value: Json): string | undefined {
  if (value === null || KINDS[scalar].includes(typeof value)) return undefined;
  const got = { numeric: goType, string: goSyntax, boolean: dump, untyped: dump }[scalar](value);
  return `expected ${EXPECTED[scalar]}, got ${got}`;
}

/** Source: Go's `%#v` of valueUnstructured. */
function goSyntax(value: Json): string {
  return `&value.valueUnstructured{Value:${literal(value)}}`;
}

function literal(value: Json): string {
  if (typeof value === "string") return goQuote(value);
  if (value === null) return "interface {}(nil)";
  if (Array.isArray(value)) return `[]interface {}{${value.map(literal).join(", ")}}`;
  if (!isObject(value)) return String(value);
  const entries = Object.keys(value).toSorted(compareText);
  return `map[string]interface {}{${entries.map((key) => `${goQuote(key)}:${literal(value[key] ?? null)}`).join(", ")}}`;
}

/** Source: Go's `%T`. */
function goType(value: Json): string {
  if (Array.isArray(value)) return "[]interface {}";
  if (isObject(value)) return "map[string]interface {}";
  return typeof value === "boolean" ? "bool" : "string";
}

/** Source: Go's `%v` of valueUnstructured. */
function dump(value: Json): string {
  return `&{${dumped(value)}}`;
}

function dumped(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(dumped).join(" ")}]`;
  if (!isObject(value)) return value === null ? "<nil>" : String(value);
  return `map[${Object.keys(value)
    .sort()
    .map((key) => `${key}:${dumped(value[key] ?? null)}`)
    .join(" ")}]`;
}

/** The fields that a value sets. */
export function fieldsOf({ value, type, schema }: Typed): FieldSet {
  const set: GrowingSet = new Map();
  collect(value, type, { schema, set, path: [] });
  return set;
}

interface Collecting {
  readonly schema: TypeSchema;
  readonly set: GrowingSet;
  /** Changed while collecting. */
  readonly path: PathElement[];
}

function collect(value: Json, type: TypeRef, collecting: Collecting): void {
  const { schema, set, path } = collecting;
  const atom = deduce(schema.resolve(type), value);
  const { map, list } = atom;
  if (map !== undefined) {
    if (map.isAtomic) insert(set, path);
    else if (isObject(value)) collectMap(value, map, collecting);
  } else if (atom.scalar !== undefined) insert(set, path);
  else if (list !== undefined) {
    if (list.isAtomic) insert(set, path);
    else if (Array.isArray(value)) collectList(value, list, collecting);
  }
}

function collectMap(value: JsonObject, map: MapType, collecting: Collecting): void {
  const { path, set } = collecting;
  for (const [key, each] of Object.entries(value)) {
    const type = fieldType(map, key);
    path.push(fieldElement(key));
    if (type !== undefined) collect(each, type, collecting);
    const isEmpty = each === null || (isObject(each) && Object.keys(each).length === 0);
    if (isEmpty || !map.fields.has(key)) insert(set, path);
    path.pop();
  }
}

function collectList(items: readonly Json[], list: ListType, collecting: Collecting): void {
  const { path, set, schema } = collecting;
  const entries = indexed(schema, list, items);
  const counts = new Map<string, number>();
  for (const [{ id }] of entries) counts.set(id, (counts.get(id) ?? 0) + 1);
  for (const [element, item] of entries) {
    path.push(element);
    // If several items have the same key, their manager owns the entry as a whole, but none of its fields.
    if (counts.get(element.id) === 1) collect(item, list.element, collecting);
    insert(set, path);
    path.pop();
  }
}

/** The value without these fields and entries. */
export function withoutFields(from: Typed, fields: FieldSet): Typed {
  const value = remove(from.value, from.type, from.schema, fields);
  return { ...from, value: isObject(value) ? value : {} };
}

/** Null for what becomes empty, and for atomic lists and maps below which something is removed. */
function remove(value: Json, type: TypeRef, schema: TypeSchema, fields: FieldSet): Json {
  const { map, scalar, list } = deduce(schema.resolve(type), value);
  if (map !== undefined) {
    if (!isObject(value) || map.isAtomic) return null;
    const kept: JsonObject = {};
    for (const [key, each] of Object.entries(value)) {
      const node = fields.get(`f:${key}`);
      if (node?.isMember === true) continue;
      setOwn(kept, key, removeBelow(each, fieldType(map, key), schema, node?.children));
    }
    return Object.keys(kept).length > 0 ? kept : null;
  }
  if (scalar !== undefined) return value;
  if (list === undefined || !Array.isArray(value) || list.isAtomic) return null;
  const kept = indexed(schema, list, value).flatMap(([element, item]) => {
    const node = fields.get(element.id);
    return node?.isMember === true ? [] : [removeBelow(item, list.element, schema, node?.children)];
  });
  return kept.length > 0 ? kept : null;
}

function removeBelow(value: Json, type: TypeRef | undefined, schema: TypeSchema, fields: FieldSet = EMPTY_SET): Json {
  return fields.size === 0 || type === undefined ? value : remove(value, type, schema, fields);
}

/** The set with all named fields on the way to its members. Source: github.com/kubernetes-sigs/structured-merge-diff fieldpath/set.go (EnsureNamedFieldsAreMembers). */
export function withNamedFields(set: FieldSet, type: TypeRef | undefined, schema: TypeSchema): FieldSet {
  const atom = type === undefined ? {} : schema.resolve(type);
  return new Map(
    [...set].map(([id, node]) => {
      const { element, children } = node;
      if (children === undefined || children.size === 0) return [id, node];
      const isNamed = element.kind === "field" && atom.map?.fields.has(element.name) === true;
      const below =
        element.kind === "field" ? atom.map && fieldType(atom.map, element.name) : element.kind === "key" ? atom.list?.element : undefined;
      return [id, { element, isMember: node.isMember || isNamed, children: withNamedFields(children, below, schema) }];
    }),
  );
}

/**
 * Ownership by today's types: of what lies below a list or map that has become atomic, the list or map itself.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff typed/reconcile_schema.go.
 */
export function reconciled(set: FieldSet, type: TypeRef, schema: TypeSchema): FieldSet {
  let isChanged = false;
  const visit = (fields: FieldSet, ref: TypeRef): FieldSet => {
    const atom = schema.resolve(ref);
    const out = new Map<string, { element: PathElement; isMember: boolean; children: FieldSet | undefined }>();
    for (const [id, node] of fields) {
      const below = atom.map !== undefined ? fieldTypeOf(atom.map, node.element) : atom.list?.element;
      const { element, children } = node;
      if (below === undefined || isUntyped(atom.map) || (atom.map === undefined && atom.scalar !== undefined)) {
        out.set(id, node);
        continue;
      }
      const inner = schema.resolve(below);
      const isLeaf = node.isMember && (children === undefined || children.size === 0);
      if (isMadeAtomic(inner, isLeaf, children)) {
        out.set(id, { element, isMember: true, children: undefined });
        isChanged ||= !isLeaf;
      } else out.set(id, children === undefined || children.size === 0 ? node : { ...node, children: visit(children, below) });
    }
    return out;
  };
  const result = visit(set, type);
  return isChanged ? result : set;
}

/** The walk goes by map, scalar, list, as for a value of unknown kind. */
function isMadeAtomic({ map, scalar, list }: Atom, isLeaf: boolean, children: FieldSet | undefined): boolean {
  if (isLeaf) return false;
  if (map !== undefined) return !isUntyped(map) && map.isAtomic && children !== undefined && children.size > 0;
  return scalar === undefined && list?.isAtomic === true;
}

function fieldTypeOf(map: MapType, element: PathElement): TypeRef | undefined {
  return element.kind === "field" ? fieldType(map, element.name) : map.element;
}

function isUntyped(map: MapType | undefined): boolean {
  if (map === undefined || map.fields.size > 0 || map.element === undefined) return false;
  return "name" in map.element ? map.element.name === "__untyped_deduced_" : map.element.scalar === "untyped";
}
