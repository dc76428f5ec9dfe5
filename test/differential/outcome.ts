/** What a sync did, in words that are the same for upstream's controllers and for ours. */
import type { Fields, Json, Write } from "./shared-api-server.ts";

export type Ending =
  | { readonly kind: "done" }
  | { readonly kind: "again"; readonly afterMs: number }
  | { readonly kind: "error"; readonly message: string };

/** As it was seen. */
export interface Sync {
  readonly writes: readonly Write[];
  readonly events: readonly string[];
  readonly ending: Ending;
  readonly begunAnewAfter?: number;
}

/** As it is compared and kept. */
export interface Outcome {
  readonly writes: readonly string[];
  readonly events: readonly string[];
  readonly ending: string;
  /** How many of the writes came before upstream had to begin anew (deployment Q11); undefined: it had not. */
  readonly begunAnewAfter?: number;
}

export function outcomeOf({ writes, events, ending, begunAnewAfter }: Sync): Outcome {
  const pods = writes.filter(({ resource }) => resource === "pods");
  const created = pods.filter(({ verb }) => verb === "create").map(({ name }) => [name, "NEW"] as const);
  const deleted = pods.filter(({ verb }) => verb === "delete").map(({ name, before }) => [name, rankOf(before ?? {})] as const);
  const anonymous = renamed([...created, ...deleted]);
  const anonymousWrite = ({ verb }: Write): ((text: string) => string) => (verb === "delete" ? anonymous : renamed(created));
  const linesOf = (some: readonly Write[]): readonly string[] =>
    [CLAIMS, SAME_SIZE, POD].reduce(
      unordered,
      some.filter(hasEffect).map((write) => anonymousWrite(write)(writeText(write))),
    );
  const first = linesOf(writes.slice(0, begunAnewAfter ?? 0));
  return {
    writes: [...first, ...linesOf(writes.slice(begunAnewAfter ?? 0))],
    events: unordered(events.map(anonymous), OF_PODS),
    ending: ending.kind === "again" ? `again after ${ending.afterMs} ms` : ending.kind,
    ...(begunAnewAfter !== undefined && { begunAnewAfter: first.length }),
  };
}

/** Which pod goes, in the words by which pods are ranked: among equals it is chance. Source: controller_utils.go ActivePodsWithRanks. */
function rankOf({ metadata, spec, status }: Fields): string {
  const { annotations, creationTimestamp } = metadata as Fields; // a pod's
  const { phase, conditions, containerStatuses } = (status ?? {}) as Fields; // a pod's
  const ready = ((conditions ?? []) as readonly Fields[]).find(({ type }) => type === "Ready"); // a pod's
  const readySince = ready?.["status"] === "True" ? (ready["lastTransitionTime"] ?? "some time") : "not";
  const [container] = (containerStatuses ?? []) as readonly Fields[]; // a pod's
  const cost = Object.values((annotations ?? {}) as Fields).join();
  return `<${[(spec as Fields)["nodeName"] ?? "no node", phase, `ready ${JSON.stringify(readySince)}`, container?.["restartCount"] ?? 0, cost, creationTimestamp].join(", ")}>`;
}

/** Neither side's requests that change nothing are of interest. */
function hasEffect({ verb, before, after }: Write): boolean {
  return verb !== "change" || before === undefined || after === undefined || changes(plain(before), plain(after)).length > 0;
}

/** Puts other words for names; longest first, for one name may begin another. */
function renamed(names: readonly (readonly [string, string])[]): (text: string) => string {
  const longestFirst = names.toSorted(([a], [b]) => b.length - a.length);
  return (text) =>
    longestFirst
      .reduce((line, [name, as]) => line.replaceAll(name, as), text)
      .replaceAll(/kube-api-access-[a-z0-9]{5}/g, "kube-api-access-NEW");
}

// Upstream goes through what its cache holds in the order of a Go map: chance. Pods are created and deleted all at once.
const POD = / pods /;
const CLAIMS = /^change replicasets .* metadata\.ownerReferences /;
const SAME_SIZE = /^change replicasets (?!.*(?:spec\.|ownerReferences|revision|team))/;
const OF_PODS = /^repli/;

/** Matching lines may have any order. */
function unordered(lines: readonly string[], which: RegExp): readonly string[] {
  const sorted = lines.filter((line) => which.test(line)).toSorted();
  return lines.map((line) => (which.test(line) ? (sorted.shift() ?? "") : line));
}

function writeText({ verb, resource, name, status, refused, before, after }: Write): string {
  const what =
    after === undefined
      ? ""
      : verb === "create"
        ? ` ${JSON.stringify(sorted(plain(after)))}`
        : ` ${changes(plain(before ?? {}), plain(after)).join(", ")}`;
  return `${verb} ${resource} ${name} ${status}${refused ? " (refused)" : ""}${what}`;
}

/** Fields that only have the number, time and author of writes. */
const VOLATILE = new Set(["resourceVersion", "managedFields", "selfLink"]);

/** An object without what no two runs share. */
function plain(object: Fields): Fields {
  const metadata = Object.fromEntries(
    Object.entries((object["metadata"] ?? {}) as Fields).filter(([field]) => !VOLATILE.has(field) && field !== "uid"), // an object's
  );
  return { ...object, metadata };
}

/** `spec.replicas 3 -> 5`, one a changed field; lists of conditions by type, other lists as a whole. */
function changes(before: Json, after: Json, path = ""): readonly string[] {
  const [a, b] = [JSON.stringify(sorted(before)), JSON.stringify(sorted(after))];
  if (a === b) return [];
  const [was, is] = [byType(before), byType(after)];
  if (was !== undefined && is !== undefined) return changes(was, is, path);
  if (!isFields(before) || !isFields(after)) return [`${path} ${short(a)} -> ${short(b)}`];
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return fields.flatMap((field) => changes(before[field] ?? null, after[field] ?? null, path === "" ? field : `${path}.${field}`));
}

/** A list of conditions, or none, as fields; their order is one of them. */
function byType(value: Json): Fields | undefined {
  if (value === null || !isList(value)) return undefined;
  const entries = value.flatMap((item) => (isFields(item) && typeof item["type"] === "string" ? [[item["type"], item] as const] : []));
  if (entries.length !== value.length) return undefined;
  return { ...Object.fromEntries(entries), order: entries.map(([type]) => type) };
}

function short(text: string): string {
  return text === "null" ? "none" : text;
}

function sorted(value: Json): Json {
  if (isList(value)) return value.map(sorted);
  if (!isFields(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .toSorted()
      .map((field) => [field, sorted(value[field] ?? null)]),
  );
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function isFields(value: Json): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
