/** Inserts mistakes at random places of an object: null, unknown fields, and invalid embedded resources. */
import { isObject, type Json, type JsonObject } from "../../../shared/base/json.ts";
import type { Dice } from "../dice.ts";

const TYPE_META = ["apiVersion", "kind", "metadata"];
const SHARE = 0.15;

const UNKNOWN: readonly Json[] = ["x", 1, null, { a: 1 }, [{ b: null }]];
const EMBEDDED: readonly JsonObject[] = [
  { kind: "" },
  { kind: "no kind" },
  { kind: null },
  { apiVersion: "" },
  { apiVersion: "a/b/c" },
  { metadata: null },
  { metadata: { name: "x", labels: { "a b": "c" } } },
  { metadata: { name: "x", other: 1 } },
  { metadata: { name: 1 } },
  { metadata: { name: "x", labels: {}, creationTimestamp: null } },
];

/** Returns a copy of a value of the schema with mistakes. */
export function disturbed(value: Json, schema: JsonObject, dice: Dice): Json {
  if (Array.isArray(value)) {
    const items = childOf(schema, "items");
    return value.map((item) => (dice.chance(SHARE / 3) ? null : disturbed(item, items, dice)));
  }
  if (!isObject(value)) return value;
  const properties = childOf(schema, "properties");
  const isEmbedded = schema["x-kubernetes-embedded-resource"] === true;
  const entries = Object.entries(value).map(([key, each]): [string, Json] => {
    if (isEmbedded && TYPE_META.includes(key)) return [key, each];
    if (dice.chance(SHARE)) return [key, null];
    const property = properties[key];
    return [key, disturbed(each, isObject(property) ? property : childOf(schema, "additionalProperties"), dice)];
  });
  return {
    ...Object.fromEntries(entries),
    ...(dice.chance(SHARE) && { [dice.pick(["unknown", "other"])]: dice.pick(UNKNOWN) }),
    ...(isEmbedded && dice.chance(0.5) && dice.pick(EMBEDDED)),
  };
}

function childOf(schema: JsonObject, name: string): JsonObject {
  const child = schema[name];
  return isObject(child) ? child : {};
}
