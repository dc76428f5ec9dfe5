/** How a pack becomes the body of a message: JSON as it is, or deflated and in base64 above 48 KiB (informer §10.4). */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Envelope } from "./envelope.ts";

/** Below this a plain body is cheaper than the time to compress it. */
const COMPRESS_ABOVE_BYTES = 48 * 1024;

/** Compressed bodies start with this: never the start of JSON, and inside the characters that SQS takes. */
const DEFLATED = "deflate:";

/**
 * SQS takes what XML 1.0 takes, which leaves out U+FFFE and U+FFFF, and some emulators take nothing beyond the first plane: a
 * label may not hold such characters, an annotation may. As JSON escapes they pass everywhere.
 */
const BEYOND_XML = /[\ud800-\udfff\ufffe\uffff]/g;

/** The body for an envelope's JSON text. */
export function encodePackText(text: string): string {
  if (text.length > COMPRESS_ABOVE_BYTES) return DEFLATED + deflateRawSync(text).toString("base64");
  return text.replace(BEYOND_XML, (half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function encodePack(envelope: Envelope): string {
  return encodePackText(JSON.stringify(envelope));
}

/** @throws {Error} when the body is neither JSON nor what `encodePack` makes. */
export function packText(body: string): string {
  return body.startsWith(DEFLATED) ? inflateRawSync(Buffer.from(body.slice(DEFLATED.length), "base64")).toString() : body;
}
