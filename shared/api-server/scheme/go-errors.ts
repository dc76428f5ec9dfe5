/** Go's error texts for JSON of the wrong type. Source: Go encoding/json, time/format.go, encoding/base64; apimachinery api/resource. */
import type { Mistake } from "@deltaloop/kube/pod-template";
import { isObject, type Json } from "@deltaloop/base";

export function goMistakeText(mistake: Mistake): string {
  const { value, type } = mistake;
  switch (type.kind) {
    case "quantity":
      return quantityProblem(typeof value === "string" ? value.trim() : JSON.stringify(value));
    case "time":
      return typeof value === "string" ? timeProblem(value, type.text) : cannotUnmarshal(mistake, "string");
    case "bytes":
      return typeof value === "string" ? base64Problem(value) : cannotUnmarshal(mistake, type.text);
    case "intOrString":
      return cannotUnmarshal(mistake, "int32");
    case "pointer":
      return goMistakeText({ ...mistake, type: type.element });
    default:
      return cannotUnmarshal(mistake, type.text);
  }
}

function cannotUnmarshal({ value, goField }: Mistake, type: string): string {
  const isNumber = typeof value === "number" && /^u?int\d+$/u.test(type);
  return `json: cannot unmarshal ${isNumber ? `number ${value}` : kindOf(value)} into Go struct field ${goField} of type ${type}`;
}

export function kindOf(value: Json): string {
  if (Array.isArray(value)) return "array";
  if (isObject(value)) return "object";
  return typeof value === "boolean" ? "bool" : typeof value;
}

function quantityProblem(text: string): string {
  const isWellFormed = text !== "" && /^[+-]?\d*(?:\.\d*)?[eEinumkKMGTP]*[-+]?\d*$/u.test(text);
  return isWellFormed
    ? "unable to parse quantity's suffix"
    : "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
}

const TIME_PARTS: readonly (readonly [part: string, match: RegExp])[] = [
  ["2006", /^\d{4}/u],
  ["-", /^-/u],
  ["01", /^\d\d/u],
  ["-", /^-/u],
  ["02", /^\d\d/u],
  ["T", /^T/u],
  ["15", /^\d\d/u],
  [":", /^:/u],
  ["04", /^\d\d/u],
  [":", /^:/u],
  ["05", /^\d\d(?:\.\d+)?/u],
  ["Z07:00", /^(?:Z|[+-]\d\d:\d\d)/u],
];

function timeProblem(text: string, type: string): string {
  const layout = type.endsWith("MicroTime") ? "2006-01-02T15:04:05.000000Z07:00" : "2006-01-02T15:04:05Z07:00";
  let rest = text;
  for (const [part, match] of TIME_PARTS) {
    if (!match.test(rest)) return `parsing time "${text}" as "${layout}": cannot parse "${rest}" as "${part}"`;
    rest = rest.replace(match, "");
  }
  return `parsing time "${text}": extra text: "${rest}"`;
}

function base64Problem(text: string): string {
  const bad = text.search(/[^A-Za-z0-9+/\r\n]/u);
  return `illegal base64 data at input byte ${bad >= 0 ? bad : text.length - (text.length % 4)}`;
}
