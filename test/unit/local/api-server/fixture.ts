/** A server on a virtual clock, and abbreviations for requests. */
import { createSeededRandom } from "../../../../shared/base/memory/random.ts";
import { createVirtualClock, type VirtualClock } from "../../../../shared/base/memory/clock.ts";
import { ApiServer, type ApiServerOptions } from "../../../../shared/api-server/api-server.ts";
import { isObject, type JsonObject, objectAt, textAt } from "../../../../shared/base/json.ts";
import type { WatchStream } from "../../../../shared/api-server/rest/watch.ts";

export const START_MS = Date.UTC(2026, 0, 2, 3, 4, 5);

export const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
export const REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets";
export const RCS = "/api/v1/namespaces/default/replicationcontrollers";
export const PODS = "/api/v1/namespaces/default/pods";
export const CONFIGMAPS = "/api/v1/namespaces/default/configmaps";

export const MERGE = "application/merge-patch+json";
export const STRATEGIC = "application/strategic-merge-patch+json";

export interface Answer {
  readonly status: number;
  readonly body: JsonObject;
}

export interface Fixture {
  readonly clock: VirtualClock;
  readonly server: ApiServer;
  readonly get: (path: string, query?: Record<string, string>, accept?: string) => Promise<Answer>;
  readonly post: (path: string, body: object, query?: Record<string, string>) => Promise<Answer>;
  readonly put: (path: string, body: object) => Promise<Answer>;
  readonly patch: (path: string, type: string, body: object) => Promise<Answer>;
  readonly remove: (path: string, body?: object) => Promise<Answer>;
  readonly watch: (path: string, query?: Record<string, string>) => Promise<WatchStream>;
}

export function setUp(options: Partial<ApiServerOptions> = {}): Fixture {
  const clock = createVirtualClock(START_MS);
  const server = new ApiServer({ clock, random: createSeededRandom(7), ...options });
  const ask = async (
    method: string,
    path: string,
    body?: object,
    type = "application/json",
    query: Record<string, string> = {},
    accept = "",
  ): Promise<Answer> => {
    const response = await server.request({ method, path, body, query, headers: { "content-type": type, accept, "user-agent": "test" } });
    if (response.kind !== "object") throw new Error(`${method} ${path} answered ${response.kind}`);
    return { status: response.status, body: response.body };
  };
  return {
    clock,
    server,
    get: (path, query, accept) => ask("GET", path, undefined, undefined, query, accept),
    post: (path, body, query) => ask("POST", path, body, undefined, query),
    put: (path, body) => ask("PUT", path, body),
    patch: (path, type, body) => ask("PATCH", path, body, type),
    remove: (path, body) => ask("DELETE", path, body),
    async watch(path, query = {}) {
      const response = await server.request({ method: "GET", path, query: { ...query, watch: "true" } });
      if (response.kind !== "watch") throw new Error(`not watched: ${response.status}`);
      return response.stream;
    },
  };
}

/** Returns the value at a path such as `a.b.0.c`. */
export function at(object: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((value, step) => (Array.isArray(value) ? value[Number(step)] : isObject(value) ? value[step] : undefined), object);
}

export function metaText(object: JsonObject, field: string): string {
  return textAt(objectAt(object, "metadata"), field) ?? "";
}

export function events(stream: WatchStream): string[] {
  return stream.take().map(({ type, object }) => `${type} ${type === "ERROR" ? String(object["code"]) : metaText(object, "name")}`.trim());
}

export function podTemplate(over: object = {}): JsonObject {
  return { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "app", image: "app:v1" }], ...over } };
}

export function deployment(name: string, spec: object = {}, meta: object = {}): JsonObject {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, ...meta },
    spec: { selector: { matchLabels: { app: "web" } }, template: podTemplate(), ...spec },
  };
}

export function replicaSet(name: string, meta: object = {}): JsonObject {
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name, ...meta },
    spec: { selector: { matchLabels: { app: "web" } }, template: podTemplate() },
  };
}

export function pod(name: string, meta: object = {}, spec: object = {}): JsonObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: { app: "web" }, ...meta },
    spec: { containers: [{ name: "app", image: "app:v1" }], ...spec },
  };
}

/** Returns the controller reference to `owner`. */
export function ownedBy(owner: JsonObject): JsonObject {
  return {
    apiVersion: textAt(owner, "apiVersion") ?? "",
    kind: textAt(owner, "kind") ?? "",
    name: metaText(owner, "name"),
    uid: metaText(owner, "uid"),
    controller: true,
    blockOwnerDeletion: true,
  };
}
