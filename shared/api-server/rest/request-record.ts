/** Records of requests for listeners. */
import { isObject, type JsonObject, nameOf } from "@deltaloop/base";
import { parsedOrText } from "./request-body.ts";
import { type ApiRequest, queryOf, type ResourcePath, type Verb } from "./request-info.ts";

/** One answered request, like a line of the audit log; for the demo's view and for tests. */
export interface RequestRecord {
  readonly atMs: number;
  readonly verb: Verb;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly userAgent: string;
  readonly fieldManager: string;
  readonly contentType: string;
  readonly body: unknown;
  readonly status: number;
  /** Absent for watches. */
  readonly response?: JsonObject;
}

export interface Answered {
  readonly atMs: number;
  readonly verb: Verb;
  readonly status: number;
  readonly response: JsonObject | undefined;
}

export function requestRecord(request: ApiRequest, path: ResourcePath, { atMs, verb, status, response }: Answered): RequestRecord {
  const { definition, namespace, name, subresource } = path;
  let known: { readonly body: unknown } | undefined;
  // Most listeners read no body.
  const body = (): unknown => (known ??= { body: parsedOrText(request.body) }).body;
  return {
    atMs,
    verb,
    group: definition.group,
    resource: definition.resource,
    subresource,
    namespace,
    name: name === "" && verb === "create" ? nameOf(createdBy(body, response, status)) : name,
    userAgent: request.headers?.["user-agent"] ?? "",
    fieldManager: queryOf(request)("fieldManager") ?? "",
    contentType: request.headers?.["content-type"] ?? "",
    get body() {
      return body();
    },
    status,
    ...(response === undefined ? {} : { response }),
  };
}

/** The created object, otherwise the requested one. */
function createdBy(body: () => unknown, response: JsonObject | undefined, status: number): JsonObject {
  if (response !== undefined && status < 300) return response;
  const requested = body();
  return isObject(requested) ? requested : {};
}
