/**
 * JSON as Go's decoder reads it into a struct: a value of another type is an error, `null` counts as absent, and unknown fields are kept.
 *
 * Source: apimachinery pkg/runtime/serializer/json; UnmarshalJSON of apimachinery's and component-base's types.
 */
import { isObject, parseGoDuration, setOwn } from "@deltaloop/base";
import type { Json, JsonObject } from "@deltaloop/base";
import { parseQuantity } from "../quantity/quantity.ts";
import type { AnyStruct, AnyType } from "./pod-template-layout.ts";

/** A value that its field cannot hold. */
export interface Mistake {
  /** `spec.containers[0].args[0]`, `metadata.labels[app]`. */
  readonly path: string;
  /** The field as Go's errors name it: struct and path of fields, with embedded structs and without list indexes and map keys. */
  readonly goField: string;
  readonly type: AnyType;
  readonly value: Json;
}

export interface Decoded {
  readonly object: JsonObject;
  /** Mistakes in the order of the text. */
  readonly mistakes: readonly Mistake[];
  /** Fields that the struct does not have: `spec.containers[0].imagee`. */
  readonly unknown: readonly string[];
}

const RANGES: Readonly<Record<string, readonly [min: bigint, max: bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  // The bound is 2^63, one more than in Go, because the JavaScript number 2^63 - 1 equals 2^63.
  int64: [-(2n ** 63n), 2n ** 63n],
};
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** A field that is kept unchanged. */
const RAW = "managedFields";

interface Path {
  readonly above: Path | undefined;
  /** The key of a field, or `[3]` or `[key]` of an entry. */
  readonly step: string;
  /** The struct with that field; `name` may have its package. */
  readonly within?: { readonly struct: AnyStruct; readonly name: string };
}

/** Decodes `object` as the struct called `name`. It is not changed. */
export function decodeGo(object: JsonObject, struct: AnyStruct, name: string): Decoded {
  const mistakes: Mistake[] = [];
  const unknown: string[] = [];

  /** Returns undefined for an absent field. */
  function decode(value: Json, type: AnyType, path: Path): Json | undefined {
    // A Duration's UnmarshalJSON also receives null.
    if (value === null && type.kind !== "duration") return undefined;
    switch (type.kind) {
      case "pointer":
        return decode(value, type.element, path);
      case "struct":
        return isObject(value) ? decodeStruct(value, type.struct, type.text, path) : mistaken(value, type, path);
      case "map":
        if (!isObject(value)) return mistaken(value, type, path);
        return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, entry(each, type.element, key, path)]));
      case "list":
        if (!Array.isArray(value)) return mistaken(value, type, path);
        return value.map((each, i) => entry(each, type.element, String(i), path));
      default:
        return fits(type, value) ? value : mistaken(value, type, path);
    }
  }

  function entry(value: Json, type: AnyType, key: string, above: Path): Json {
    return decode(value, type, { above, step: `[${key}]` }) ?? zero(type);
  }

  function decodeStruct(value: JsonObject, of: AnyStruct, typeName: string, above: Path | undefined): JsonObject {
    const within = { struct: of, name: typeName };
    const decoded: JsonObject = {};
    for (const [step, each] of Object.entries(value)) {
      const type = of.byKey.get(step);
      const path = { above, step, within };
      if (type === undefined) unknown.push(pathText(path));
      const made = type === undefined || step === RAW ? each : decode(each, type, path);
      if (made !== undefined) setOwn(decoded, step, made);
    }
    return decoded;
  }

  function mistaken(value: Json, type: AnyType, path: Path): undefined {
    mistakes.push({ path: pathText(path), goField: goField(path), type, value });
    return undefined;
  }

  return { object: decodeStruct(object, struct, name, undefined), mistakes, unknown };
}

function pathText({ above, step }: Path): string {
  if (above === undefined) return step;
  return `${pathText(above)}${step.startsWith("[") ? "" : "."}${step}`;
}

function goField(path: Path): string {
  const fields: string[] = [];
  let struct = "";
  for (let at: Path | undefined = path; at !== undefined; at = at.above) {
    if (at.within === undefined) continue;
    const { step, within } = at;
    if (struct === "") struct = within.name.replace(/^.*\./u, "");
    const embedded = within.struct.fields.find((one) => one.embedded && one.type.kind === "struct" && one.type.struct.byKey.has(step));
    fields.unshift(...(embedded === undefined ? [step] : [embedded.name, step]));
  }
  return [struct, ...fields].join(".");
}

/** `spec.containers[0].args[0] is a number, not a string`. Quotes only the type of the value, because the value may be a secret. */
export function mistakeText({ path, type, value }: Mistake): string {
  const needed = expectation(type);
  if (typeof value === "string" && type.kind !== "string") {
    const isWrittenWrongly = type.kind === "quantity" || type.kind === "duration" || type.kind === "timeOrDuration";
    if (isWrittenWrongly) return `${path} is not ${needed}`;
  }
  const got = value === null ? "null" : Array.isArray(value) ? "a list" : isObject(value) ? "an object" : `a ${typeof value}`;
  return `${path} is ${got}, not ${needed}`;
}

function expectation(type: AnyType): string {
  switch (type.kind) {
    case "pointer":
      return expectation(type.element);
    case "struct":
    case "map":
      return "an object";
    case "list":
      return "a list";
    case "int":
      return `a whole number (${type.text})`;
    default:
      return EXPECTATIONS[type.kind];
  }
}

const EXPECTATIONS = {
  string: "a string",
  bytes: "base64",
  bool: "true or false",
  float: "a number",
  quantity: "a quantity such as 500m or 1Gi",
  time: "a time such as 2026-01-02T03:04:05Z",
  duration: "a duration such as 1m30s",
  timeOrDuration: "a duration such as 1m30s",
  intOrString: "a whole number or a string",
} as const;

function fits(type: AnyType, value: Json): boolean {
  switch (type.kind) {
    case "string":
      return typeof value === "string";
    case "bytes":
      return typeof value === "string" && BASE64.test(value.replaceAll(/[\r\n]/gu, ""));
    case "bool":
      return typeof value === "boolean";
    case "int":
      return isInteger(value, type.text);
    case "float":
      return typeof value === "number";
    case "quantity":
      return (typeof value === "string" || typeof value === "number") && parseQuantity(String(value)) !== undefined;
    case "time":
      return typeof value === "string" && TIME.test(value);
    case "duration":
      return typeof value === "string" && parseGoDuration(value) !== undefined;
    case "timeOrDuration":
      return isInteger(value, "int64") || (typeof value === "string" && parseGoDuration(value) !== undefined);
    case "intOrString":
      return typeof value === "string" || isInteger(value, "int32");
    default:
      return true;
  }
}

/** Integers that JavaScript would round are bigints in a template (exact-json.ts). */
function isInteger(value: unknown, size: string): boolean {
  const [min, max] = RANGES[size] ?? [0n, 0n];
  if (typeof value === "bigint") return value >= min && value <= max;
  return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max;
}

/** The zero value that replaces `null` in a list or map. */
function zero(type: AnyType): Json {
  switch (type.kind) {
    case "string":
      return "";
    case "bool":
      return false;
    case "struct":
      return {};
    case "int":
    case "float":
    case "intOrString":
      return 0;
    case "quantity":
      return "0";
    default:
      return null;
  }
}
