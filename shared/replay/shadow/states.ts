/** The states that a captured cluster went through, change by change. */
import { CACHED_RESOURCES, RESOURCES } from "../../api/resources.ts";
import type { CachedResource, Controller } from "../../api/resources.ts";
import { compareResourceVersions } from "../../api/resource-version.ts";
import type { KubeObject, ObjectMeta } from "../../api/wire.ts";
import { CaptureError } from "../capture.ts";
import type { CaptureRecord } from "../capture.ts";

export type Json = Readonly<Record<string, unknown>>;

/** A whole object, as the API server had it. */
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
  /** When it was told. */
  readonly atMs: number;
}

const CONTROLLER_OF: { readonly [R in CachedResource]?: Controller } = {
  deployments: "deployment",
  replicasets: "replicaset",
  replicationcontrollers: "replicationcontroller",
};

/** Whose sync an object is the subject of; undefined for a pod. */
export function controllerOf(resource: CachedResource): Controller | undefined {
  return CONTROLLER_OF[resource];
}

export function resourceOf({ kind }: Pick<LiveObject, "kind">): CachedResource {
  return CACHED_RESOURCES.find((resource) => RESOURCES[resource].kind === kind) ?? "pods";
}

/**
 * What a capture holds, in the order of versions; what was told twice is there once.
 * @throws {CaptureError} when its objects are stripped: no sync can be run on what is not there.
 */
export function changesOf(records: readonly CaptureRecord[], name: string): readonly Change[] {
  const changes = new Map<string, Change>();
  for (const { atMs, resource, kind, type, object } of records) {
    if (object === undefined || (kind === "event" && !["ADDED", "MODIFIED", "DELETED"].includes(type ?? ""))) continue;
    if (isStripped(resource, object))
      throw new CaptureError(
        `${name}: its objects are stripped, and a sync needs them whole: take it again with \`deltaloop capture --raw\` or \`deltaloop import --no-redact\``,
      );
    const { apiVersion } = RESOURCES[resource];
    const live = { apiVersion, ...object, kind: RESOURCES[resource].kind } as unknown as LiveObject; // readCapture has seen to its metadata
    const { uid, resourceVersion } = live.metadata;
    const id = `${uid} ${resourceVersion}`;
    if (!changes.has(id)) changes.set(id, { resource, version: resourceVersion, deleted: type === "DELETED", object: live, atMs });
  }
  return [...changes.values()].toSorted((a, b) => compareResourceVersions(a.version, b.version));
}

/** A stripped pod is flat, and of a stripped template there are a digest and labels. */
function isStripped(resource: CachedResource, object: Json): boolean {
  if (object["metadata"] === undefined) return true;
  if (resource === "pods") return false;
  const spec = object["spec"] as { readonly template?: { readonly spec?: unknown } } | undefined;
  return spec?.template?.spec === undefined;
}

/** Where a state is kept, so that no other needs more changes than these from it. */
const KEPT_EVERY = 64;

/** One namespace's changes, and the states between them. */
export class History {
  /** In the order of versions. */
  readonly changes: readonly Change[];
  readonly #kept: ReadonlyMap<string, LiveObject>[] = [new Map()];

  constructor(changes: readonly Change[]) {
    this.changes = changes;
  }

  /** All objects after the first `count` changes, but the owner as upstream had it. */
  after(count: number, owner?: LiveObject): readonly LiveObject[] {
    const nearest = Math.floor(count / KEPT_EVERY);
    for (let known = this.#kept.length; known <= nearest; known++)
      this.#kept.push(changed(this.#kept[known - 1], this.changes.slice((known - 1) * KEPT_EVERY, known * KEPT_EVERY)));
    const state = changed(this.#kept[nearest], this.changes.slice(nearest * KEPT_EVERY, count));
    if (owner !== undefined) state.set(placeOf(owner), owner);
    return [...state.values()];
  }
}

/** Each namespace's own: no sync looks beyond it. */
export function historiesOf(changes: readonly Change[]): ReadonlyMap<string, History> {
  const namespaces = Map.groupBy(changes, ({ object }) => object.metadata.namespace);
  return new Map([...namespaces].map(([namespace, own]) => [namespace, new History(own)]));
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
