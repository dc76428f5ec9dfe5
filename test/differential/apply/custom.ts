/**
 * Random CustomResourceDefinition schemas, each with one object, to compare pruning, defaulting, and the types that server-side apply uses.
 */
import { type Json, type JsonObject, clone } from "../../../shared/base/json.ts";
import { encodeFields } from "../../../shared/api-server/apply/field-set.ts";
import { goJson } from "../../../shared/api-server/apply/go-json.ts";
import { TypeSchema, UNTYPED_TYPES } from "../../../shared/api-server/apply/type-schema.ts";
import { fieldsOf, typed } from "../../../shared/api-server/apply/typed.ts";
import { customType } from "../../../shared/api-server/custom/custom-types.ts";
import { admitCustom } from "../../../shared/api-server/custom/structural.ts";
import { diceOf, type Dice } from "../dice.ts";

export interface Custom {
  readonly schema: JsonObject;
  readonly object: JsonObject;
}

export interface Admitted {
  readonly object?: JsonObject;
  readonly fields?: JsonObject;
  readonly error?: string;
}

const NAMES = ["a", "b", "c", "d", "metadata"];
const TEXTS = ["x", "y", "1"];

export function randomCustom(seed: number): Custom {
  const dice = diceOf(seed);
  const schema = {
    type: "object",
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object", ...(dice.chance(0.5) && { "x-kubernetes-preserve-unknown-fields": true }) },
      spec: objectSchema(dice, 0),
      ...(dice.chance(0.5) && { status: randomSchema(dice, 0) }),
    },
    ...(dice.chance(0.1) && { "x-kubernetes-preserve-unknown-fields": true }),
  };
  const object = valueOf(schema, dice);
  // a value of the root's type is an object
  return { schema, object: { ...(object as JsonObject), apiVersion: "example.com/v1", kind: "Thing", metadata: { name: "x" } } };
}

export function admitOurs({ schema, object: sent }: Custom): Admitted {
  const object = clone(sent);
  admitCustom(object, schema);
  try {
    const types = new TypeSchema(new Map(UNTYPED_TYPES));
    return { object, fields: encodeFields(fieldsOf(typed(object, customType(withoutEmbedded(schema)), types, true))) };
  } catch {
    return { object, error: "type" };
  }
}

/**
 * Upstream's function leaves the metadata of an embedded resource untyped. The API server adds its type before; test/differential/embedded
 * compares that.
 */
function withoutEmbedded<T extends Json>(schema: T): T {
  // the schema without this field
  return JSON.parse(JSON.stringify(schema, (name, value: unknown) => (name === "x-kubernetes-embedded-resource" ? undefined : value))) as T;
}

export function isSame(ours: Admitted, theirs: Admitted): boolean {
  return goJson(ours as JsonObject) === goJson(theirs as JsonObject); // both are JSON
}

function objectSchema(dice: Dice, depth: number): JsonObject {
  const properties = Object.fromEntries(NAMES.filter(() => dice.chance(0.5)).map((name) => [name, randomSchema(dice, depth + 1)]));
  return {
    type: "object",
    ...(dice.chance(0.8) ? { properties } : { additionalProperties: dice.chance(0.2) ? dice.chance(0.5) : randomSchema(dice, depth + 1) }),
    ...(dice.chance(0.2) && { "x-kubernetes-preserve-unknown-fields": true }),
    ...(dice.chance(0.1) && { "x-kubernetes-embedded-resource": true }),
    ...(dice.chance(0.3) && { "x-kubernetes-map-type": dice.pick(["atomic", "granular"]) }),
  };
}

function randomSchema(dice: Dice, depth: number): JsonObject {
  const schema = baseSchema(dice, depth);
  const nullable = dice.chance(0.2) && { nullable: true };
  return { ...schema, ...nullable, ...(dice.chance(0.25) && { default: valueOf(schema, dice) }) };
}

function baseSchema(dice: Dice, depth: number): JsonObject {
  if (depth < 3 && dice.chance(0.4)) return objectSchema(dice, depth);
  if (depth < 3 && dice.chance(0.5)) return listSchema(dice, depth);
  if (dice.chance(0.1)) return { "x-kubernetes-int-or-string": true };
  if (dice.chance(0.1)) return { "x-kubernetes-preserve-unknown-fields": true };
  if (dice.chance(0.3)) return { type: "string", format: dice.pick(["byte", "date-time"]) };
  return { type: dice.pick(["string", "integer", "number", "boolean"]) };
}

function listSchema(dice: Dice, depth: number): JsonObject {
  switch (dice.int(1, 3)) {
    case 1:
      return { type: "array", items: { type: "string" }, "x-kubernetes-list-type": "set" };
    case 2: {
      const { properties } = objectSchema(dice, depth + 1);
      const named = {
        type: "object",
        properties: { ...(properties as JsonObject), a: { type: "string", ...(dice.chance(0.5) && { default: "x" }) } },
      }; // undefined if the node has none
      return { type: "array", items: named, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"] };
    }
    default:
      return { type: "array", items: randomSchema(dice, depth + 1) };
  }
}

/** A random value that usually fits the schema. */
function valueOf(schema: JsonObject, dice: Dice): Json {
  if (dice.chance(0.06)) return null;
  if (dice.chance(0.03)) return dice.pick<Json>(["text", 3, true, {}, [1], { a: { b: 1 } }]);
  const items = schema["items"];
  switch (schema["type"]) {
    case "object": {
      const fields = (schema["properties"] ?? {}) as Readonly<Record<string, JsonObject>>; // schemas of this generator have an object here
      const rest = schema["additionalProperties"];
      const known = Object.entries(fields).flatMap(([name, each]): readonly (readonly [string, Json])[] =>
        dice.chance(0.6) ? [[name, valueOf(each, dice)]] : [],
      );
      const of = typeof rest === "object" && rest !== null ? (rest as JsonObject) : { type: "string" }; // the same
      const more = NAMES.filter(() => dice.chance(0.25)).map((name) => [name, valueOf(of, dice)] as const);
      return Object.fromEntries([...more, ...known]);
    }
    case "array":
      return Array.from({ length: dice.int(0, 3) }, () => valueOf(items as JsonObject, dice)); // the same
    case "string":
      return dice.pick(TEXTS);
    case "boolean":
      return dice.chance(0.5);
    case "integer":
    case "number":
      return dice.int(0, 3);
    default:
      return dice.pick<Json>([1, "50%", { a: 1, b: [null, { c: 1 }] }, ["x"]]);
  }
}
