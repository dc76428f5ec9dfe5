/**
 * Parses a request's path.
 *
 * Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
 */
import { methodNotAllowed, notAcceptable } from "../scheme/api-error.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { ServedResources } from "../scheme/served-resources.ts";

export interface ApiRequest {
  readonly method: string;
  /** Without the query: `/apis/apps/v1/namespaces/default/deployments`. */
  readonly path: string;
  readonly query?: Query | URLSearchParams;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** JSON text, or its value; a Buffer is a protobuf envelope. */
  readonly body?: unknown;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface ResourcePath {
  readonly definition: ResourceDefinition;
  /** Empty on cluster-scoped resources and for "all namespaces". */
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
}

/** The components of `/api/v1/namespaces/default/pods/web-1/status`; `undefined` for an unknown resource. */
export function parseResourcePath(resources: ServedResources, path: string): ResourcePath | undefined {
  const parts = path.split("/").filter((segment) => segment !== "");
  const [root, ...rest] = path.includes("%") ? parts.map(decodeURIComponent) : parts;
  if (root === "api") return locate(resources, "", rest);
  if (root === "apis") return locate(resources, rest[0] ?? "", rest.slice(1));
  return undefined;
}

/** For unknown paths below a served group upstream returns a Status, elsewhere plain text. */
export function isGroupServed(resources: ServedResources, path: string): boolean {
  const [, root, group = ""] = path.split("/");
  return root === "api" || (root === "apis" && resources.served.some((definition) => definition.group === group));
}

const MEDIA_TYPES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/** Accepts any of upstream's media types; the response is always JSON. @throws {ApiError} 406 */
export function checkAccepted(accept: string | undefined, { name }: ResourcePath): void {
  if (accept === undefined || accept === "") return;
  const asked = accept.split(",").map((clause) => clause.split(";")[0]?.trim() ?? "");
  if (asked.some((type) => type === "" || type === "*/*" || type === "application/*" || MEDIA_TYPES.includes(type))) return;
  const streams = name === "" ? ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"] : [];
  throw notAcceptable([...MEDIA_TYPES, ...streams]);
}

function locate(resources: ServedResources, group: string, [version = "", ...segments]: readonly string[]): ResourcePath | undefined {
  // `namespaces/<name>/<resource>` is inside a namespace; `namespaces/<name>` and its subresources are the namespace itself.
  const [first, namespace = "", third] = segments;
  if (first === "namespaces" && third !== undefined) {
    const inside = resources.find(group, version, third);
    if (inside?.namespaced === true) return place(inside, namespace, segments.slice(3));
  }
  const definition = resources.find(group, version, first ?? "");
  if (definition === undefined) return undefined;
  // Only the namespace's path is valid for a namespaced object.
  if (definition.namespaced && segments.length > 1) return undefined;
  return place(definition, "", segments.slice(1));
}

function place(
  definition: ResourceDefinition,
  namespace: string,
  [name = "", subresource = "", extra]: readonly string[],
): ResourcePath | undefined {
  if (extra !== undefined) return undefined;
  return { definition, namespace, name, subresource };
}

/** A lookup in the query, from `query` or from the path. */
export function queryOf(request: ApiRequest): (name: string) => string | undefined {
  const { query } = request;
  if (query === undefined) return () => undefined;
  if (query instanceof URLSearchParams) return (name) => query.get(name) ?? undefined;
  return (name) => {
    const value = query[name];
    return value === undefined ? undefined : String(value);
  };
}

/** Upstream accepts `true` and `1`; an empty value counts as set. */
export function isTrue(text: string | undefined): boolean {
  return text === "true" || text === "1" || text === "";
}

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";

/** @throws {ApiError} 405. */
export function verbOf(method: string, { definition, name }: ResourcePath, isWatch: boolean): Verb {
  switch (method) {
    case "GET":
      if (isWatch) return "watch";
      return name === "" ? "list" : "get";
    case "POST":
      return "create";
    case "PUT":
      return "update";
    case "PATCH":
      return "patch";
    case "DELETE":
      return name === "" ? "deletecollection" : "delete";
    default:
      throw methodNotAllowed(definition, method.toLowerCase());
  }
}
