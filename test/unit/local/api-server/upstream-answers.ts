/**
 * A conversation with kube-apiserver v1.36.3, request by request, in upstream-answers.json. The test repeats it with
 * the in-memory API server; record-upstream-answers.ts runs it against a real one and records the answers.
 */
import type { ApiClient } from "../../../envtest/api-client.ts";
import { readFileSync } from "node:fs";
import { isObject, type Json, type JsonObject } from "../../../../shared/base/json.ts";

export interface Exchange {
  readonly name: string;
  /** `PATCH /apis/…?query`. The namespace of the conversation is `golden` here. */
  readonly request: string;
  readonly type?: string;
  /** `@name` stands for the uid of the object of that name. */
  readonly body?: Json;
  readonly status: number;
  readonly answer: JsonObject;
}

export const EXCHANGES_FILE = new URL("upstream-answers.json", import.meta.url);

export function readExchanges(): readonly Exchange[] {
  // Our own file, written by the recorder.
  return JSON.parse(readFileSync(EXCHANGES_FILE, "utf8")) as readonly Exchange[];
}

export type Send = (request: {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly type: string;
  readonly body: Json | undefined;
}) => Promise<{
  readonly status: number;
  readonly body: JsonObject;
}>;

export function sendOver(api: ApiClient): Send {
  return async ({ method, path, query, type, body }) => {
    const answer = await api(method, query === "" ? path : `${path}?${query}`, body, type);
    return { status: answer.code, body: isObject(answer.body) ? answer.body : {} };
  };
}

/** One exchange with a server; remembers uids for later ones. */
export async function exchange(
  one: Exchange,
  send: Send,
  uids: Map<string, string>,
): Promise<{ readonly status: number; readonly answer: Json }> {
  const [method = "", url = ""] = one.request.split(" ");
  const [path = "", query = ""] = url.split("?");
  const body = one.body === undefined ? undefined : fill(one.body, uids);
  const { status, body: answer } = await send({ method, path, query, type: one.type ?? "application/json", body });
  const { name, uid } = isObject(answer["metadata"]) ? answer["metadata"] : {};
  if (typeof name === "string" && typeof uid === "string") uids.set(name, uid);
  return { status, answer: normalise(answer) };
}

function fill(value: Json, uids: ReadonlyMap<string, string>): Json {
  if (typeof value === "string") return value.startsWith("@") ? (uids.get(value.slice(1)) ?? value) : value;
  if (Array.isArray(value)) return value.map((entry) => fill(entry, uids));
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, fill(entry, uids)])) : value;
}

const VOLATILE = new Set(["resourceVersion", "creationTimestamp", "deletionTimestamp", "lastTransitionTime"]);

/** Replaces values that differ between runs by placeholders. */
export function normalise(value: Json): Json {
  if (Array.isArray(value)) return value.map(normalise);
  if (isObject(value)) {
    const entries = Object.entries(value).filter(([key]) => key !== "managedFields");
    return Object.fromEntries(
      entries
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, entry]) => [key, VOLATILE.has(key) && entry !== null ? `<${key}>` : normalise(entry)]),
    );
  }
  if (typeof value !== "string") return value;
  return value
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/gu, "<uid>")
    .replaceAll(/kube-api-access-\w{5}/gu, "kube-api-access-X")
    .replaceAll(/^g-\w{5}$/gu, "g-X")
    .replaceAll(/current: \d+/gu, "current: N")
    .replaceAll(/in record \(\d+\)/gu, "in record (N)");
}
