/** Fields of an API server that is newer than its clients: on each object, in its metadata, spec, status and conditions. */
import { exactText, parseExact } from "../../shared/base/exact-json.ts";

const NEW_FIELD = "newerField";
const NEW_VALUE = { since: "v9", items: [1, "two", { three: true }] };

type Json = null | boolean | number | string | readonly Json[] | { readonly [field: string]: Json };

/** Adds fields to the JSON text of an object or of a list of objects. Returns a Status, and text that is not JSON, unchanged. */
export function withNewFields(text: string): string {
  let value: Json;
  try {
    value = parseExact(text) as Json; // parsed JSON of any kind
  } catch {
    return text;
  }
  return exactText(added(value));
}

/** Adds fields to the objects in the complete lines of a watch's stream. */
export function withNewFieldsInLines(lines: Buffer): Buffer {
  const texts = lines.toString("utf8").split("\n").slice(0, -1);
  return Buffer.from(texts.map((line) => `${eventWithNewFields(line)}\n`).join(""));
}

/** Adds fields to one line of a watch, which has no newline. */
export function eventWithNewFields(line: string): string {
  try {
    const event = parseExact(line) as Json; // parsed JSON of any kind
    if (isFields(event)) return exactText({ ...event, object: added(event["object"] ?? null) });
  } catch {
    // Returns an invalid line unchanged.
  }
  return line;
}

function added(value: Json): Json {
  if (!isFields(value) || value["kind"] === "Status" || !isFields(value["metadata"])) return value;
  const { items } = value;
  const list: { readonly [field: string]: Json } = Array.isArray(items) ? { items: items.map((item: Json) => added(item)) } : {};
  return { ...value, ...inside(value), ...list, [NEW_FIELD]: NEW_VALUE };
}

/** Returns `metadata`, `spec` and `status` with the new field, also in each condition. */
function inside(object: { readonly [field: string]: Json }): { readonly [field: string]: Json } {
  const parts: Record<string, Json> = {};
  for (const name of ["metadata", "spec", "status"]) {
    const part = object[name];
    if (!isFields(part)) continue;
    const { conditions } = part;
    parts[name] = {
      ...part,
      ...(Array.isArray(conditions) && {
        conditions: conditions.map((one: Json) => (isFields(one) ? { ...one, [NEW_FIELD]: "new" } : one)),
      }),
      [NEW_FIELD]: NEW_VALUE,
    };
  }
  return parts;
}

function isFields(value: Json | undefined): value is { readonly [field: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
