/** The states of a captured cluster, change by change. */
import type { Digester } from "@deltaloop/kube/pod-template";
import { messageOf, CACHED_RESOURCES, RESOURCES, compareResourceVersions } from "@deltaloop/kube/objects";
import type { CachedResource, KubeObject, ObjectMeta } from "@deltaloop/kube/objects";
import { strip } from "@deltaloop/kube/strip";
import { CaptureError, isObject } from "../capture-format/capture.ts";
import type { CaptureRecord } from "../capture-format/capture.ts";

export type Json = Readonly<Record<string, unknown>>;

/** A whole object from the API server. */
export interface LiveObject extends KubeObject {
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly namespace: string };
  readonly spec?: Json;
  readonly status?: Json;
}

export interface Change {
  readonly resource: CachedResource;
  readonly version: string;
  readonly deleted: boolean;
  readonly object: LiveObject;
  /** Time of arrival. */
  readonly atMs: number;
  /** Whether the object is part of an initial list. */
  readonly listed: boolean;
}

export function resourceOf({ kind }: Pick<LiveObject, "kind">): CachedResource {
  return CACHED_RESOURCES.find((resource) => RESOURCES[resource].kind === kind) ?? "pods";
}

export interface ChangeOptions {
  /** Name of the file for errors. */
  readonly name: string;
  readonly digester: Digester;
  /** Called for each object that a watcher would quarantine; such objects are omitted. */
  readonly malformed: (what: string) => void;
}

export function inOrder(changes: readonly Change[]): readonly Change[] {
  return changes.toSorted((a, b) => compareResourceVersions(a.version, b.version));
}

/** Returns undefined if the object is unchanged or malformed. @throws {CaptureError} when its object is stripped */
export function changeOf(
  { atMs, resource, kind, type, object }: CaptureRecord,
  isListing: boolean,
  { name, digester, malformed }: ChangeOptions,
): Change | undefined {
  if (object === undefined || (kind === "event" && !["ADDED", "MODIFIED", "DELETED"].includes(type ?? ""))) return undefined;
  if (isStripped(resource, object))
    throw new CaptureError(
      `${name}: its objects are stripped, but a sync needs them whole: record it again with \`deltaloop capture --no-redact\` or \`deltaloop import --no-redact\``,
    );
  const { apiVersion } = RESOURCES[resource];
  const live = { apiVersion, ...object, kind: RESOURCES[resource].kind } as unknown as LiveObject; // checked by strip()
  try {
    strip(resource, live, digester);
  } catch (error) {
    malformed(messageOf(error));
    return undefined;
  }
  const wrong = wrongField(live);
  if (wrong !== undefined) {
    malformed(`${resource} ${live.metadata.namespace}/${live.metadata.name}: ${wrong}`);
    return undefined;
  }
  return {
    resource,
    version: live.metadata.resourceVersion,
    deleted: type === "DELETED",
    object: live,
    atMs,
    listed: kind === "item" || isListing,
  };
}

/** Returns the first invalid field among the compared fields, which a watcher does not check. */
function wrongField({ metadata, spec, status }: LiveObject): string | undefined {
  const isList = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.every(isObject));
  if (!isList(metadata.ownerReferences)) return "ownerReferences is not a list of objects";
  if (!isList((metadata as { readonly managedFields?: unknown }).managedFields)) return "managedFields is not a list of objects";
  if (spec !== undefined && !isObject(spec)) return "spec is not an object";
  if (!isList(spec?.["containers"])) return "containers is not a list of objects";
  if (status !== undefined && !isObject(status)) return "status is not an object";
  return isList(status?.["conditions"]) && isList(status?.["containerStatuses"])
    ? undefined
    : "a list in its status has items that are not objects";
}

/** A stripped pod is flat, and a stripped template has only a digest and labels. */
function isStripped(resource: CachedResource, object: Json): boolean {
  if (object["metadata"] === undefined) return true;
  if (resource === "pods") return false;
  const spec = object["spec"] as { readonly template?: { readonly spec?: unknown } } | undefined;
  return spec?.template?.spec === undefined;
}

/** Interval of snapshots: limits the changes to apply from a snapshot to a state. */
const KEPT_EVERY = 64;

/** One namespace's changes, and the states between them. */
export class History {
  readonly #changes: Change[];
  readonly #kept: ReadonlyMap<string, LiveObject>[] = [new Map()];

  constructor(changes: readonly Change[]) {
    this.#changes = [...changes];
  }

  /** Changes in the order of versions. */
  get changes(): readonly Change[] {
    return this.#changes;
  }

  /** Adds changes, inserting changes with older versions at their position. */
  push(changes: readonly Change[]): void {
    const [last, first] = [this.#changes.at(-1), changes[0]];
    this.#changes.push(...changes);
    if (last === undefined || first === undefined || compareResourceVersions(last.version, first.version) <= 0) return;
    this.#changes.sort((a, b) => compareResourceVersions(a.version, b.version));
    this.#kept.splice(1, Infinity);
  }

  /** Returns a copy with only the newest changes, the state before them, and the previous versions of owners. */
  shortened(count: number): History {
    const begin = Math.max(0, this.#changes.length - count);
    const last = new Map<string, readonly Change[]>();
    for (const change of this.#changes.slice(0, begin)) {
      const place = placeOf(change.object);
      const before = change.resource === "pods" ? undefined : last.get(place)?.at(-1);
      last.set(place, before === undefined ? [change] : [before, change]);
    }
    const standing = [...last.values()]
      .filter((changes) => changes.at(-1)?.deleted === false)
      .flatMap((changes) => changes.filter(({ deleted }) => !deleted).map((change) => ({ ...change, listed: true })));
    return new History([...inOrder(standing), ...this.#changes.slice(begin)]);
  }

  /** Returns all objects after the first `count` changes, with `owner` in place of its recorded version. */
  after(count: number, owner?: LiveObject): readonly LiveObject[] {
    const nearest = Math.floor(count / KEPT_EVERY);
    for (let known = this.#kept.length; known <= nearest; known++)
      this.#kept.push(changed(this.#kept[known - 1], this.changes.slice((known - 1) * KEPT_EVERY, known * KEPT_EVERY)));
    const state = changed(this.#kept[nearest], this.changes.slice(nearest * KEPT_EVERY, count));
    if (owner !== undefined) state.set(placeOf(owner), owner);
    return [...state.values()];
  }
}

function changed(before: ReadonlyMap<string, LiveObject> | undefined, changes: readonly Change[]): Map<string, LiveObject> {
  const state = new Map(before);
  for (const { deleted, object } of changes) {
    if (deleted) state.delete(placeOf(object));
    else state.set(placeOf(object), object);
  }
  return state;
}

export function placeOf({ kind, metadata: { namespace, name } }: LiveObject): string {
  return `${kind} ${namespace}/${name}`;
}
