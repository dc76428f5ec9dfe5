/** `/scale` and `/binding` as writes to their parent. */
import { fieldInvalid, invalid } from "../scheme/api-error.ts";
import { withBinding } from "./binding.ts";
import { clone, type JsonObject, numberAt, objectAt } from "@deltaloop/base";
import type { Registry, Update } from "../registry/registry.ts";
import type { ResourcePath } from "./request-info.ts";
import { scaleOf, withScale } from "./scale.ts";

export function updateScale(
  registry: Registry,
  { definition, namespace, name }: ResourcePath,
  change: (scale: JsonObject) => JsonObject,
  options: Pick<Update, "verb" | "dryRun" | "writer">,
): JsonObject {
  const transform = (current: JsonObject): JsonObject => {
    const scale = change(scaleOf(definition, current));
    const replicas = numberAt(objectAt(scale, "spec"), "replicas") ?? 0;
    if (replicas < 0)
      throw invalid({ group: "autoscaling", kind: "Scale" }, name, [
        fieldInvalid("spec.replicas", replicas, "must be greater than or equal to 0"),
      ]);
    return withScale(definition, current, scale);
  };
  return scaleOf(definition, registry.update(definition, { namespace, name, subresource: "", transform, ...options }).object);
}

/** @returns the Status of the response */
export function bindPod(registry: Registry, { definition, namespace, name }: ResourcePath, binding: JsonObject, nowMs: number): JsonObject {
  const transform = (current: JsonObject): JsonObject => withBinding(clone(current), binding, nowMs);
  registry.update(definition, { namespace, name, subresource: "binding", verb: "patch", transform });
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 };
}
