/**
 * Types as structured-merge-diff knows them: which lists are atomic, sets or maps, and which maps are atomic.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff schema/elements.go.
 */
import type { Json } from "@deltaloop/base";

export type Scalar = "numeric" | "string" | "boolean" | "untyped";

export interface ListType {
  readonly element: TypeRef;
  readonly isAtomic: boolean;
  /** The key fields of a list of objects with the type `map`; empty for a set. */
  readonly keys: readonly string[];
}

export interface MapType {
  readonly fields: ReadonlyMap<string, StructField>;
  /** The type of fields that `fields` does not list; undefined allows none. */
  readonly element: TypeRef | undefined;
  readonly isAtomic: boolean;
}

export interface StructField {
  readonly type: TypeRef;
  readonly default?: Json;
}

/** A value may be of each kind that is present. */
export interface Atom {
  readonly scalar?: Scalar;
  readonly list?: ListType;
  readonly map?: MapType;
}

/** A type by name, or its definition; `isAtomic` overrides that of the type. */
export type TypeRef = Atom | { readonly name: string; readonly isAtomic?: boolean };

export class TypeSchema {
  readonly #types: ReadonlyMap<string, Atom>;
  readonly #overridden = new Map<string, Atom>();

  constructor(types: ReadonlyMap<string, Atom>) {
    this.#types = types;
  }

  has(name: string): boolean {
    return this.#types.has(name);
  }

  /** @throws {RangeError} for an unknown name, which is a fault of the table */
  resolve(ref: TypeRef): Atom {
    if (!("name" in ref)) return ref;
    const atom = this.#types.get(ref.name);
    if (atom === undefined) throw new RangeError(`no type "${ref.name}"`);
    const { isAtomic } = ref;
    if (isAtomic === undefined) return atom;
    const key = `${ref.name} ${isAtomic}`;
    let overridden = this.#overridden.get(key);
    if (overridden === undefined) {
      overridden =
        atom.map !== undefined ? { map: { ...atom.map, isAtomic } } : atom.list !== undefined ? { list: { ...atom.list, isAtomic } } : atom;
      this.#overridden.set(key, overridden);
    }
    return overridden;
  }
}

const ATOMIC: TypeRef = { name: "__untyped_atomic_" };
/** Objects without a schema: maps field by field, lists as a whole. Source: github.com/kubernetes-sigs/structured-merge-diff typed/parser.go (DeducedParseableType). */
export const DEDUCED: TypeRef = { name: "__untyped_deduced_" };

export const UNTYPED_TYPES: readonly (readonly [string, Atom])[] = [
  [
    "__untyped_atomic_",
    { scalar: "untyped", list: { element: ATOMIC, isAtomic: true, keys: [] }, map: { fields: new Map(), element: ATOMIC, isAtomic: true } },
  ],
  [
    "__untyped_deduced_",
    {
      scalar: "untyped",
      list: { element: ATOMIC, isAtomic: true, keys: [] },
      map: { fields: new Map(), element: DEDUCED, isAtomic: false },
    },
  ],
];
