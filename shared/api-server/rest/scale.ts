/**
 * `/scale` of the workload kinds, as autoscaling/v1 Scale.
 *
 * Source: kubernetes/pkg/registry/apps/deployment/storage/storage.go (ScaleREST, scaleFromDeployment).
 */
import {
  clone,
  ensureObject,
  isObject,
  type Json,
  type JsonObject,
  metaOf,
  numberAt,
  objectAt,
  objectsAt,
  listAt,
  stringMap,
  textAt,
} from "@deltaloop/base";
import { setValueAt, valueAt } from "../custom/json-path.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";

export function scaleOf({ custom }: ResourceDefinition, object: JsonObject): JsonObject {
  const { replicas, status, selector } = custom?.scale === undefined ? builtInScale(object) : customScale(object, custom.scale);
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metaOf(object);
  return {
    kind: "Scale",
    apiVersion: "autoscaling/v1",
    metadata: Object.fromEntries(
      Object.entries({ name, namespace, uid, resourceVersion, creationTimestamp }).filter(([, value]) => value !== undefined),
    ) as JsonObject,
    spec: replicas === 0 ? {} : { replicas },
    status: { replicas: status, ...(selector === "" ? {} : { selector }) },
  };
}

interface Counts {
  readonly replicas: number;
  readonly status: number;
  readonly selector: string;
}

function builtInScale(object: JsonObject): Counts {
  const spec = objectAt(object, "spec");
  return {
    replicas: numberAt(spec, "replicas") ?? 0,
    status: numberAt(objectAt(object, "status"), "replicas") ?? 0,
    selector: selectorText(objectAt(spec, "selector") ?? {}),
  };
}

/** Source: apiextensions-apiserver/pkg/registry/customresource/etcd.go (scaleFromCustomResource). */
function customScale(object: JsonObject, paths: JsonObject): Counts {
  const at = (field: string): Json | undefined => {
    const path = textAt(paths, field) ?? "";
    return path === "" ? undefined : valueAt(object, path);
  };
  const [replicas, status, selector] = [at("specReplicasPath"), at("statusReplicasPath"), at("labelSelectorPath")];
  return {
    replicas: typeof replicas === "number" ? replicas : 0,
    status: typeof status === "number" ? status : 0,
    selector: typeof selector === "string" ? selector : "",
  };
}

/** The object with the size and preconditions of `scale`. */
export function withScale({ custom }: ResourceDefinition, object: JsonObject, scale: JsonObject): JsonObject {
  const scaled = clone(object);
  setValueAt(scaled, textAt(custom?.scale, "specReplicasPath") ?? "spec.replicas", numberAt(objectAt(scale, "spec"), "replicas") ?? 0);
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
