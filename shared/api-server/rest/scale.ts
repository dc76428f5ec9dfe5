/**
 * `/scale` of the workload kinds, as autoscaling/v1 Scale.
 *
 * Source: kubernetes/pkg/registry/apps/deployment/storage/storage.go (ScaleREST, scaleFromDeployment).
 */
import {
  clone,
  ensureObject,
  isObject,
  type JsonObject,
  metaOf,
  numberAt,
  objectAt,
  objectsAt,
  listAt,
  stringMap,
  textAt,
} from "@deltaloop/base";

export function scaleOf(object: JsonObject): JsonObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metaOf(object);
  const spec = objectAt(object, "spec");
  const selector = objectAt(spec, "selector") ?? {};
  return {
    kind: "Scale",
    apiVersion: "autoscaling/v1",
    metadata: Object.fromEntries(
      Object.entries({ name, namespace, uid, resourceVersion, creationTimestamp }).filter(([, value]) => value !== undefined),
    ) as JsonObject,
    spec: { replicas: numberAt(spec, "replicas") ?? 0 },
    status: { replicas: numberAt(objectAt(object, "status"), "replicas") ?? 0, selector: selectorText(selector) },
  };
}

/** The object with the size and preconditions of `scale`. */
export function withScale(object: JsonObject, scale: JsonObject): JsonObject {
  const scaled = clone(object);
  ensureObject(scaled, "spec")["replicas"] = numberAt(objectAt(scale, "spec"), "replicas") ?? 0;
  const meta = ensureObject(scaled, "metadata");
  for (const field of ["resourceVersion", "uid"]) {
    const value = textAt(metaOf(scale), field);
    if (value === undefined || value === "") delete meta[field];
    else meta[field] = value;
  }
  return scaled;
}

/** A LabelSelector, or the map of a ReplicationController, as a query: `app=web,tier in (a,b)`. Keys are sorted. */
export function selectorText(selector: JsonObject): string {
  const isPlain = !isObject(selector["matchLabels"]) && !Array.isArray(selector["matchExpressions"]);
  const labels = Object.entries(stringMap(isPlain ? selector : selector["matchLabels"])).map(([key, value]) => ({
    key,
    text: `${key}=${value}`,
  }));
  const expressions = objectsAt(selector, "matchExpressions").map((one) => ({ key: textAt(one, "key") ?? "", text: expressionText(one) }));
  return [...labels, ...expressions]
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ text }) => text)
    .join(",");
}

function expressionText(expression: JsonObject): string {
  const key = textAt(expression, "key") ?? "";
  const values = `(${listAt(expression, "values").map(String).sort().join(",")})`;
  switch (expression["operator"]) {
    case "In":
      return `${key} in ${values}`;
    case "NotIn":
      return `${key} notin ${values}`;
    case "DoesNotExist":
      return `!${key}`;
    default:
      return key;
  }
}
