/** Request bodies: JSON text, an in-process value, or protobuf. */
import { ApiError, badRequest } from "../scheme/api-error.ts";
import { exactText, jsonCopy, parseExact, isObject, type Json, type JsonObject } from "@deltaloop/base";
import { kindOf } from "../scheme/go-errors.ts";
import { decodeProtobuf } from "./protobuf.ts";
import type { ApiRequest } from "./request-info.ts";

/** Upstream's limit of a request body. */
export const BODY_BYTES_MAX = 3 * 1024 * 1024;
/** How much of an unreadable body an error quotes. */
const QUOTED_BYTES = 30;
const TYPE_META = String.raw`struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`;

/** @throws {ApiError} 400 if it is neither JSON nor protobuf, 413 */
export function parsed(body: unknown): unknown {
  if (Buffer.isBuffer(body)) return body.length === 0 ? undefined : parseExact(exactText(decodeProtobuf(limited(body))));
  if (typeof body !== "string") return body;
  try {
    return parseExact(limited(body));
  } catch (error) {
    throw error instanceof ApiError ? error : badRequest(`the object provided is unrecognized: ${String(error)}`);
  }
}

/** For request records: an undecodable body is returned unchanged. */
export function parsedOrText(body: unknown): unknown {
  try {
    return parsed(body);
  } catch {
    return body;
  }
}

/** The body as an object that the server may keep. @param kind for errors @throws {ApiError} 400, 413 */
export function parsedObject(body: unknown, kind: string): JsonObject {
  try {
    return objectIn(body) ?? {};
  } catch (error) {
    if (!(error instanceof Error) || error instanceof ApiError) throw error;
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(textOf(body));
    throw badRequest(`the object provided is unrecognized (must be of type ${kind}): ${error.message} (${summary(bytes)})`);
  }
}

function textOf(body: unknown): string {
  if (typeof body === "string" || body === undefined) return body ?? "";
  return exactText(body);
}

function objectIn(body: unknown): JsonObject | null {
  if (Buffer.isBuffer(body)) return parsedProtobuf(limited(body));
  if (typeof body === "string" || body === undefined) return typed(parseExactly(limited(textOf(body))));
  // The caller may still use the value, which may hold `undefined`, which JSON lacks.
  return typed(jsonCopy(body));
}

function parsedProtobuf(body: Buffer): JsonObject | null {
  if (body.length === 0) throw new SyntaxError("empty data");
  // Long integers of a template stay bigints.
  return parseExact(exactText(decodeProtobuf(body))) as JsonObject;
}

function typed(json: unknown): JsonObject | null {
  const value = json as Json; // it is some JSON value
  if (value === null) return null;
  const problem = (got: Json, into: string): SyntaxError =>
    new SyntaxError(`couldn't get version/kind; json parse error: json: cannot unmarshal ${kindOf(got)} into Go ${into}`);
  if (!isObject(value)) throw problem(value, `value of type ${TYPE_META}`);
  for (const field of ["apiVersion", "kind"] as const) {
    const of = value[field] ?? "";
    if (typeof of !== "string") throw problem(of, `struct field .${field} of type string`);
  }
  return value;
}

function parseExactly(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    const { message } = error as Error; // JSON.parse throws only SyntaxErrors
    const isCutShort = /end of JSON|Unterminated/u.test(message) || message.includes(`at position ${text.length}`);
    throw new SyntaxError(`couldn't get version/kind; json parse error: ${isCutShort ? "unexpected end of JSON input" : message}`);
  }
}

/** Source: apiserver/pkg/endpoints/handlers/rest.go (summarizeData). */
function summary(bytes: Buffer): string {
  if (bytes.length === 0) return "<empty>";
  const text = bytes.subarray(0, QUOTED_BYTES).toString(bytes[0] === 0x7b ? "utf8" : "hex");
  return bytes.length > QUOTED_BYTES ? `${text} ...` : text;
}

function limited<T extends string | Buffer>(body: T): T {
  // Check the length first: each character has at least one byte.
  if (body.length > BODY_BYTES_MAX || (typeof body === "string" && Buffer.byteLength(body) > BODY_BYTES_MAX))
    throw new ApiError(413, "RequestEntityTooLarge", `Request entity too large: limit is ${BODY_BYTES_MAX}`);
  return body;
}

/** A copy of the body that the server may keep. @throws {ApiError} 400 */
export function bodyOf(request: ApiRequest): JsonObject {
  const body = optionalBodyOf(request);
  if (body === undefined) throw badRequest("the body of the request is not an object");
  return body;
}

export function optionalBodyOf({ body }: ApiRequest): JsonObject | undefined {
  if (body === undefined || body === "") return undefined;
  const value = parsed(body);
  if (!isObject(value)) return undefined;
  // See parsedObject.
  if (typeof body === "string" || Buffer.isBuffer(body)) return value;
  const copy = jsonCopy(value);
  return isObject(copy) ? copy : undefined;
}
