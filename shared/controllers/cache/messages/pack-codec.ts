/** Payload of a message: JSON, or deflated and base64 above 48 KiB (informer §10.4). */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Signer } from "@deltaloop/store/ports";
import type { Envelope } from "./envelope.ts";
import { signBody } from "./signed-body.ts";

/** Below this size, compression costs more time than it saves. */
const COMPRESS_ABOVE_BYTES = 48 * 1024;

/**
 * The watcher never sends a payload that inflates to more: a pack holds at most one item of 900 Ki characters (2.7 MiB in UTF-8), a part of
 * a manifest 6,000 rows of under 500 characters. The limit protects against a decompression bomb: 1 MiB deflated may inflate to 1 GiB.
 */
const INFLATED_BYTES_MAX = 4 * 1024 * 1024;

/** Prefix of a compressed payload: JSON never starts with it, and SQS accepts its characters. */
const DEFLATED = "deflate:";

/**
 * SQS accepts the characters of XML 1.0, which lacks U+FFFE and U+FFFF, and some emulators only accept the first plane. An annotation
 * may hold such characters, a label may not. They are sent as JSON escapes.
 */
const BEYOND_XML = /[\ud800-\udfff\ufffe\uffff]/g;

/** The payload for an envelope's JSON text. */
export function encodePackText(text: string): string {
  if (text.length > COMPRESS_ABOVE_BYTES) return DEFLATED + deflateRawSync(text).toString("base64");
  return text.replace(BEYOND_XML, (half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The complete body of a message. */
export function encodePack(envelope: Envelope, signer: Signer): string {
  return signBody(signer, envelope.c, encodePackText(JSON.stringify(envelope)));
}

/** Decodes a payload to JSON text. @throws {Error} if `encodePackText` cannot have made the payload; stops inflating at the limit */
export function packText(payload: string): string {
  if (!payload.startsWith(DEFLATED)) return payload;
  return inflateRawSync(Buffer.from(payload.slice(DEFLATED.length), "base64"), { maxOutputLength: INFLATED_BYTES_MAX }).toString();
}
