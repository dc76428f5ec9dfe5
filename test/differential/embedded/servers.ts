/** Sends a request to the in-memory API server and to a real one, and compares the parts of the responses that must be equal. */
import { clone, ensureObject, isObject, type Json, type JsonObject, objectAt, objectsAt } from "../../../shared/base/json.ts";
import type { ApiClient } from "../../envtest/api-client.ts";

export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: JsonObject;
  readonly contentType?: string;
}

export interface Answer {
  readonly code: number;
  readonly body: Json;
  /** The Warning headers; empty for CustomResourceDefinitions, because ours and upstream warn about different things. */
  readonly warnings: readonly string[];
}

export interface Servers {
  readonly real: ApiClient;
  readonly ours: ApiClient;
}

export const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
export const MERGE = "application/merge-patch+json";
export const APPLY = "application/apply-patch+yaml";

export async function ask(send: ApiClient, { method, path, body, contentType }: Request): Promise<Answer> {
  const answer = await send(method, path, body, contentType);
  const warnings = path.startsWith(CRDS) ? [] : answer.warnings;
  return { code: answer.code, body: answer.body as Json, warnings }; // the client has parsed the body
}

/** Fields that a server's allocators set. */
const ADDRESSES = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/**
 * Returns the response without the values that each server chooses: uids, versions, times, addresses, and the order of errors and managers.
 */
export function comparable({ body, ...answer }: Answer): Answer {
  return { ...answer, body: isObject(body) ? (body["kind"] === "Status" ? status(body) : object(body)) : body };
}

function object(body: JsonObject): JsonObject {
  const copy = clone(body);
  const meta = ensureObject(copy, "metadata");
  for (const field of ["uid", "resourceVersion", "creationTimestamp"]) delete meta[field];
  const entries = meta["managedFields"];
  if (Array.isArray(entries)) meta["managedFields"] = sorted(entries.filter(isObject).map(({ time: _time, ...entry }) => entry));
  if (copy["kind"] === "Service") for (const field of ADDRESSES) delete ensureObject(copy, "spec")[field];
  return inOrder(copy) as JsonObject; // of an object
}

/** Sorts the errors of a response, which are in the order of a Go map. */
function status(body: JsonObject): JsonObject {
  const copy = clone(body);
  const details = objectAt(copy, "details");
  if (isObject(details) && Array.isArray(details["causes"])) details["causes"] = sorted(details["causes"]);
  if (isObject(details)) delete details["uid"];
  const [cause] = objectsAt(details, "causes");
  if (cause?.["field"] === "patch") {
    cause["message"] = withoutPatched(String(cause["message"]));
    copy["message"] = withoutPatched(String(copy["message"]));
  }
  const text = String(copy["message"] ?? "");
  const [, head = "", list = ""] = /^(.*? is invalid: )\[(.*)\]$/su.exec(text) ?? [];
  // Which error comes first also depends on a Go map; the causes contain all of them.
  if (list !== "") copy["message"] = `${head}${list.length} characters`;
  // Upstream reports one of several fields; which one depends on the order of a Go map.
  const [typed = ""] = /^failed to create typed patch object \([^)]*\): /u.exec(text) ?? [];
  if (typed !== "") copy["message"] = typed;
  if (text.startsWith("Apply failed with ")) copy["message"] = text.split("\n").toSorted().join("\n");
  return inOrder(copy) as JsonObject; // of an object
}

/** Removes the quoted object from an error about a patch: its uid, versions and key order differ between the servers. */
function withoutPatched(message: string): string {
  return message.replace(/^(.*?Invalid value: )"(?:[^"\\]|\\.)*"/u, "$1the object");
}

function sorted(list: readonly Json[]): Json[] {
  return list.map(inOrder).toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

function inOrder(value: Json): Json {
  if (Array.isArray(value)) return value.map(inOrder);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, inOrder(each)]),
  );
}

/** Returns the differences between two responses: `body.spec.replicas: 3, ours 1`. */
export function differencesOf(real: Answer, ours: Answer): string[] {
  const json = ({ warnings, ...answer }: Answer): Json => inOrder({ ...answer, warnings: [...warnings] });
  return differing(json(comparable(real)), json(comparable(ours)), "");
}

function differing(real: Json | undefined, ours: Json | undefined, path: string): string[] {
  if (JSON.stringify(real) === JSON.stringify(ours)) return [];
  if (isObject(real) && isObject(ours)) {
    const keys = new Set([...Object.keys(real), ...Object.keys(ours)]);
    return [...keys].flatMap((key) => differing(real[key], ours[key], `${path}.${key}`));
  }
  if (Array.isArray(real) && Array.isArray(ours) && real.length === ours.length)
    return real.flatMap((item, i) => differing(item, ours[i], `${path}[${i}]`));
  return [`${path.slice(1)}: ${JSON.stringify(real)}, ours ${JSON.stringify(ours)}`];
}

export function agree(a: Answer, b: Answer): boolean {
  return JSON.stringify(comparable(a)) === JSON.stringify(comparable(b));
}
