/** Request bodies: JSON text, an in-process value, or protobuf. */
import { badRequest } from "../scheme/api-error.ts";
import { exactText, parseExact, isObject, type JsonObject } from "@deltaloop/base";
import { decodeProtobuf } from "./protobuf.ts";
import type { ApiRequest } from "./request-info.ts";

/** @throws {ApiError} 400 if it is neither JSON nor protobuf */
export function parsed(body: unknown): unknown {
  if (Buffer.isBuffer(body)) return body.length === 0 ? undefined : parseExact(exactText(decodeProtobuf(body)));
  if (typeof body !== "string") return body;
  try {
    return parseExact(body);
  } catch (error) {
    throw badRequest(`the object provided is unrecognized: ${String(error)}`);
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

/** A copy of the body that the server may keep. @throws {ApiError} 400 */
export function bodyOf(request: ApiRequest): JsonObject {
  const body = optionalBodyOf(request);
  if (body === undefined) throw badRequest("the body of the request is no object");
  return body;
}

export function optionalBodyOf({ body }: ApiRequest): JsonObject | undefined {
  if (body === undefined || body === "") return undefined;
  const value = parsed(body);
  if (!isObject(value)) return undefined;
  // A parsed text is owned already; a value may belong to the caller, and may hold `undefined`, which JSON lacks.
  if (typeof body === "string" || Buffer.isBuffer(body)) return value;
  const copy: unknown = parseExact(exactText(value));
  return isObject(copy) ? copy : undefined;
}
