/**
 * Non-resource paths: discovery (plain and aggregated), `/version`, health, OpenAPI.
 *
 * Source: k8s.io/apiserver/pkg/endpoints/discovery, api/discovery/*.json of kubernetes v1.37.
 */
import { KUBERNETES_MAJOR, KUBERNETES_MINOR, KUBERNETES_VERSION } from "@deltaloop/kube/objects";
import type { JsonObject } from "@deltaloop/base";
import { compareVersions } from "../custom/definitions.ts";
import { openApiDocument, openApiRoot } from "./openapi.ts";
import { apiVersionOf, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { ServedResources } from "../scheme/served-resources.ts";

export interface MetaAnswer {
  readonly contentType: string;
  readonly body: JsonObject;
}

const JSON_TYPE = "application/json";
const AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const VERSION: JsonObject = {
  major: KUBERNETES_MAJOR,
  minor: KUBERNETES_MINOR,
  gitVersion: KUBERNETES_VERSION,
  gitCommit: "",
  gitTreeState: "clean",
  buildDate: "1970-01-01T00:00:00Z",
  goVersion: "",
  compiler: "deltaloop",
  platform: "in-memory",
};

const HEALTH = new Set(["/healthz", "/livez", "/readyz"]);

/** Groups without stored resources; their reviews are in self-review.ts. */
const REVIEW_GROUPS = ["authentication.k8s.io", "authorization.k8s.io"];

/** The response for `path`, or `undefined` if it does not exist. */
export function serveMeta(served: ServedResources, path: string, accept: string): MetaAnswer | string | undefined {
  if (HEALTH.has(path)) return "ok";
  if (path === "/version" || path === "/version/") return json(VERSION);
  if (path === "/openapi/v3") return json(openApiRoot(served));
  if (path.startsWith("/openapi/v3/")) {
    const document = openApiDocument(served, path.slice("/openapi/v3/".length));
    return document === undefined ? undefined : json(document);
  }
  const isAggregated = accept.includes("as=APIGroupDiscoveryList") && accept.includes("v=v2");
  const segments = path.split("/").filter((segment) => segment !== "");
  switch (segments.join("/")) {
    case "api":
      return isAggregated ? aggregated(served, [""]) : json({ kind: "APIVersions", versions: ["v1"], serverAddressByClientCIDRs: [] });
    case "apis":
      return isAggregated
        ? aggregated(served, groups(served))
        : json({ kind: "APIGroupList", apiVersion: "v1", groups: groups(served).map((name) => apiGroup(served, name)) });
    case "api/v1":
      return json(resourceList(served, "", "v1"));
    default:
      return group(served, segments);
  }
}

function group(served: ServedResources, [root, name = "", version, extra]: readonly string[]): MetaAnswer | undefined {
  if (root !== "apis" || extra !== undefined || !groups(served).includes(name)) return undefined;
  if (version === undefined) return json({ kind: "APIGroup", apiVersion: "v1", ...apiGroup(served, name) });
  return versionsOf(served, name).includes(version) ? json(resourceList(served, name, version)) : undefined;
}

function json(body: JsonObject): MetaAnswer {
  return { contentType: JSON_TYPE, body };
}

function groups({ served }: ServedResources): string[] {
  return [...new Set(served.map((definition) => definition.group)), ...REVIEW_GROUPS].filter((name) => name !== "");
}

/** The preferred version first. */
function versionsOf({ served }: ServedResources, name: string): string[] {
  const versions = new Set(served.filter((definition) => definition.group === name).map((definition) => definition.version));
  return versions.size === 0 ? ["v1"] : [...versions].sort(compareVersions);
}

function apiGroup(served: ServedResources, name: string): JsonObject {
  const versions = versionsOf(served, name).map((version) => ({ groupVersion: `${name}/${version}`, version }));
  return { name, versions, preferredVersion: versions[0] ?? {} };
}

const MAIN_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const TERMINATING_VERBS = ["delete", "deletecollection", "get", "list", "watch"];
const PART_VERBS = ["get", "patch", "update"];

function mainVerbs({ custom }: ResourceDefinition): string[] {
  return custom?.isTerminating === true ? TERMINATING_VERBS : MAIN_VERBS;
}

function resourcesIn({ served }: ServedResources, name: string, version: string): ResourceDefinition[] {
  return served.filter((definition) => definition.group === name && definition.version === version);
}

function resourceList(served: ServedResources, name: string, version: string): JsonObject {
  const groupVersion = apiVersionOf({ group: name, version });
  const resources = resourcesIn(served, name, version).flatMap((definition) => [
    {
      name: definition.resource,
      singularName: definition.singular,
      namespaced: definition.namespaced,
      kind: definition.kind,
      verbs: mainVerbs(definition),
      ...(definition.shortNames.length === 0 ? {} : { shortNames: [...definition.shortNames] }),
      ...(definition.categories.length === 0 ? {} : { categories: [...definition.categories] }),
    },
    ...definition.subresources.map((subresource) => part(definition, subresource)),
  ]);
  return { kind: "APIResourceList", apiVersion: "v1", groupVersion, resources: [...resources, ...reviewResources(name)] };
}

function part(definition: ResourceDefinition, subresource: string): JsonObject {
  const { kind, group: ofGroup, version } = partKind(definition, subresource);
  return {
    name: `${definition.resource}/${subresource}`,
    singularName: "",
    namespaced: definition.namespaced,
    ...(ofGroup === definition.group ? {} : { group: ofGroup, version }),
    kind,
    verbs: partVerbs(subresource),
  };
}

function partKind(definition: ResourceDefinition, subresource: string): { group: string; version: string; kind: string } {
  if (subresource === "scale") return { group: "autoscaling", version: "v1", kind: "Scale" };
  return { group: definition.group, version: definition.version, kind: subresource === "binding" ? "Binding" : definition.kind };
}

function partVerbs(subresource: string): string[] {
  if (subresource === "binding") return ["create"];
  return subresource === "finalize" ? ["update"] : PART_VERBS;
}

function reviewResources(name: string): JsonObject[] {
  const reviews: Readonly<Record<string, readonly string[]>> = {
    "authentication.k8s.io": ["SelfSubjectReview"],
    "authorization.k8s.io": ["SelfSubjectAccessReview", "SelfSubjectRulesReview"],
  };
  return (reviews[name] ?? []).map((kind) => ({
    name: `${kind.toLowerCase()}s`,
    singularName: kind.toLowerCase(),
    namespaced: false,
    kind,
    verbs: ["create"],
  }));
}

/** One document for all groups, which current clients request first. */
function aggregated(served: ServedResources, names: readonly string[]): MetaAnswer {
  const items = names.map((name) => ({
    metadata: name === "" ? {} : { name },
    versions: versionsOf(served, name).map((version) => ({
      version,
      freshness: "Current",
      resources: [
        ...resourcesIn(served, name, version).map((definition) => ({
          resource: definition.resource,
          responseKind: { group: definition.group, version: definition.version, kind: definition.kind },
          scope: definition.namespaced ? "Namespaced" : "Cluster",
          singularResource: definition.singular,
          verbs: mainVerbs(definition),
          ...(definition.shortNames.length === 0 ? {} : { shortNames: [...definition.shortNames] }),
          ...(definition.categories.length === 0 ? {} : { categories: [...definition.categories] }),
          subresources: definition.subresources.map((subresource) => {
            return { subresource, responseKind: partKind(definition, subresource), verbs: partVerbs(subresource) };
          }),
        })),
        ...reviewResources(name).map(({ name: resource, singularName, kind }) => ({
          resource: resource ?? "",
          responseKind: { group: name, version: "v1", kind: kind ?? "" },
          scope: "Cluster",
          singularResource: singularName ?? "",
          verbs: ["create"],
        })),
      ],
    })),
  }));
  return {
    contentType: AGGREGATED_TYPE,
    body: { kind: "APIGroupDiscoveryList", apiVersion: "apidiscovery.k8s.io/v2", metadata: {}, items },
  };
}
