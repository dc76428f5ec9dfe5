/** How a pack becomes the payload of a message: JSON as it is, or deflated and in base64 above 48 KiB (informer §10.4). */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Signer } from "@deltaloop/store/ports";
import type { Envelope } from "./envelope.ts";
import { signBody } from "./signed-body.ts";

/** Below this a plain body is cheaper than the time to compress it. */
const COMPRESS_ABOVE_BYTES = 48 * 1024;

/**
 * No payload of a watcher inflates to more: a pack holds at most one item of 900 Ki characters, which UTF-8 makes 2.7 MiB, and a part
 * of a manifest 6,000 rows of under 500 characters. 1 MiB of zeros deflated would be 1 GiB.
 */
const INFLATED_BYTES_MAX = 4 * 1024 * 1024;

/** Compressed payloads start with this: never the start of JSON, and inside the characters that SQS takes. */
const DEFLATED = "deflate:";

/**
 * SQS takes what XML 1.0 takes, which leaves out U+FFFE and U+FFFF, and some emulators take nothing beyond the first plane: a
 * label may not hold such characters, an annotation may. As JSON escapes they pass everywhere.
 */
const BEYOND_XML = /[\ud800-\udfff\ufffe\uffff]/g;

/** The payload for an envelope's JSON text. */
export function encodePackText(text: string): string {
  if (text.length > COMPRESS_ABOVE_BYTES) return DEFLATED + deflateRawSync(text).toString("base64");
  return text.replace(BEYOND_XML, (half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The whole body of a message. */
export function encodePack(envelope: Envelope, signer: Signer): string {
  return signBody(signer, envelope.c, encodePackText(JSON.stringify(envelope)));
}

/** @throws {Error} when the payload is not what `encodePackText` makes; one that is too large is never inflated as a whole. */
export function packText(payload: string): string {
  if (!payload.startsWith(DEFLATED)) return payload;
  return inflateRawSync(Buffer.from(payload.slice(DEFLATED.length), "base64"), { maxOutputLength: INFLATED_BYTES_MAX }).toString();
}
