/**
 * The Go types of a pod template (deployment Appendix A), parsed from their table. Both the hash (deployment §7.2)
 * and the normal form (deployment §6.1) use them, so that they cannot disagree. The text is parsed at first use, to keep
 * the import cheap.
 */
import { OWN_RELEASE } from "../releases/acting.ts";
import type { Release } from "../releases/release.ts";
import { typeTable } from "./type-table.ts";

export interface GoStruct {
  readonly fields: readonly GoField[];
  /** By JSON key, with embedded structs flattened, as they are in JSON. */
  readonly byKey: ReadonlyMap<string, GoType>;
}

export interface GoField {
  readonly name: string;
  /** JSON key; unused for an embedded field. */
  readonly key: string;
  readonly embedded: boolean;
  readonly type: GoType;
}

/** `text` is the type as Go prints it: `[]v1.Container`, `*int64`, `v1.ResourceList`. */
export type GoType =
  | { readonly kind: "string" | "bool" | "int" | "time" | "intOrString"; readonly text: string }
  /** `textType`: the type of a Quantity's own field `s`, which is part of the hash. */
  | { readonly kind: "quantity"; readonly text: string; readonly textType: QuantityTextType }
  | { readonly kind: "pointer" | "list" | "map"; readonly text: string; readonly element: GoType }
  | { readonly kind: "struct"; readonly text: string; readonly struct: GoStruct };

/** Go's string, or from 1.38 a string with its format. */
export type QuantityTextType = "string" | "cachedString";

const parsed = new WeakMap<Release, GoStruct>();

/** PodTemplateSpec of a release, with everything it refers to. */
export function podTemplateLayout(release: Release = OWN_RELEASE): GoStruct {
  let layout = parsed.get(release);
  if (layout === undefined) parsed.set(release, (layout = parseLayout(release.types, "PodTemplateSpec")));
  return layout;
}

function parseLayout(types: readonly string[], root: string): GoStruct {
  const bodies = new Map(typeTable(types));
  // It has exactly the fields of Container.
  bodies.set("EphemeralContainerCommon", bodies.get("Container") ?? []);
  const builtIns = builtInTypes(quantityTextType(bodies));
  const structs = new Map<string, GoStruct>();

  function structOf(name: string, body: readonly string[]): GoStruct {
    const known = structs.get(name);
    if (known !== undefined) return known;
    const fields = body.map((word): GoField => {
      const [, field = "", key, embedded, type = ""] = /^(\w+)(?:=(\w+))?(\^?):(\S+)$/.exec(word) ?? [];
      const prefix = /^(\*|\[\])?/.exec(type)?.[0] ?? "";
      const base = type.slice(prefix.length);
      return {
        name: field,
        key: key ?? field.charAt(0).toLowerCase() + field.slice(1),
        embedded: embedded === "^",
        type: prefixed(prefix, baseType(base === "~" ? field : base)),
      };
    });
    const byKey = new Map<string, GoType>();
    for (const { key, embedded, type } of fields) {
      if (embedded && type.kind === "struct") for (const [inner, innerType] of type.struct.byKey) byKey.set(inner, innerType);
      else byKey.set(key, type);
    }
    const struct = { fields, byKey };
    structs.set(name, struct);
    return struct;
  }

  function baseType(name: string): GoType {
    const builtIn = builtIns[name];
    if (builtIn !== undefined) return builtIn;
    const body = bodies.get(name);
    const text = name.includes(".") ? name : `v1.${name}`;
    return body === undefined ? { kind: "string", text } : { kind: "struct", text, struct: structOf(name, body) };
  }

  return structOf(root, bodies.get(root) ?? []);
}

function prefixed(prefix: string, element: GoType): GoType {
  if (prefix === "") return element;
  return { kind: prefix === "*" ? "pointer" : "list", text: prefix + element.text, element };
}

/** The printed forms of a Quantity's fields that quantity-text.ts knows. */
const QUANTITY_FIELDS = "i:resource.int64Amount d:resource.infDecAmount s:TEXT Format^:resource.Format";
const CACHED_STRING = "str:s format:resource.formatCode";

/** @throws {Error} for a table with a Quantity that quantity-text.ts cannot print: every hash would be wrong */
function quantityTextType(bodies: ReadonlyMap<string, readonly string[]>): QuantityTextType {
  const fields = bodies.get("resource.Quantity")?.join(" ");
  if (fields === QUANTITY_FIELDS.replace("TEXT", "s")) return "string";
  const isCached = bodies.get("resource.cachedString")?.join(" ") === CACHED_STRING;
  if (isCached && fields === QUANTITY_FIELDS.replace("TEXT", "resource.cachedString")) return "cachedString";
  throw new Error(`resource.Quantity has unknown fields: ${fields}`);
}

const STRING: GoType = { kind: "string", text: "string" };

function builtInTypes(textType: QuantityTextType): Readonly<Record<string, GoType>> {
  const quantity: GoType = { kind: "quantity", text: "resource.Quantity", textType };
  return {
    s: STRING,
    b: { kind: "bool", text: "bool" },
    i32: { kind: "int", text: "int32" },
    i64: { kind: "int", text: "int64" },
    m: { kind: "map", text: "map[string]string", element: STRING },
    Time: { kind: "time", text: "v1.Time" },
    "resource.Quantity": quantity,
    "intstr.IntOrString": { kind: "intOrString", text: "intstr.IntOrString" },
    ResourceList: { kind: "map", text: "v1.ResourceList", element: quantity },
  };
}
