/** The outcome of a sync, in a form that upstream's controllers and ours share. */
import type { Fields, Json, Write } from "./shared-api-server.ts";

export type Ending =
  | { readonly kind: "done" }
  | { readonly kind: "again"; readonly afterMs: number }
  | { readonly kind: "error"; readonly message: string };

/** A sync as it was observed. */
export interface Sync {
  readonly writes: readonly Write[];
  readonly events: readonly string[];
  readonly ending: Ending;
  readonly begunAnewAfter?: number;
}

/** A sync as it is compared and stored. */
export interface Outcome {
  readonly writes: readonly string[];
  readonly events: readonly string[];
  readonly ending: string;
  /** The number of writes before upstream had to restart the sync (deployment Q11); undefined if it did not. */
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

/**
 * Describes a deleted pod by the criteria of the ranking, because the choice among equal pods is random. Source: controller_utils.go
 * ActivePodsWithRanks.
 */
function rankOf({ metadata, spec, status }: Fields): string {
  const { annotations, creationTimestamp } = metadata as Fields; // the type of a pod's field
  const { phase, conditions, containerStatuses } = (status ?? {}) as Fields; // the type of a pod's field
  const ready = ((conditions ?? []) as readonly Fields[]).find(({ type }) => type === "Ready"); // the type of a pod's field
  const readySince = ready?.["status"] === "True" ? (ready["lastTransitionTime"] ?? "some time") : "not";
  const [container] = (containerStatuses ?? []) as readonly Fields[]; // the type of a pod's field
  const cost = Object.values((annotations ?? {}) as Fields).join();
  return `<${[(spec as Fields)["nodeName"] ?? "no node", phase, `ready ${JSON.stringify(readySince)}`, container?.["restartCount"] ?? 0, cost, creationTimestamp].join(", ")}>`;
}

/** Returns whether a request changed an object; both sides ignore the others. */
function hasEffect({ verb, before, after }: Write): boolean {
  return verb !== "change" || before === undefined || after === undefined || changes(plain(before), plain(after)).length > 0;
}

/** Replaces names, longest first, because one name may be a prefix of another. */
function renamed(names: readonly (readonly [string, string])[]): (text: string) => string {
  const longestFirst = names.toSorted(([a], [b]) => b.length - a.length);
  return (text) =>
    longestFirst
      .reduce((line, [name, as]) => line.replaceAll(name, as), text)
      .replaceAll(/kube-api-access-[a-z0-9]{5}/g, "kube-api-access-NEW");
}

// Pods are created and deleted concurrently, and upstream iterates over its cache in the random order of a Go map.
const POD = / pods /;
const CLAIMS = /^change replicasets .* metadata\.ownerReferences /;
const SAME_SIZE = /^change replicasets (?!.*(?:spec\.|ownerReferences|revision|team))/;
const OF_PODS = /^repli/;

/** Sorts the matching lines, whose order does not matter. */
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

/** Fields that contain only the number, time and author of writes. */
const VOLATILE = new Set(["resourceVersion", "managedFields", "selfLink"]);

/** Returns an object without the fields that differ in every run. */
function plain(object: Fields): Fields {
  const metadata = Object.fromEntries(
    Object.entries((object["metadata"] ?? {}) as Fields).filter(([field]) => !VOLATILE.has(field) && field !== "uid"), // the type of an object's metadata
  );
  return { ...object, metadata };
}

/** Returns one text per changed field, as `spec.replicas 3 -> 5`. Compares conditions by type, and other lists as a whole. */
function changes(before: Json, after: Json, path = ""): readonly string[] {
  const [a, b] = [JSON.stringify(sorted(before)), JSON.stringify(sorted(after))];
  if (a === b) return [];
  const [was, is] = [byType(before), byType(after)];
  if (was !== undefined && is !== undefined) return changes(was, is, path);
  if (!isFields(before) || !isFields(after)) return [`${path} ${short(a)} -> ${short(b)}`];
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return fields.flatMap((field) => changes(before[field] ?? null, after[field] ?? null, path === "" ? field : `${path}.${field}`));
}

/** Returns a list of conditions as fields by type, including their order; undefined for other values. */
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
