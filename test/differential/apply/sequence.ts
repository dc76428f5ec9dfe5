/** Random sequences of writes by several managers, each based on the result of the previous one. */
import type { Json, JsonObject } from "../../../shared/base/json.ts";
import { clone, isObject, metaOf } from "../../../shared/base/json.ts";
import { builtInTypes, typeOfKind } from "../../../shared/api-server/apply/built-in-types.ts";
import {
  type Atom,
  DEDUCED,
  type ListType,
  type MapType,
  type TypeRef,
  TypeSchema,
  UNTYPED_TYPES,
} from "../../../shared/api-server/apply/type-schema.ts";
import { diceOf, type Dice } from "../dice.ts";
import { schemaText } from "./schema-text.ts";

export interface Step {
  readonly operation: "update" | "apply";
  readonly manager: string;
  readonly apiVersion: string;
  readonly subresource: "" | "status";
  readonly force: boolean;
  readonly afterSeconds: number;
  readonly object: JsonObject;
}

/** The kind and types of one object. */
export interface Subject {
  readonly kind: string;
  readonly versions: readonly string[];
  readonly schema: TypeSchema;
  readonly typeIn: (apiVersion: string) => TypeRef | undefined;
  /** The types for upstream: a schema, "" for a built-in kind, or "deduced". */
  readonly types: string;
  readonly roots: Readonly<Record<string, string>>;
}

const BUILT_IN = [
  "apps/v1 Deployment",
  "v1 Service",
  "v1 ConfigMap",
  "v1 Pod",
  "networking.k8s.io/v1 Ingress",
  "autoscaling/v2 HorizontalPodAutoscaler",
];
const CUSTOM_VERSIONS = ["example.com/v1", "example.com/v1beta1"];
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
const MANAGERS = ["kubectl", "helm", "operator", 'a "b"', "<ü>", "kubectl-edit"];
const MANY_MANAGERS = Array.from({ length: 16 }, (_, i) => `m${i}`);
const TEXTS = ["a", "b", "", "TCP", "x<y>&", 'q"\\', "ü😀", "\n"];
const KEYS = ["a", "b", "c/d.e", "ü", "z z"];

export class SequenceMaker {
  readonly subject: Subject;
  readonly length: number;
  readonly #dice: Dice;
  readonly #managers: readonly string[];
  /** The few fields of each type that a sequence uses, so that managers conflict. */
  readonly #fields = new Map<MapType, readonly string[]>();

  constructor(seed: number) {
    this.#dice = diceOf(seed);
    const dice = this.#dice;
    this.subject = dice.chance(0.6) ? builtIn(dice.pick(BUILT_IN)) : dice.chance(0.3) ? DEDUCED_SUBJECT : customSubject(dice);
    this.#managers = dice.chance(0.1) ? MANY_MANAGERS : MANAGERS.slice(0, dice.int(2, MANAGERS.length));
    this.length = this.#managers === MANY_MANAGERS ? dice.int(12, 30) : dice.int(2, 8);
  }

  /** The next write. @param live the current object */
  next(live: JsonObject | undefined): Step {
    const dice = this.#dice;
    const apiVersion = dice.chance(0.8) ? (this.subject.versions[0] ?? "") : dice.pick(this.subject.versions);
    const operation = dice.chance(this.#managers === MANY_MANAGERS ? 0.15 : 0.55) ? "apply" : "update";
    const subresource = dice.chance(0.15) ? "status" : "";
    const root = this.subject.typeIn(apiVersion);
    if (root === undefined) throw new Error(`no type in ${apiVersion}`);
    const made = operation === "apply" ? this.#configuration(root, live) : this.#update(root, live);
    const manager = dice.pick(this.#managers);
    if (operation === "update" && manager === "kubectl" && dice.chance(0.5))
      annotateLastApplied(made, apiVersion, dice.chance(0.9) ? this.subject.kind : "");
    const { managedFields, ...meta } = isObject(made["metadata"]) ? made["metadata"] : {};
    const sent =
      operation === "update" && managedFields !== undefined && dice.chance(0.5) ? { managedFields: this.#sentFields(managedFields) } : {};
    return {
      operation,
      manager,
      apiVersion,
      subresource,
      force: dice.chance(0.4),
      afterSeconds: dice.pick([0, 0, 1, 5]),
      object: { ...made, apiVersion, kind: this.subject.kind, metadata: { ...meta, name: "x", ...sent } },
    };
  }

  /** Returns the managed fields that a client sends: usually those that it has read. */
  #sentFields(read: Json): Json {
    const dice = this.#dice;
    if (!dice.chance(0.15) || !Array.isArray(read)) return read;
    const entries = read.filter(() => dice.chance(0.6));
    if (dice.chance(0.2)) return [{}];
    const broken = entries[0];
    if (dice.chance(0.2) && isObject(broken)) broken["fieldsType"] = "FieldsV2";
    return entries;
  }

  #configuration(type: TypeRef, live: JsonObject | undefined): JsonObject {
    const dice = this.#dice;
    if (live !== undefined && dice.chance(0.4)) {
      const some = this.#some(clone(live), 0.6);
      if (isObject(some)) {
        if (isObject(some["metadata"])) for (const field of ["managedFields", "uid", "resourceVersion"]) delete some["metadata"][field];
        return dice.chance(0.5) ? some : this.#changed(some, type, 0);
      }
    }
    const made = this.#value(type, 0);
    const configuration = isObject(made) ? made : {};
    if (dice.chance(0.02)) configuration["noSuchField"] = 1;
    return configuration;
  }

  #update(type: TypeRef, live: JsonObject | undefined): JsonObject {
    const made = live === undefined ? this.#value(type, 0) : this.#changed(clone(live), type, 0);
    return isObject(made) ? made : {};
  }

  /** Returns a random part of a value. */
  #some(value: Json, share: number): Json {
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(() => this.#dice.chance(share))
        .map(([key, each]) => [key, this.#some(each, 0.7)]),
    );
  }

  /** Returns the value with a few changes. */
  #changed(value: JsonObject, type: TypeRef, depth: number): JsonObject {
    const dice = this.#dice;
    const { map } = this.subject.schema.resolve(type);
    if (map === undefined) return value;
    for (const name of this.#names(map)) {
      if (name === "apiVersion" || name === "kind" || dice.chance(0.5)) continue;
      const of = map.fields.get(name)?.type ?? map.element;
      const current = value[name];
      if (of === undefined) continue;
      if (isObject(current) && dice.chance(0.7)) value[name] = this.#changed(current, of, depth + 1);
      else if (Array.isArray(current) && current.length > 0 && dice.chance(0.6)) value[name] = this.#changedList(current, of, depth + 1);
      else if (dice.chance(0.3)) delete value[name];
      else value[name] = this.#value(of, depth + 1);
    }
    return value;
  }

  #changedList(list: readonly Json[], type: TypeRef, depth: number): Json[] {
    const dice = this.#dice;
    const of = this.subject.schema.resolve(type).list;
    if (of === undefined) return [...list];
    const kept = list.flatMap((item) => {
      if (dice.chance(0.2)) return [];
      return [isObject(item) && dice.chance(0.4) && of.keys.length > 0 ? this.#keepingKeys(item, of, depth) : item];
    });
    if (dice.chance(0.3)) kept.reverse();
    return dice.chance(0.4) ? [...kept, ...this.#items(of, depth)] : kept;
  }

  #keepingKeys(item: JsonObject, { element, keys }: ListType, depth: number): JsonObject {
    const before = clone(item);
    return {
      ...this.#changed(item, element, depth),
      ...Object.fromEntries(keys.flatMap((key) => (before[key] === undefined ? [] : [[key, before[key]]]))),
    };
  }

  #value(type: TypeRef, depth: number): Json {
    const dice = this.#dice;
    const atom = this.subject.schema.resolve(type);
    const kinds = Object.keys(atom) as (keyof Atom)[]; // the fields of an Atom
    const kind = depth > 5 && atom.scalar !== undefined ? "scalar" : depth === 0 ? "map" : dice.pick(kinds);
    if (depth > 0 && dice.chance(0.02)) return null;
    if (kind === "map" && atom.map !== undefined) return this.#map(atom.map, depth);
    if (kind === "list" && atom.list !== undefined) return this.#items(atom.list, depth);
    switch (atom.scalar) {
      case "numeric":
        return dice.pick([0, 1, 2, 80, -3]);
      case "boolean":
        return dice.chance(0.5);
      case "string":
        return dice.pick(TEXTS);
      default:
        return dice.pick<Json>([0, 7, "a", "50%", true, 1.5]);
    }
  }

  #map(map: MapType, depth: number): JsonObject {
    if (depth > 7) return {};
    const made: JsonObject = {};
    for (const name of this.#names(map)) {
      if (depth === 0 && (name === "apiVersion" || name === "kind")) continue;
      const of = map.fields.get(name)?.type ?? map.element;
      if (of !== undefined && this.#dice.chance(depth < 2 ? 0.8 : 0.55)) made[name] = this.#value(of, depth + 1);
    }
    return made;
  }

  #names(map: MapType): readonly string[] {
    let names = this.#fields.get(map);
    if (names === undefined) {
      const all = [...map.fields.keys(), ...(map.element === undefined ? [] : KEYS)];
      const isRoot = map.fields.has("metadata") && map.fields.has("apiVersion");
      const isMeta = map.fields.has("managedFields");
      names = isMeta ? ["labels", "annotations", "finalizers", "ownerReferences"] : isRoot ? all : sample(this.#dice, all, 4);
      this.#fields.set(map, names);
    }
    return names;
  }

  #items(list: ListType, depth: number): Json[] {
    const dice = this.#dice;
    const items = Array.from({ length: dice.pick([0, 1, 1, 2, 3]) }, () => this.#item(list, depth));
    if (list.isAtomic || dice.chance(0.03)) return items;
    const seen = new Set<string>();
    return items.filter((item) => {
      const id = JSON.stringify(isObject(item) ? list.keys.map((key) => item[key] ?? null) : item);
      return !seen.has(id) && seen.add(id);
    });
  }

  #item(list: ListType, depth: number): Json {
    const { element, keys } = list;
    const item = this.#value(element, depth + 1);
    if (list.isAtomic) return item;
    if (keys.length === 0) return item ?? this.#dice.pick(TEXTS);
    const made = isObject(item) ? item : {};
    for (const [i, key] of keys.entries()) {
      const field = this.subject.schema.resolve(element).map?.fields.get(key);
      if (field === undefined || (field.default !== undefined && this.#dice.chance(0.3) && i > 0)) continue;
      const value = this.#value(field.type, 9);
      made[key] = value === null ? this.#dice.pick(["a", "b"]) : value;
    }
    return made;
  }
}

/** Sets the last-applied annotation as client-side apply does. */
function annotateLastApplied(object: JsonObject, apiVersion: string, kind: string): void {
  const { managedFields: _, ...meta } = metaOf(object);
  const metadata = { ...meta, annotations: { ...(isObject(meta["annotations"]) ? meta["annotations"] : {}) } };
  delete metadata.annotations[LAST_APPLIED];
  const text = JSON.stringify({ ...object, apiVersion, kind, metadata });
  object["metadata"] = { ...metaOf(object), annotations: { ...metadata.annotations, [LAST_APPLIED]: text } };
}

function sample<T>(dice: Dice, from: readonly T[], count: number): readonly T[] {
  const left = [...from];
  return Array.from({ length: Math.min(count, left.length) }, () => left.splice(dice.int(0, left.length - 1), 1)).flat();
}

function builtIn(apiVersionKind: string): Subject {
  const [apiVersion = "", kind = ""] = apiVersionKind.split(" ");
  return {
    kind,
    versions: [apiVersion],
    schema: builtInTypes(),
    typeIn: (version) => (version === apiVersion ? typeOfKind(apiVersion, kind) : undefined),
    types: "",
    roots: {},
  };
}

const DEDUCED_SUBJECT: Subject = {
  kind: "Thing",
  versions: CUSTOM_VERSIONS,
  schema: new TypeSchema(new Map(UNTYPED_TYPES)),
  typeIn: (version) => (CUSTOM_VERSIONS.includes(version) ? DEDUCED : undefined),
  types: "deduced",
  roots: {},
};

/** A kind with random types that differ slightly between its versions. */
function customSubject(dice: Dice): Subject {
  const types = new Map<string, Atom>(UNTYPED_TYPES);
  const meta: TypeRef = {
    map: {
      fields: new Map([
        ["labels", { type: { map: { fields: new Map(), element: { scalar: "string" }, isAtomic: false } } }],
        ["finalizers", { type: { list: { element: { scalar: "string" }, isAtomic: false, keys: [] } } }],
        ["managedFields", { type: { list: { element: { name: "__untyped_atomic_" }, isAtomic: true, keys: [] } } }],
      ]),
      element: { name: "__untyped_atomic_" },
      isAtomic: false,
    },
  };
  const part = {
    ...randomMap(dice, 1),
    name: { type: { scalar: "string" }, default: "n" },
    port: { type: { scalar: "numeric" } },
  } as const;
  types.set("part", { map: { fields: new Map(Object.entries(part)), element: undefined, isAtomic: false } });
  const spec = randomMap(dice, 0);
  for (const version of CUSTOM_VERSIONS) {
    const [first] = Object.keys(spec);
    // One field has a different type in the older version.
    const fields =
      version === CUSTOM_VERSIONS[0] || first === undefined ? spec : { ...spec, [first]: { type: relaxed(spec[first]?.type) } };
    types.set(`root ${version}`, {
      map: {
        fields: new Map([
          ["apiVersion", { type: { scalar: "string" } }],
          ["kind", { type: { scalar: "string" } }],
          ["metadata", { type: meta }],
          ["spec", { type: { map: { fields: new Map(Object.entries(fields)), element: undefined, isAtomic: false } } }],
          ["status", { type: DEDUCED }],
        ]),
        element: undefined,
        isAtomic: false,
      },
    });
  }
  const roots = Object.fromEntries(CUSTOM_VERSIONS.map((version) => [version, `root ${version}`]));
  return {
    kind: "Thing",
    versions: CUSTOM_VERSIONS,
    schema: new TypeSchema(types),
    typeIn: (version) => (roots[version] === undefined ? undefined : { name: roots[version] }),
    types: schemaText(types),
    roots,
  };
}

function relaxed(type: TypeRef | undefined): TypeRef {
  if (type === undefined || "name" in type) return type ?? DEDUCED;
  if (type.list !== undefined) return { list: { ...type.list, isAtomic: !type.list.isAtomic && true } };
  return type.map === undefined ? type : { map: { ...type.map, isAtomic: true } };
}

type Fields = Readonly<Record<string, { readonly type: TypeRef; readonly default?: Json }>>;

function randomMap(dice: Dice, depth: number): Fields {
  return Object.fromEntries(["f1", "f2", "f3", "f4"].map((name) => [name, { type: randomType(dice, depth) }]));
}

function randomType(dice: Dice, depth: number): TypeRef {
  const scalar = (): TypeRef => ({ scalar: dice.pick(["string", "numeric", "boolean", "untyped"]) });
  if (depth > 2) return scalar();
  const choices: readonly (() => TypeRef)[] = [
    scalar,
    () => ({ list: { element: randomType(dice, depth + 1), isAtomic: true, keys: [] } }),
    () => ({ list: { element: scalar(), isAtomic: false, keys: [] } }),
    () => ({ map: { fields: new Map(), element: randomType(dice, depth + 1), isAtomic: dice.chance(0.3) } }),
    () => ({ map: { fields: new Map(Object.entries(randomMap(dice, depth + 1))), element: undefined, isAtomic: dice.chance(0.3) } }),
    ...(depth === 0
      ? ([
          () => ({ list: { element: { name: "part" }, isAtomic: false, keys: dice.pick([["name"], ["port", "name"]]) } }),
          () => ({ name: "part", isAtomic: true }),
          () => DEDUCED,
        ] as const)
      : []),
  ];
  return dice.pick(choices)();
}
