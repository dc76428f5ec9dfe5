/**
 * The Go types of a pod template (deployment Appendix A), parsed from their table. Both the hash (deployment §7.2)
 * and the normal form (deployment §6.1) use them, so that they cannot disagree. The text is parsed at first use, to keep
 * the import cheap.
 */
import { OWN_RELEASE } from "../releases/acting.ts";
import type { Release } from "../releases/release.ts";
import { typeTable } from "./type-table.ts";

type TemplateKind = "string" | "bool" | "int" | "quantity" | "time" | "intOrString";
/** Kinds of scalars in all tables; a pod template has only those of TemplateKind. */
export type ScalarKind = TemplateKind | "bytes" | "float" | "duration" | "timeOrDuration";

export interface GoStruct<Kind extends ScalarKind = TemplateKind> {
  readonly fields: readonly GoField<Kind>[];
  /** Fields by JSON key, with embedded structs flattened as in JSON. */
  readonly byKey: ReadonlyMap<string, GoType<Kind>>;
}

export interface GoField<Kind extends ScalarKind = TemplateKind> {
  readonly name: string;
  /** JSON key; unused for an embedded field. */
  readonly key: string;
  readonly embedded: boolean;
  readonly type: GoType<Kind>;
}

/** `text` is the type as Go prints it: `[]v1.Container`, `*int64`, `v1.ResourceList`. */
export type GoType<Kind extends ScalarKind = TemplateKind> =
  | { readonly kind: Exclude<Kind, "quantity">; readonly text: string }
  /** `textType`: the type of a Quantity's own field `s`, which is part of the hash. */
  | { readonly kind: "quantity"; readonly text: string; readonly textType: QuantityTextType }
  | { readonly kind: "pointer" | "list" | "map"; readonly text: string; readonly element: GoType<Kind> }
  | { readonly kind: "struct"; readonly text: string; readonly struct: GoStruct<Kind> };

/** A struct of any table. */
export type AnyStruct = GoStruct<ScalarKind>;
export type AnyType = GoType<ScalarKind>;

/** Go's string, or from 1.38 a string with its format. */
export type QuantityTextType = "string" | "cachedString";

const parsed = new WeakMap<Release, GoStruct>();

/** PodTemplateSpec of a release, with everything it refers to. */
export function podTemplateLayout(release: Release = OWN_RELEASE): GoStruct {
  let layout = parsed.get(release);
  // the table of a pod template has no other kinds
  if (layout === undefined) parsed.set(release, (layout = parseGoTypes(release.types)("PodTemplateSpec") as GoStruct));
  return layout;
}

/** Structs of tables by name; each table may change or extend earlier ones. @throws {RangeError} for a missing name */
export function parseGoTypes(tables: readonly string[]): (name: string) => AnyStruct {
  const bodies = new Map(typeTable(tables));
  // Upstream's EphemeralContainerCommon has exactly the fields of Container.
  bodies.set("EphemeralContainerCommon", bodies.get("Container") ?? []);
  const builtIns = builtInTypes(quantityTextType(bodies));
  const structs = new Map<string, AnyStruct>();

  function structOf(name: string, body: readonly string[]): AnyStruct {
    const known = structs.get(name);
    if (known !== undefined) return known;
    const fields = body.map((word): GoField<ScalarKind> => {
      const [, field = "", key, embedded, type = ""] = /^(\w+)(?:=(\w+))?(\^?):(\S+)$/.exec(word) ?? [];
      const prefix = /^(?:\*|\[\]|%)*/.exec(type)?.[0] ?? "";
      const base = type.slice(prefix.length);
      return {
        name: field,
        key: key ?? field.charAt(0).toLowerCase() + field.slice(1),
        embedded: embedded === "^",
        type: prefixed(prefix, baseType(base === "~" ? field : base)),
      };
    });
    const byKey = new Map<string, AnyType>();
    for (const { key, embedded, type } of fields) {
      if (embedded && type.kind === "struct") for (const [inner, innerType] of type.struct.byKey) byKey.set(inner, innerType);
      else byKey.set(key, type);
    }
    const struct = { fields, byKey };
    structs.set(name, struct);
    return struct;
  }

  function baseType(name: string): AnyType {
    const builtIn = builtIns[name];
    if (builtIn !== undefined) return builtIn;
    const body = bodies.get(name);
    const text = name.includes(".") ? name : `v1.${name}`;
    return body === undefined ? { kind: "string", text } : { kind: "struct", text, struct: structOf(name, body) };
  }

  return (name) => {
    const body = bodies.get(name);
    if (body === undefined) throw new RangeError(`unknown Go type ${name}`);
    return structOf(name, body);
  };
}

function prefixed(prefix: string, base: AnyType): AnyType {
  if (prefix === "") return base;
  const [first = "", rest = ""] = /^(\*|\[\]|%)(.*)$/.exec(prefix)?.slice(1) ?? [];
  const element = prefixed(rest, base);
  if (first === "%") return { kind: "map", text: `map[string]${element.text}`, element };
  return { kind: first === "*" ? "pointer" : "list", text: first + element.text, element };
}

/** The printed forms of a Quantity's fields that quantity-text.ts supports. */
const QUANTITY_FIELDS = "i:resource.int64Amount d:resource.infDecAmount s:TEXT Format^:resource.Format";
const CACHED_STRING = "str:s format:resource.formatCode";

/** @throws {Error} for a table with a Quantity that quantity-text.ts cannot print, because every hash would be wrong */
function quantityTextType(bodies: ReadonlyMap<string, readonly string[]>): QuantityTextType {
  const fields = bodies.get("resource.Quantity")?.join(" ");
  if (fields === undefined) return "string"; // a table without Quantity is not hashed
  if (fields === QUANTITY_FIELDS.replace("TEXT", "s")) return "string";
  const isCached = bodies.get("resource.cachedString")?.join(" ") === CACHED_STRING;
  if (isCached && fields === QUANTITY_FIELDS.replace("TEXT", "resource.cachedString")) return "cachedString";
  throw new Error(`resource.Quantity has unknown fields: ${fields}`);
}

const STRING: AnyType = { kind: "string", text: "string" };

function builtInTypes(textType: QuantityTextType): Readonly<Record<string, AnyType>> {
  const quantity: AnyType = { kind: "quantity", text: "resource.Quantity", textType };
  return {
    s: STRING,
    b: { kind: "bool", text: "bool" },
    i32: { kind: "int", text: "int32" },
    i64: { kind: "int", text: "int64" },
    u32: { kind: "int", text: "uint32" },
    f64: { kind: "float", text: "float64" },
    bytes: { kind: "bytes", text: "[]uint8" },
    m: { kind: "map", text: "map[string]string", element: STRING },
    Time: { kind: "time", text: "v1.Time" },
    MicroTime: { kind: "time", text: "v1.MicroTime" },
    Duration: { kind: "duration", text: "v1.Duration" },
    TimeOrMetaDuration: { kind: "timeOrDuration", text: "v1.TimeOrMetaDuration" },
    "resource.QuantityValue": quantity,
    "resource.Quantity": quantity,
    "intstr.IntOrString": { kind: "intOrString", text: "intstr.IntOrString" },
    ResourceList: { kind: "map", text: "v1.ResourceList", element: quantity },
  };
}
