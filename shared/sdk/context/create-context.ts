/** The context of one sync, from a snapshot. Pure: clock, log and live reads are handed in. */
import type { Definition } from "../definition/controller.ts";
import type { Meta, SyncLog } from "../definition/context.ts";
import { apiVersionOf } from "../definition/kind.ts";
import type { AnyKind, KindId } from "../definition/kind.ts";
import type { Condition } from "../definition/schema.ts";

/** An object of a snapshot: its visible fields. */
export interface VisibleObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Pick<Meta, "name"> & Partial<Meta> & { readonly annotations?: Readonly<Record<string, string>> };
  readonly [field: string]: unknown;
}

/** The input of a sync. All objects are of the same moment. */
export interface Snapshot {
  readonly object: VisibleObject;
  readonly owned: readonly VisibleObject[];
  readonly watched: readonly VisibleObject[];
}

/** The input of a context in addition to the snapshot. */
export interface Surroundings {
  readonly now: Date;
  readonly signal: AbortSignal;
  readonly log: SyncLog;
  /** A quorum read of the whole object; `undefined` if there is none. */
  live(kind: KindId, name: string, namespace: string): Promise<VisibleObject | undefined>;
}

/** The argument of `Controller.sync`. */
export function createContext(definition: Definition, snapshot: Snapshot, { now, signal, log, live }: Surroundings): object {
  const { primary, reads } = definition;
  const object = complete(snapshot.object);
  const { name: own, namespace: ownNamespace, generation } = object.metadata;
  const liveRead = async (kind?: AnyKind, name: string = own, namespace: string = ownNamespace): Promise<unknown> => {
    if (kind === undefined) {
      const found = await live(primary, own, ownNamespace);
      if (found === undefined) throw new Error(`${primary.kind} ${own} was deleted`);
      return complete(found);
    }
    const allowed = reads.some((read) => isSame(read.kind, kind) && includes(read.place, { name, namespace }, ownNamespace));
    if (!allowed)
      throw new Error(`${kind.kind} ${namespace}/${name} is not in \`reads\`: add it, outside the primary's namespace with \`only\``);
    const found = await live(kind.data, name, kind.scope === "Cluster" ? "" : namespace);
    return found && complete(found);
  };
  return {
    object,
    owned: lookup("owns", definition.owns, snapshot.owned, ownNamespace),
    watched: lookup("watches", definition.watches, snapshot.watched, ownNamespace),
    now,
    signal,
    log,
    live: liveRead,
    condition: conditionOf(object, generation, now),
  };
}

function lookup(
  list: "owns" | "watches",
  sources: readonly { readonly kind: KindId }[],
  objects: readonly VisibleObject[],
  ownNamespace: string,
): (kind: AnyKind, name?: string, namespace?: string) => unknown {
  return (kind, name, namespace = ownNamespace) => {
    if (!sources.some((source) => isSame(source.kind, kind))) throw new Error(`${kind.kind} is not in \`${list}\`: add it`);
    const apiVersion = apiVersionOf(kind);
    const found = objects.filter((object) => object.apiVersion === apiVersion && object.kind === kind.kind).map(complete);
    if (name === undefined) return found;
    // under a cluster-scoped primary the namespace may be left out
    const isThere = (there: string): boolean => kind.scope === "Cluster" || namespace === "" || there === namespace;
    return found.find(({ metadata }) => metadata.name === name && isThere(metadata.namespace));
  };
}

function includes(
  place: { readonly namespace: string; readonly name?: string } | undefined,
  wanted: { readonly name: string; readonly namespace: string },
  ownNamespace: string,
): boolean {
  if (place === undefined) return wanted.namespace === ownNamespace;
  return place.namespace === wanted.namespace && (place.name === undefined || place.name === wanted.name);
}

function isSame(a: KindId, b: KindId): boolean {
  return a.group === b.group && a.version === b.version && a.kind === b.kind;
}

/** The object with all fields of `Meta`, so that `sync` needs no defaults. */
function complete(object: VisibleObject): VisibleObject & { readonly metadata: Meta } {
  const { metadata } = object;
  const defaults = {
    namespace: "",
    uid: "",
    resourceVersion: "",
    generation: 0,
    creationTimestamp: "",
    labels: {},
    annotations: {},
    finalizers: [],
    ownerReferences: [],
  };
  return { ...object, metadata: { ...defaults, ...metadata } };
}

/** Upstream's rule: lastTransitionTime changes with the status only. Source: apimachinery pkg/api/meta/conditions.go SetStatusCondition. */
function conditionOf(
  object: VisibleObject,
  generation: number,
  now: Date,
): (type: string, status: boolean | "Unknown", reason: string, message?: string) => Condition {
  const { conditions = [] } = (object["status"] ?? {}) as { readonly conditions?: readonly Condition[] }; // guaranteed by its schema
  return (type, given, reason, message = "") => {
    const status = given === "Unknown" ? given : given ? "True" : "False";
    const before = conditions.find((condition) => condition.type === type);
    const seconds = `${now.toISOString().slice(0, -".000Z".length)}Z`;
    const lastTransitionTime = before?.status === status ? before.lastTransitionTime : seconds;
    return { type, status, reason, message, lastTransitionTime, observedGeneration: generation };
  };
}
