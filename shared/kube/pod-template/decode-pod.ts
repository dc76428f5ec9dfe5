/** A pod of a manifest, decoded into the API's types. */
import type { JsonObject } from "@deltaloop/base";
import { decodeGo, mistakeText } from "./decode-go.ts";
import { podTemplateLayout } from "./pod-template-layout.ts";

/** A manifest has values of wrong types; the message lists up to five by path. */
export class DecodeError extends Error {
  override readonly name = "DecodeError";
}

const MISTAKES_SHOWN = 5;

/** Metadata and spec as Go's decoder reads them; `pod` itself is not changed. @throws {DecodeError} */
export function decodePod(pod: JsonObject): JsonObject {
  const { object, mistakes } = decodeGo(pod, podTemplateLayout(), "Pod");
  if (mistakes.length === 0) return object;
  const more = mistakes.length > MISTAKES_SHOWN ? [`${mistakes.length - MISTAKES_SHOWN} more`] : [];
  throw new DecodeError([...mistakes.slice(0, MISTAKES_SHOWN).map(mistakeText), ...more].join("; "));
}
