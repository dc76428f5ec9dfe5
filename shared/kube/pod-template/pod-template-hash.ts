/**
 * Upstream's pod-template-hash (deployment §7). The template is printed as Go prints its value, with zero fields and type names,
 * and the text is hashed with FNV-1a; so the hash depends on the release's Go types.
 *
 * Differs from upstream: a creationTimestamp or deletionTimestamp in the template, which is unusual, is printed
 * without the host's time zone tables, which upstream's text would contain.
 */
import { exactText, isObject } from "@deltaloop/base";
import { OWN_RELEASE } from "../releases/acting.ts";
import type { Release } from "../releases/release.ts";
import { type GoStruct, type GoType, podTemplateLayout } from "./pod-template-layout.ts";
import { quantityText } from "../quantity/quantity-text.ts";
import { parseTime } from "../objects/time.ts";
import type { PodTemplateSpec } from "../objects/wire.ts";

const FNV_OFFSET = 2_166_136_261;
const FNV_PRIME = 16_777_619;
/** apimachinery's alphabet for names: no vowels and no characters that resemble them. */
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";

/**
 * FNV-1a state after the template's text. A cached Deployment carries it, so that a sync can finish the hash with the
 * current collision count. Source: pkg/controller/controller_utils.go ComputeHash.
 */
export function podTemplateHashState(template: PodTemplateSpec, release: Release = OWN_RELEASE): number {
  return fnv1a(FNV_OFFSET, Buffer.from(podTemplateText(template, release)));
}

/**
 * The hash as used in labels and names, 1–10 characters. An absent count and 0 give different hashes.
 * Source: controller_utils.go ComputeHash, apimachinery pkg/util/rand SafeEncodeString.
 */
export function podTemplateHash(state: number, collisionCount?: number): string {
  const count = Buffer.alloc(8);
  if (collisionCount !== undefined) count.writeUInt32LE(collisionCount >>> 0);
  const hash = collisionCount === undefined ? state : fnv1a(state, count);
  return Array.from(String(hash), (digit) => ALPHABET.charAt(digit.charCodeAt(0) % ALPHABET.length)).join("");
}

/** The text to hash. It contains the template's values: never log or store it. Source: k8s.io/utils/dump ForHash. */
export function podTemplateText(template: PodTemplateSpec, release: Release = OWN_RELEASE): string {
  return `(v1.PodTemplateSpec)${structText(podTemplateLayout(release), template)}`;
}

function fnv1a(state: number, bytes: Buffer): number {
  let hash = state;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return hash >>> 0;
}

/** `value` is the JSON object; embedded structs read their fields from the same object. */
function structText(struct: GoStruct, value: unknown): string {
  const object = (isObject(value) ? value : {}) as Readonly<Record<string, unknown>>; // only known keys are read
  const fields = struct.fields.map(({ name, key, embedded, type }) => {
    return `${name}:(${type.text})${valueText(type, embedded ? object : object[key])}`;
  });
  return `{${fields.join(" ")}}`;
}

function valueText(type: GoType, value: unknown): string {
  const absent = value === null || value === undefined;
  switch (type.kind) {
    case "string":
      return absent ? "" : plainText(value);
    case "bool":
      return value === true ? "true" : "false";
    case "int":
      return absent ? "0" : plainText(value);
    case "quantity":
      return quantityText(absent ? "0" : plainText(value), type.textType);
    case "intOrString":
      return intOrStringText(value);
    case "time":
      return timeText(value);
    case "pointer":
      return absent ? "<nil>" : valueText(type.element, value);
    case "list":
      if (!Array.isArray(value) || value.length === 0) return "<nil>";
      return `[${value.map((element) => valueText(type.element, element)).join(" ")}]`;
    case "map":
      return mapText(type.element, value);
    case "struct":
      return structText(type.struct, value);
    default:
      return type satisfies never;
  }
}

/** Prints a list or object in place of a scalar. No API server sends such a value, but it must not make the watcher throw. */
function plainText(value: unknown): string {
  return typeof value === "object" ? exactText(value) : String(value);
}

function intOrStringText(value: unknown): string {
  if (typeof value === "string") return `{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)${value}}`;
  return `{Type:(intstr.Type)0 IntVal:(int32)${typeof value === "number" ? value : 0} StrVal:(string)}`;
}

function mapText(element: GoType, value: unknown): string {
  const entries = Object.entries(isObject(value) ? value : {}).filter(([, entry]) => entry !== null);
  if (entries.length === 0) return "<nil>";
  // Go sorts by UTF-8 bytes; UTF-16 order differs for characters beyond the basic plane.
  entries.sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return `map[${entries.map(([key, entry]) => `${key}:${valueText(element, entry)}`).join(" ")}]`;
}

/** Prints an instant as seconds since year 1; real templates have the zero time. */
function timeText(value: unknown): string {
  const ms = typeof value === "string" ? parseTime(value) : undefined;
  const seconds = ms === undefined ? 0 : Math.floor(ms / 1000) + 62_135_596_800;
  return `{Time:(time.Time){wall:(uint64)0 ext:(int64)${seconds} loc:(*time.Location)<nil>}}`;
}
