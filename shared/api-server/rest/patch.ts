/** Selects the patch type by content type. */
import { badRequest, unsupportedMediaType } from "../scheme/api-error.ts";
import { isObject, type Json, type JsonObject } from "@deltaloop/base";
import type { Target } from "./decode-body.ts";
import { applyJsonPatch } from "./patch-json.ts";
import { applyMergePatch } from "./patch-merge.ts";
import { applyStrategicMergePatch } from "./patch-strategic.ts";

const STRATEGIC = "application/strategic-merge-patch+json";
const MEDIA_TYPES = ["application/json-patch+json", "application/merge-patch+json", STRATEGIC];

/** @throws {ApiError} 415 for other content types (of custom resources also strategic merge), 400 for a malformed body */
export function patcherFor({ kind, custom }: Target, contentType: string, body: unknown): (object: JsonObject) => JsonObject {
  const mediaType = contentType.split(";")[0]?.trim() ?? "";
  if (!MEDIA_TYPES.includes(mediaType) || (custom !== undefined && mediaType === STRATEGIC)) throw unsupportedMediaType();
  if (mediaType === "application/json-patch+json") {
    if (!Array.isArray(body)) throw badRequest("a JSON patch is a list of operations");
    // The list comes from JSON.parse or an in-process caller; operations are checked when they are applied.
    const operations = body as Json[];
    return (object) => applyJsonPatch(object, operations);
  }
  if (!isObject(body)) throw badRequest("the patch is not an object");
  const apply = mediaType === "application/merge-patch+json" ? applyMergePatch : applyStrategicMergePatch.bind(undefined, kind);
  return (object) => apply(object, body);
}
