/**
 * Keyed digests that replace a pod template or an annotation's value. A template is digested in its normal form.
 *
 * Two templates have equal normal forms if and only if upstream considers them equal (deployment §6.1): the
 * `pod-template-hash` label is ignored; absent, null and empty lists and maps are equal; a zero value differs from an absent one only in a
 * pointer field; quantities compare by value, timestamps as instants. Unknown fields are kept.
 */
import { createHash, createHmac, createSecretKey, hash } from "node:crypto";
import { exactText, isObject } from "@deltaloop/base";
import { podTemplateHashState } from "./pod-template-hash.ts";
import { type GoStruct, type GoType, podTemplateLayout } from "./pod-template-layout.ts";
import { RELEASED } from "../releases/acting.ts";
import type { Release } from "../releases/release.ts";
import { numericQuantity } from "../quantity/quantity.ts";
import { parseTime } from "../objects/time.ts";
import type { PodTemplateSpec } from "../objects/wire.ts";

export interface Digester {
  /** `<keyId>.<form>`: the prefix of a digest. Digests of different prefixes are never compared. */
  readonly prefix: string;
  /** The releases whose hash states the digester computes. */
  readonly releases: readonly Release[];
  /** `<keyId>.<form>.<HMAC-SHA-256 in hex>`. */
  digest(template: PodTemplateSpec): string;
  /** The digest, and on request the states of upstream's hash by release (pod-template-hash.ts). Recent templates are cached. */
  template(template: PodTemplateSpec, withHashStates: boolean): TemplateDigest;
  /**
   * `<keyId>.a1.<128 bits of an HMAC-SHA-256 in hex>` of one annotation. The key is part of the input, so that equal
   * values of different keys have different digests.
   */
  annotation(key: string, value: string): string;
  /** 16 characters (96 bits of an HMAC-SHA-256) of the content that a user controller sends, or that it may not see. */
  content(text: string): string;
  /** 22 characters (128 bits of an HMAC-SHA-256) of an Event's text, only for comparison within hours. */
  event(parts: readonly string[]): string;
}

export interface TemplateDigest {
  readonly digest: string;
  readonly hashStates?: Readonly<Record<string, number>>;
}

/** Format of `Digester.annotation`, under any key. */
const ANNOTATION_DIGEST = /^[0-9a-f]{8}\.a[0-9]+\.[0-9a-f]{32}$/;

export function isAnnotationDigest(value: unknown): value is string {
  return typeof value === "string" && ANNOTATION_DIGEST.test(value);
}

/** Limit of cached template digests, which exceeds the number of simultaneous rollouts. */
const TEMPLATES_MAX = 256;
/**
 * The layout of the normal form, independent of the cluster's release: releases only add fields, so two templates are equal in this layout
 * exactly if they are equal in the layout of their own release. A digest therefore stays valid after an upgrade of the cluster.
 */
const FORM_RELEASE = RELEASED.at(-1);
/**
 * Version of the normal form and of its layout. 2: integers beyond 2^53 are exact. A digest of rounded integers would always differ from
 * the live digest and requeue its key forever.
 */
const FORM = `2-${FORM_RELEASE?.name.replace(".", "_")}`;
const HASH_LABEL = "pod-template-hash";
/** Go's zero time, year 1. */
const ZERO_TIME_MS = -62_135_596_800_000;

/**
 * A digester for `DELTALOOP_DIGEST_KEY`, with hash states of `releases`. The key id is the start of the key's SHA-256.
 *
 * @throws {RangeError} for an empty key: digests could be guessed.
 */
export function createDigester(key: Buffer | string, releases: readonly Release[] = RELEASED): Digester {
  const bytes = Buffer.from(key);
  if (bytes.length === 0) throw new RangeError("the digest key is empty");
  const keyId = createHash("sha256").update(bytes).digest("hex").slice(0, 8);
  const prefix = `${keyId}.${FORM}`;
  const secret = createSecretKey(bytes);
  const hmac = (text: string): Buffer => createHmac("sha256", secret).update(text).digest();
  const digest = (template: PodTemplateSpec): string => `${prefix}.${hmac(normalTemplate(template)).toString("hex")}`;
  const lately = new Map<string, { readonly digest: string; hashStates?: Readonly<Record<string, number>> }>();
  const hashStatesOf = (template: PodTemplateSpec): Readonly<Record<string, number>> =>
    Object.fromEntries(releases.map((release) => [release.name, podTemplateHashState(template, release)]));
  return {
    prefix,
    releases,
    digest,
    template(template, withHashStates) {
      // The same template recurs with each status update of its object. Only the hash of its text is kept.
      const text = hash("sha256", exactText(template), "base64");
      let known = lately.get(text);
      if (known === undefined) {
        const [oldest] = lately.size < TEMPLATES_MAX ? [] : lately.keys();
        if (oldest !== undefined) lately.delete(oldest);
        lately.set(text, (known = { digest: digest(template) }));
      }
      if (!withHashStates) return { digest: known.digest };
      return { digest: known.digest, hashStates: (known.hashStates ??= hashStatesOf(template)) };
    },
    annotation(key, value) {
      // The text does not begin like a template's normal form, a JSON object, so the digests of annotations and templates never coincide.
      const text = `annotation ${JSON.stringify([key, value])}`;
      return `${keyId}.a1.${hmac(text).toString("hex", 0, 16)}`;
    },
    content: (text) => hmac(`content ${text}`).toString("base64url", 0, 12),
    event: (parts) => hmac(`event ${JSON.stringify(parts)}`).toString("base64url", 0, 16),
  };
}

/** Whether upstream considers the templates equal. Source: deployment/util EqualIgnoreHash. */
export function templatesEqual(a: PodTemplateSpec, b: PodTemplateSpec): boolean {
  return normalTemplate(a) === normalTemplate(b);
}

/**
 * The normal form of deployment §6.1 as JSON text with sorted keys. It contains the template's values: it may be compared
 * and hashed, but not logged or stored.
 */
export function normalTemplate(template: PodTemplateSpec): string {
  const metadata = template.metadata;
  if (metadata?.labels?.[HASH_LABEL] === undefined) return normalStruct(podTemplateLayout(FORM_RELEASE), template) ?? "{}";
  const { [HASH_LABEL]: _hash, ...labels } = metadata.labels;
  return normalStruct(podTemplateLayout(FORM_RELEASE), { ...template, metadata: { ...metadata, labels } }) ?? "{}";
}

/** Returns the value's normal form, or undefined if the value equals an absent value. A value of a wrong type is kept unchanged. */
function normalValue(type: GoType, value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  switch (type.kind) {
    case "string":
      return value === "" ? undefined : verbatim(value);
    case "bool":
      return value === false ? undefined : verbatim(value);
    case "int":
    case "intOrString":
      return value === 0 ? undefined : verbatim(value);
    case "quantity": {
      const text = normalQuantity(value);
      return text === `"0"` ? undefined : text;
    }
    case "time": {
      const ms = typeof value === "string" ? parseTime(value) : undefined;
      return ms === ZERO_TIME_MS ? undefined : verbatim(ms ?? value);
    }
    case "pointer":
      return present(type.element, value);
    case "list":
      if (!Array.isArray(value)) return verbatim(value);
      return value.length === 0 ? undefined : `[${value.map((element) => present(type.element, element)).join(",")}]`;
    case "map":
      return isObject(value)
        ? normalEntries(value, (_key, entry) => (entry === null ? undefined : present(type.element, entry)))
        : verbatim(value);
    case "struct":
      return isObject(value) ? normalStruct(type.struct, value) : verbatim(value);
    default:
      return type satisfies never;
  }
}

/** The normal form of a value whose presence is significant: behind a pointer, in a list, in a map. */
function present(type: GoType, value: unknown): string {
  return normalValue(type, value) ?? zeroOf(type, value);
}

function zeroOf(type: GoType, value: unknown): string {
  if (type.kind === "struct" || type.kind === "map") return "{}";
  if (type.kind === "quantity") return `"0"`;
  return verbatim(value);
}

function normalQuantity(value: unknown): string {
  const isScalar = typeof value === "string" || typeof value === "number" || typeof value === "bigint";
  const numeric = isScalar ? numericQuantity(String(value)) : undefined;
  return verbatim(numeric ?? value);
}

function normalStruct(struct: GoStruct, value: object): string | undefined {
  return normalEntries(value, (key, field) => {
    const type = struct.byKey.get(key);
    return type === undefined ? normalUnknown(field) : normalValue(type, field);
  });
}

/** A field of a newer API: its type is unknown, so `{}`, `0` and `false` are kept; they may belong to a pointer. */
function normalUnknown(value: unknown): string | undefined {
  if (value === null || (Array.isArray(value) && value.length === 0)) return undefined;
  return verbatim(value);
}

/** JSON with sorted keys. */
function verbatim(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(verbatim).join(",")}]`;
  if (typeof value === "bigint") return String(value);
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  return normalEntries(value, (_key, entry) => normalUnknown(entry)) ?? "{}";
}

/** The kept entries, sorted by key; undefined if there are none. */
function normalEntries(value: object, normalOf: (key: string, entry: unknown) => string | undefined): string | undefined {
  let text = "";
  const entries = value as Readonly<Record<string, unknown>>; // only own keys are read
  for (const key of Object.keys(entries).sort()) {
    const normal = normalOf(key, entries[key]);
    if (normal !== undefined) text += `${text === "" ? "{" : ","}${JSON.stringify(key)}:${normal}`;
  }
  return text === "" ? undefined : `${text}}`;
}
