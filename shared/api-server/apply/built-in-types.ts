/** Reads type-table.ts. */
import type { Json } from "@deltaloop/base";
import { TYPE_TABLE } from "./type-table.ts";
import {
  type Atom,
  type ListType,
  type MapType,
  type Scalar,
  type StructField,
  type TypeRef,
  TypeSchema,
  UNTYPED_TYPES,
} from "./type-schema.ts";

const SCALARS: Readonly<Record<string, Scalar>> = { s: "string", n: "numeric", b: "boolean", u: "untyped" };

/** A recursive descent over one line of the table. */
class TypeReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  ref(): TypeRef {
    const [marked = "", mark = "", name = ""] = this.#match(/([!~]?)((?:[a-z0-9_]+\.)+\w+|__\w+)/uy) ?? [];
    if (marked !== "") return { name, ...(mark === "" ? {} : { isAtomic: mark === "!" }) };
    return this.atom();
  }

  atom(): Atom {
    let atom: Atom = {};
    do {
      if (this.#takes("[")) atom = { ...atom, list: this.#list() };
      else if (this.#takes("{")) atom = { ...atom, map: this.#map() };
      else atom = { ...atom, scalar: this.#scalar() };
    } while (this.#takes("|"));
    return atom;
  }

  #scalar(): Scalar {
    const scalar = SCALARS[this.#text.charAt(this.#at)];
    if (scalar === undefined) throw new SyntaxError(`no type at ${this.#at} of ${this.#text}`);
    this.#at += 1;
    return scalar;
  }

  #list(): ListType {
    const element = this.ref();
    const [, bang = "", keys = ""] = this.#match(/\](?:(!)|\(([^)]*)\))/uy) ?? [];
    return { element, isAtomic: bang === "!", keys: keys === "" ? [] : keys.split(",") };
  }

  #map(): MapType {
    const fields = new Map<string, StructField>();
    let element: TypeRef | undefined;
    while (!this.#takes("}")) {
      this.#takes(" ");
      const [, name = "", preset] = this.#match(/([\w$*-]+)(?:=("[^"]*"|[^:]+))?:/uy) ?? [];
      if (name === "") throw new SyntaxError(`no field at ${this.#at} of ${this.#text}`);
      const type = this.ref();
      if (name === "*") element = type;
      else fields.set(name, { type, ...(preset === undefined ? {} : { default: JSON.parse(preset) as Json }) }); // the generator's
    }
    return { fields, element, isAtomic: this.#takes("!") };
  }

  #takes(letter: string): boolean {
    const takes = this.#text[this.#at] === letter;
    if (takes) this.#at += 1;
    return takes;
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text) ?? undefined;
    this.#at += match?.[0].length ?? 0;
    return match;
  }
}

function readTable(table: string): ReadonlyMap<string, Atom> {
  const lines = table.trim().split("\n");
  return new Map([
    ...UNTYPED_TYPES,
    ...lines.map((line): [string, Atom] => {
      const space = line.indexOf(" ");
      return [line.slice(0, space), new TypeReader(line.slice(space + 1)).atom()];
    }),
  ]);
}

/**
 * Types of CustomResourceDefinitions, which the sources of type-table.ts do not contain.
 * Source: apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go.
 */
const DEFINITION_TYPES = `
apiextensions.v1.CustomResourceDefinition {apiVersion:s kind:s metadata:meta.v1.ObjectMeta spec:apiextensions.v1.Spec status:apiextensions.v1.Status}
apiextensions.v1.Spec {conversion:apiextensions.v1.Conversion group:s names:apiextensions.v1.Names preserveUnknownFields:b scope:s versions:[__untyped_atomic_]!}
apiextensions.v1.Names {categories:[s]! kind:s listKind:s plural:s shortNames:[s]! singular:s}
apiextensions.v1.Conversion {strategy:s webhook:__untyped_deduced_}
apiextensions.v1.Status {acceptedNames:apiextensions.v1.Names conditions:[apiextensions.v1.Condition](type) observedGeneration:n storedVersions:[s]!}
apiextensions.v1.Condition {lastTransitionTime:meta.v1.Time message:s observedGeneration:n reason:s status:s type:s}
`;

let builtIn: TypeSchema | undefined;

/** The types of the served kinds, read at the first write. */
export function builtInTypes(): TypeSchema {
  return (builtIn ??= new TypeSchema(readTable(`${TYPE_TABLE.trim()}\n${DEFINITION_TYPES.trim()}`)));
}

const GROUPS: Readonly<Record<string, string>> = { "": "core" };

/** The type of a kind: `apps.v1.Deployment`. */
export function typeOfKind(apiVersion: string, kind: string): TypeRef | undefined {
  const [group = "", version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  const name = `${GROUPS[group] ?? group.split(".")[0]}.${version}.${kind}`;
  return builtInTypes().has(name) ? { name } : undefined;
}
