/**
 * The fields that a reader of an API object uses, with their protobuf numbers and types. A table of them is both the list of the fields
 * that a projection may read (`PartOf`) and the decoder's schema: it skips all other fields by their length.
 *
 * Field numbers never change between releases. test/unit/protobuf/fields.test.ts compares the tables with upstream's types.
 */

/** Media type of API objects in protobuf. */
export const PROTOBUF = "application/vnd.kubernetes.protobuf";

/** A field under its JSON name: number, type, and the fields of a message or list, or the keys of a map that are read (default: all). */
export type Field =
  | readonly [number: number, type: "string" | "int" | "bool" | "time"]
  | readonly [number: number, type: "map", keys?: readonly string[]]
  | readonly [number: number, type: "message" | "list", fields: Fields];

export interface Fields {
  readonly [name: string]: Field;
}

/** An object of which only `fields` are read. The values are as received: each is checked where it is used. */
export type PartOf<F extends Fields> = { readonly [Name in keyof F]?: unknown };

type FieldsOf<F extends Field> = F extends readonly [number, "message" | "list", infer Inner extends Fields] ? Inner : never;
type NamesOf<F extends Fields, Type extends Field[1]> = { [Name in keyof F]: F[Name][1] extends Type ? Name : never }[keyof F];

/** Returns the message in a field; an empty one if it is absent or not an object. */
export function messageIn<F extends Fields, Name extends NamesOf<F, "message">>(
  object: PartOf<F>,
  _fields: F,
  name: Name,
): PartOf<FieldsOf<F[Name]>> {
  const value = object[name];
  return isObject(value) ? value : {};
}

/** Returns the objects of a list; none if it is absent or not a list. */
export function listIn<F extends Fields, Name extends NamesOf<F, "list">>(
  object: PartOf<F>,
  _fields: F,
  name: Name,
): readonly PartOf<FieldsOf<F[Name]>>[] {
  const value = object[name];
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
