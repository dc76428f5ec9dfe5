/**
 * The Go types of a pod template (deployment Appendix A), parsed from their table. Both the hash (deployment §7.2)
 * and the normal form (deployment §6.1) use them, so that they cannot disagree. The text is parsed at first use, to keep
 * the import cheap.
 */
import { POD_TEMPLATE_TYPES } from "./pod-template-types.ts";

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
  | { readonly kind: "string" | "bool" | "int" | "quantity" | "time" | "intOrString"; readonly text: string }
  | { readonly kind: "pointer" | "list" | "map"; readonly text: string; readonly element: GoType }
  | { readonly kind: "struct"; readonly text: string; readonly struct: GoStruct };

let parsed: GoStruct | undefined;

/** PodTemplateSpec with everything it refers to. */
export function podTemplateLayout(): GoStruct {
  parsed ??= parseLayout(POD_TEMPLATE_TYPES, "PodTemplateSpec");
  return parsed;
}

function parseLayout(layout: string, root: string): GoStruct {
  const bodies = new Map<string, string>();
  for (const [, name = "", body = ""] of layout.matchAll(/(\w+)\{([^}]*)\}/g)) bodies.set(name, body);
  // It has exactly the fields of Container.
  bodies.set("EphemeralContainerCommon", bodies.get("Container") ?? "");
  const structs = new Map<string, GoStruct>();

  function structOf(name: string, body: string): GoStruct {
    const known = structs.get(name);
    if (known !== undefined) return known;
    const fields = [...body.matchAll(/(\w+)(?:=(\w+))?(\^?):(\S+)/g)].map(([, field = "", key, embedded, type = ""]): GoField => {
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
    const builtIn = BUILT_IN[name];
    if (builtIn !== undefined) return builtIn;
    const body = bodies.get(name);
    const text = name.includes(".") ? name : `v1.${name}`;
    return body === undefined ? { kind: "string", text } : { kind: "struct", text, struct: structOf(name, body) };
  }

  return structOf(root, bodies.get(root) ?? "");
}

function prefixed(prefix: string, element: GoType): GoType {
  if (prefix === "") return element;
  return { kind: prefix === "*" ? "pointer" : "list", text: prefix + element.text, element };
}

const STRING: GoType = { kind: "string", text: "string" };
const QUANTITY: GoType = { kind: "quantity", text: "resource.Quantity" };

const BUILT_IN: Readonly<Record<string, GoType>> = {
  s: STRING,
  b: { kind: "bool", text: "bool" },
  i32: { kind: "int", text: "int32" },
  i64: { kind: "int", text: "int64" },
  m: { kind: "map", text: "map[string]string", element: STRING },
  Time: { kind: "time", text: "v1.Time" },
  "resource.Quantity": QUANTITY,
  "intstr.IntOrString": { kind: "intOrString", text: "intstr.IntOrString" },
  ResourceList: { kind: "map", text: "v1.ResourceList", element: QUANTITY },
};
