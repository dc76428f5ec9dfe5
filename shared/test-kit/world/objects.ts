/** Operations of a test on objects, as a kubectl user performs them. */
import type { ApiServer } from "@deltaloop/api-server";
import { exactText, isObject } from "@deltaloop/base";
import type { JsonObject } from "@deltaloop/base";
import type { KindData } from "@deltaloop/sdk/definitions";
import { apiVersionOf, crdManifest } from "@deltaloop/sdk/definitions";
import type { Definition } from "@deltaloop/sdk/definitions";
import type { GivenObject } from "../decide/given.ts";
import { anyObjectCrd, isBuiltIn, pathOf, resourceId } from "./kinds.ts";
import type { Kinds } from "./kinds.ts";

/** The field manager and user agent of the test's requests. */
const MANAGER = "test";
const NAMESPACE = "default";
const APPLY = "application/apply-patch+yaml";
const MERGE = "application/merge-patch+json";
const NOT_FOUND = 404;
const CONFLICT = 409;

export interface Objects {
  apply(object: GivenObject, manager?: string): Promise<JsonObject>;
  edit(kind: KindData, namespace: string, name: string, patch: object): Promise<JsonObject>;
  delete(kind: KindData, namespace: string, name: string): Promise<void>;
  get(kind: KindData, namespace: string, name: string): JsonObject | undefined;
  list(kind: KindData, namespace?: string): Promise<readonly JsonObject[]>;
  /** Creates the CustomResourceDefinitions. */
  addKinds(definitions: readonly Definition[]): Promise<void>;
}

export function objectsOf(server: ApiServer, kinds: Kinds): Objects {
  async function send(
    method: string,
    path: string,
    body?: object,
    contentType = "application/json",
    query: Readonly<Record<string, string>> = {},
  ) {
    const headers = { "user-agent": MANAGER, "content-type": contentType };
    const answer = await server.request({ method, path, query, headers, ...(body && { body: exactText(body) }) });
    return { status: answer.status, body: answer.kind === "object" ? answer.body : {} };
  }
  const request = async (...args: Parameters<typeof send>): Promise<JsonObject> => {
    const { status, body } = await send(...args);
    if (status >= 400) throw new Error(typeof body["message"] === "string" ? body["message"] : `${args[0]} ${args[1]} answered ${status}`);
    return body;
  };
  return {
    async apply(given, manager = MANAGER) {
      const kind = kinds.of(given);
      const { status, ...object } = given;
      const { name, namespace = kind.scope === "Namespaced" ? NAMESPACE : "" } = given.metadata;
      if (namespace !== "" && server.peek("namespaces", "", namespace) === undefined)
        await request("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
      const path = pathOf(kind, namespace, name);
      const applied = await request("PATCH", path, object, APPLY, { fieldManager: manager, force: "true" });
      return status === undefined || !kind.status ? applied : await request("PATCH", `${path}/status`, { status }, MERGE);
    },
    async edit(kind, namespace, name, patch) {
      const { status, ...rest } = patch as { readonly status?: unknown };
      const path = pathOf(kind, namespace, name);
      const edited = Object.keys(rest).length > 0 || status === undefined ? await request("PATCH", path, rest, MERGE) : undefined;
      return status === undefined ? (edited ?? {}) : await request("PATCH", `${path}/status`, { status }, MERGE);
    },
    async delete(kind, namespace, name) {
      await request("DELETE", pathOf(kind, namespace, name));
    },
    get: (kind, namespace, name) => {
      const found = server.peek(resourceId(kind), namespace, name);
      return found && { apiVersion: apiVersionOf(kind), kind: kind.kind, ...found };
    },
    async list(kind, namespace = "") {
      const { status, body } = await send("GET", pathOf(kind, namespace));
      if (status === NOT_FOUND) return []; // not served
      return (Array.isArray(body["items"]) ? body["items"] : [])
        .filter(isObject)
        .map((item) => ({ apiVersion: apiVersionOf(kind), kind: kind.kind, ...item }));
    },
    async addKinds(definitions) {
      const crds = new Map(
        definitions.flatMap(({ primary, owns, watches, reads }) =>
          [primary, ...[...owns, ...watches, ...reads].map(({ kind }) => kind)].flatMap((kind) =>
            isBuiltIn(kind) ? [] : [[resourceId(kind), crdManifest(kind) ?? anyObjectCrd(kind)] as const],
          ),
        ),
      );
      for (const crd of crds.values()) {
        const { status, body } = await send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd);
        if (status >= 400 && status !== CONFLICT) throw new Error(String(body["message"] ?? `the API server returned ${status}`));
      }
    },
  };
}
