/** `/scale` and `/binding` as writes to their parent. */
import { withBinding } from "./binding.ts";
import { clone, type JsonObject, metaOf } from "@deltaloop/base";
import type { Registry, Update } from "../registry/registry.ts";
import type { ResourcePath } from "./request-info.ts";
import { trackScale, withWrittenScale } from "./apply-scale.ts";
import { scaleOf } from "./scale.ts";

export function updateScale(
  registry: Registry,
  { definition, namespace, name }: ResourcePath,
  change: (scale: JsonObject) => JsonObject,
  options: Pick<Update, "verb" | "dryRun" | "writer">,
): JsonObject {
  const transform = (current: JsonObject): JsonObject => {
    const isTracked = metaOf(current)["managedFields"] !== undefined;
    return withWrittenScale(definition, current, (before) => trackScale(before, change(before), options.writer, isTracked));
  };
  return scaleOf(
    definition,
    registry.update(definition, { namespace, name, subresource: "", transform, isApplied: true, ...options }).object,
  );
}

/** @returns the Status of the response */
export function bindPod(registry: Registry, { definition, namespace, name }: ResourcePath, binding: JsonObject, nowMs: number): JsonObject {
  const transform = (current: JsonObject): JsonObject => withBinding(clone(current), binding, nowMs);
  registry.update(definition, { namespace, name, subresource: "binding", verb: "patch", transform });
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 };
}
