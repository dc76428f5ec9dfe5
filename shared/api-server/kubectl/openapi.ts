/**
 * The minimal OpenAPI v3 for kubectl: before it creates or applies, it checks a kind's PATCH operation for the parameter
 * `fieldValidation`. Without merge keys in the schemas it uses its built-in types.
 *
 * Source: kubectl/pkg/util/openapi, kubectl/pkg/validation, cli-runtime/pkg/resource/query_param_verifier_v3.go.
 */
import type { JsonObject } from "@deltaloop/base";
import { KUBERNETES_VERSION } from "@deltaloop/kube/objects";
import { schemaIn } from "../custom/versions.ts";
import { apiVersionOf, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { ServedResources } from "../scheme/served-resources.ts";

export function openApiRoot({ served }: ServedResources): JsonObject {
  const paths: JsonObject = {};
  for (const definition of served) paths[rootOf(definition)] = { serverRelativeURL: `/openapi/v3/${rootOf(definition)}?hash=1` };
  return { paths };
}

/** The document of `api/v1` or `apis/apps/v1`. */
export function openApiDocument({ served }: ServedResources, root: string): JsonObject | undefined {
  const definitions = served.filter((definition) => rootOf(definition) === root);
  if (definitions.length === 0) return undefined;
  return {
    openapi: "3.0.0",
    info: { title: "Kubernetes", version: KUBERNETES_VERSION },
    paths: Object.fromEntries(definitions.map((definition) => [pathOf(definition), operations(definition)])),
    components: { schemas: Object.fromEntries(definitions.map((definition) => [schemaName(definition), schema(definition)])) },
  };
}

function rootOf({ group, version }: ResourceDefinition): string {
  return group === "" ? `api/${version}` : `apis/${group}/${version}`;
}

function pathOf(definition: ResourceDefinition): string {
  return `/${rootOf(definition)}/${definition.namespaced ? "namespaces/{namespace}/" : ""}${definition.resource}/{name}`;
}

function gvk({ group, version, kind }: ResourceDefinition): JsonObject {
  return { group, version, kind };
}

/** Without strategic merge kubectl merges by its built-in types, which is necessary because our schemas have no merge keys. */
const PATCH_TYPES = ["application/json-patch+json", "application/merge-patch+json"];

function operations(definition: ResourceDefinition): JsonObject {
  const parameters = ["dryRun", "fieldManager", "fieldValidation"].map((name) => ({
    name,
    in: "query",
    schema: { type: "string", uniqueItems: true },
  }));
  const operation = (verb: string): JsonObject => ({
    operationId: `${verb}${definition.kind}`,
    parameters: verb === "get" ? [] : parameters,
    responses: {
      "200": { description: "OK", content: { "application/json": { schema: { $ref: `#/components/schemas/${schemaName(definition)}` } } } },
    },
    "x-kubernetes-action": verb,
    "x-kubernetes-group-version-kind": gvk(definition),
  });
  const patchContent = Object.fromEntries(PATCH_TYPES.map((type) => [type, { schema: { type: "object" } }]));
  return {
    get: operation("get"),
    put: operation("put"),
    patch: { ...operation("patch"), requestBody: { content: patchContent, required: true } },
    delete: operation("delete"),
  };
}

function schemaName(definition: ResourceDefinition): string {
  if (definition.custom !== undefined) {
    const domain = definition.group.split(".").toReversed().join(".");
    return `${domain}.${definition.version}.${definition.kind}`;
  }
  const group = definition.group === "" ? "core" : (definition.group.split(".")[0] ?? "");
  return `io.k8s.api.${group}.${definition.version}.${definition.kind}`;
}

function schema(definition: ResourceDefinition): JsonObject {
  if (definition.custom !== undefined)
    return {
      ...schemaIn(definition.custom, definition.version),
      "x-kubernetes-group-version-kind": [gvk(definition)],
    };
  return {
    type: "object",
    description: `${definition.kind} (${apiVersionOf(definition)})`,
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      spec: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      status: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    },
    "x-kubernetes-group-version-kind": [gvk(definition)],
    "x-kubernetes-preserve-unknown-fields": true,
  };
}
