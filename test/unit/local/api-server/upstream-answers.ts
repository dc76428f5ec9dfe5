/**
 * Recorded requests to kube-apiserver v1.37.2 with their responses: upstream-answers.json, rejections in upstream-refusals.jsonl, and
 * server-side apply in upstream-applies.json. The tests send the same requests to the in-memory API server; record-upstream-answers.ts
 * sends them to a real one and records the responses.
 */
import type { ApiClient } from "../../../envtest/api-client.ts";
import { readFileSync, writeFileSync } from "node:fs";
import { isObject, type Json, type JsonObject } from "../../../../shared/base/json.ts";

export interface Exchange {
  readonly name: string;
  /** Method and path with query, as `PATCH /apis/…?query`. The sequences use the namespaces `golden` and `refusals`. */
  readonly request: string;
  readonly type?: string;
  readonly accept?: string;
  /** The body. `@name` stands for the uid of the object with that name, `(x×300)` for that number of characters. */
  readonly body?: Json;
  /** A body that is not JSON, in base64. */
  readonly raw?: string;
  readonly status: number;
  readonly answer: JsonObject;
}

const ANSWERS_FILE = new URL("upstream-answers.json", import.meta.url);
const APPLIES_FILE = new URL("upstream-applies.json", import.meta.url);
const REFUSALS_FILE = new URL("upstream-refusals.jsonl", import.meta.url);

/** The exchange that creates the namespace of the second sequence. */
const FIRST_REFUSAL = "r ns";

/** Exchanges whose responses differ; each comment states the difference. */
const KNOWN_DIFFERENCES: Readonly<Record<string, string>> = {
  "d bad strategy": "upstream prints its internal Go struct",
  "pod spec change": "upstream adds a diff",
  "pod nodeName": "upstream adds a diff",
  "list bad label": "upstream names what it expected",
  "list bad continue": "upstream quotes the decoder",
};

/** Returns whether only status and reason are compared, because upstream quotes the whole patched object with its managedFields. */
export function isWordedOtherwise(one: Exchange): boolean {
  return KNOWN_DIFFERENCES[one.name] !== undefined || quotesObject(one);
}

/** Returns whether upstream's message quotes the whole object, with its uid and times. */
export function quotesObject({ answer }: Exchange): boolean {
  return String(answer["message"]).startsWith(' "" is invalid: patch:');
}

/** Pauses in ms after these exchanges: the server's controllers need time to count for the quota, or to create a service account. */
export const PAUSES_MS: Readonly<Record<string, number>> = { quota: 1_500, [FIRST_REFUSAL]: 1_500 };

export function readExchanges(): readonly Exchange[] {
  // The recorder writes these files.
  const lines = readFileSync(REFUSALS_FILE, "utf8").trimEnd().split("\n");
  return [...JSON.parse(readFileSync(ANSWERS_FILE, "utf8")), ...lines.map((line): unknown => JSON.parse(line))] as readonly Exchange[];
}

export function writeExchanges(exchanges: readonly Exchange[]): void {
  const lines = exchanges.map((one) => JSON.stringify(one));
  const refusals = lines.splice(exchanges.findIndex(({ name }) => name === FIRST_REFUSAL));
  writeFileSync(ANSWERS_FILE, `[\n${lines.join(",\n")}\n]\n`);
  writeFileSync(REFUSALS_FILE, `${refusals.join("\n")}\n`);
}

/** Returns the exchanges of server-side apply, whose responses include managed fields. */
export function readApplies(): readonly Exchange[] {
  return JSON.parse(readFileSync(APPLIES_FILE, "utf8")) as readonly Exchange[]; // the recorder wrote the file
}

export function writeApplies(exchanges: readonly Exchange[]): void {
  writeFileSync(APPLIES_FILE, `[\n${exchanges.map((one) => JSON.stringify(one)).join(",\n")}\n]\n`);
}

export type Send = (request: {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly type: string;
  readonly accept: string;
  readonly body: Json | Buffer | undefined;
}) => Promise<{
  readonly status: number;
  readonly body: JsonObject;
}>;

export function sendOver(api: ApiClient): Send {
  return async ({ method, path, query, type, accept, body }) => {
    const answer = await api(method, query === "" ? path : `${path}?${query}`, body, type, accept);
    return { status: answer.code, body: isObject(answer.body) ? answer.body : {} };
  };
}

/** Makes one exchange with a server, and stores the uids in the response for later exchanges. */
export async function exchange(
  one: Exchange,
  send: Send,
  uids: Map<string, string>,
  hasManagedFields = false,
): Promise<{ readonly status: number; readonly answer: Json }> {
  const [method = "", url = ""] = one.request.split(" ");
  const [path = "", query = ""] = url.split("?");
  const json = one.body === undefined ? undefined : fill(one.body, uids);
  const body = one.raw === undefined ? json : Buffer.from(one.raw, "base64");
  const { type = "application/json", accept = "application/json" } = one;
  const { status, body: answer } = await send({ method, path, query, type, accept, body });
  const { name, uid } = isObject(answer["metadata"]) ? answer["metadata"] : {};
  if (typeof name === "string" && typeof uid === "string") uids.set(name, uid);
  return { status, answer: normalise(answer, hasManagedFields) };
}

function fill(value: Json, uids: ReadonlyMap<string, string>): Json {
  if (typeof value === "string") {
    const [, character = "", times] = /^\((.)×(\d+)\)$/u.exec(value) ?? [];
    if (times !== undefined) return character.repeat(Number(times));
    return value.startsWith("@") ? (uids.get(value.slice(1)) ?? value) : value;
  }
  if (Array.isArray(value)) return value.map((entry) => fill(entry, uids));
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, fill(entry, uids)])) : value;
}

const VOLATILE = new Set(["resourceVersion", "creationTimestamp", "deletionTimestamp", "lastTransitionTime", "time"]);

/** Replaces values that differ between runs by placeholders. */
export function normalise(value: Json, hasManagedFields = false): Json {
  if (Array.isArray(value)) return value.map((entry) => normalise(entry, hasManagedFields));
  if (isObject(value)) {
    const entries = Object.entries(value).filter(([key]) => hasManagedFields || key !== "managedFields");
    return Object.fromEntries(
      entries
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, entry]) => [key, VOLATILE.has(key) && entry !== null ? `<${key}>` : normalise(entry, hasManagedFields)]),
    );
  }
  if (typeof value !== "string") return value;
  return value
    .replaceAll(/(.)\1{999,}/gu, (text, character: string) => `(${character}×${text.length / character.length})`)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/gu, "<uid>")
    .replaceAll(/kube-api-access-\w{5}/gu, "kube-api-access-X")
    .replaceAll(/^g-\w{5}$/gu, "g-X")
    .replaceAll(/current: \d+/gu, "current: N")
    .replaceAll(/in record \(\d+\)/gu, "in record (N)");
}
