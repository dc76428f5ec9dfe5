/** What changed in the objects of a capture: of each version what is otherwise than in the one before, and who made it so. */
import type { Cached, CachedDeployment, CachedPod, CachedReplicaSet, CachedReplicationController } from "../../api/cached.ts";
import type { Digester } from "../../api/digest.ts";
import { controllerRef } from "../../api/owner-references.ts";
import type { CachedResource } from "../../api/resources.ts";
import { strip } from "../../api/strip.ts";
import type { Condition, Labels } from "../../api/wire.ts";
import type { CapturedObject, CaptureRecord } from "../capture.ts";
import { canonical } from "../shadow/said.ts";

/** `from` and `to` are absent where the field is, and where only that it changed may be told. */
export interface Difference {
  readonly field: string;
  readonly from?: string;
  readonly to?: string;
}

export interface ObjectChange {
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Uid of what controls it. */
  readonly owner?: string;
  readonly kind: "stands" | "appears" | "changes" | "goes";
  readonly differences: readonly Difference[];
  /** The field manager whose fields changed last, where the object tells. */
  readonly by?: string;
}

/** In the order in which they were told; versions that differ in nothing that is shown are left out. */
export function objectChanges(records: readonly CaptureRecord[], digester: Digester): readonly ObjectChange[] {
  const told = new ToldChanges(digester);
  return records.flatMap((record) => told.of(record));
}

/** Record by record; knows what stands there, and no more. */
export class ToldChanges {
  readonly #digester: Digester;
  readonly #known = new Map<string, Seen>();
  readonly #lists = new Map<CachedResource, { isFirst: boolean; readonly uids: Set<string> }>();

  constructor(digester: Digester) {
    this.#digester = digester;
  }

  of(record: CaptureRecord): readonly ObjectChange[] {
    const { resource, kind } = record;
    const list = this.#lists.get(resource) ?? { isFirst: true, uids: new Set() };
    this.#lists.set(resource, list);
    const change = changeOf(record, this.#known, this.#digester, list.isFirst);
    if (kind === "item") for (const uid of uidsOf(record, this.#known)) list.uids.add(uid);
    if (kind !== "listed") return change === undefined ? [] : [change];
    // What a list does not show that is not the first went in the gap before it.
    const gone = list.isFirst ? [] : [...this.#known].filter(([, seen]) => seen.resource === resource && !list.uids.has(seen.uid));
    this.#lists.set(resource, { isFirst: false, uids: new Set() });
    return gone.map(([place, seen]) => {
      this.#known.delete(place);
      const { uid, namespace, name, owner } = seen;
      return { atMs: record.atMs, resource, namespace, name, uid, ...(owner !== undefined && { owner }), kind: "goes", differences: [] };
    });
  }
}

function uidsOf({ resource, object }: CaptureRecord, known: ReadonlyMap<string, Seen>): readonly string[] {
  const { namespace, name } = (object?.["metadata"] ?? object ?? {}) as { readonly namespace?: string; readonly name?: string }; // a stripped pod is flat
  const seen = known.get(`${resource} ${namespace}/${name}`);
  return seen === undefined ? [] : [seen.uid];
}

interface Seen {
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly owner?: string;
  readonly fields: ReadonlyMap<string, string>;
  readonly managers: ReadonlyMap<string, string>;
}

function changeOf(
  { atMs, resource, kind, type, object }: CaptureRecord,
  known: Map<string, Seen>,
  digester: Digester,
  isFirstList: boolean,
): ObjectChange | undefined {
  if (object === undefined || type === "BOOKMARK" || type === "ERROR") return undefined;
  const cached = cachedOf(resource, object, digester);
  if (cached === undefined) return undefined;
  const { namespace, name, uid } = "metadata" in cached ? cached.metadata : cached;
  const place = `${resource} ${namespace}/${name}`;
  const before = known.get(place)?.uid === uid ? known.get(place) : undefined;
  const owner = "metadata" in cached ? controllerRef(cached.metadata)?.uid : cached.owner?.uid;
  const seen: Seen = {
    ...{ resource, namespace, name, uid },
    ...(owner !== undefined && { owner }),
    fields: fieldsOf(resource, cached),
    managers: managersOf(object),
  };
  if (type === "DELETED") known.delete(place);
  else known.set(place, seen);
  const by = changedManager(before, seen);
  const what = type === "DELETED" ? "goes" : before !== undefined ? "changes" : kind === "item" && isFirstList ? "stands" : "appears";
  const differences = what === "goes" ? [] : differencesOf(before?.fields ?? new Map(), seen.fields);
  if (what === "changes" && differences.length === 0) return undefined;
  return {
    atMs,
    resource,
    namespace,
    name,
    uid,
    ...(owner !== undefined && { owner }),
    kind: what,
    differences,
    ...(by !== undefined && { by }),
  };
}

/** Undefined: a watcher would quarantine it. */
function cachedOf(resource: CachedResource, object: CapturedObject, digester: Digester): Cached | undefined {
  try {
    return strip(resource, object, digester);
  } catch {
    return undefined;
  }
}

function differencesOf(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): readonly Difference[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((field) => {
    const [from, to] = [before.get(field), after.get(field)];
    if (from === to) return [];
    // A digest tells nobody anything but that it is another one.
    if (SEALED.test(field)) return from === undefined && before.size === 0 ? [] : [{ field }];
    return [{ field, ...(from !== undefined && { from }), ...(to !== undefined && { to }) }];
  });
}

const SEALED = /^(?:template|annotation .*)$/;

/** By the names that people know them by; what is at its default and 0 is left out. */
function fieldsOf(resource: CachedResource, cached: Cached): ReadonlyMap<string, string> {
  const fields = resource === "pods" ? podFields(cached as CachedPod) : ownerFields(cached as CachedOwnerKind); // of that resource
  return new Map(
    Object.entries(fields).flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, String(value)] as const])),
  );
}

type CachedOwnerKind = CachedDeployment | CachedReplicaSet | CachedReplicationController;
type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

function podFields({ phase, ready, nodeName, deletionTimestamp, owner, labels, deletionCost, restarts }: CachedPod): Fields {
  return {
    phase,
    ready: ready?.status === "True" ? "yes" : "no",
    node: nodeName,
    "asked to end": deletionTimestamp,
    owner: owner && `${owner.kind} ${owner.name}`,
    labels: labelsOf(labels),
    "pod-deletion-cost": deletionCost,
    restarts: restarts || undefined,
  };
}

function ownerFields({ metadata, spec, status }: CachedOwnerKind): Fields {
  const { conditions = [], ...counters } = status;
  const owner = controllerRef(metadata);
  const { template, selector, replicas, ...rest } = spec as CachedDeployment["spec"]; // the others have fewer fields
  const plain = Object.entries(rest).map(([name, value]) => [name, typeof value === "object" ? canonical(value) : value] as const);
  return {
    replicas,
    template: (template as CachedDeployment["spec"]["template"] | undefined)?.digest, // absent on a ReplicationController
    selector: canonical(selector ?? {}),
    ...Object.fromEntries(plain),
    labels: labelsOf(metadata.labels),
    owner: owner && `${owner.kind} ${owner.name}`,
    "asked to end": metadata.deletionTimestamp,
    ...Object.fromEntries(Object.entries(metadata.annotations ?? {}).map(([name, value]) => [shortName(name), value])),
    ...Object.fromEntries(Object.entries(metadata.annotationDigests ?? {}).map(([name, digest]) => [`annotation ${name}`, digest])),
    ...Object.fromEntries(Object.entries(counters).map(([name, value]) => [`status.${name}`, value || undefined])),
    ...Object.fromEntries(conditions.map((condition) => [condition.type, conditionText(condition)])),
  };
}

function conditionText({ status, reason }: Condition): string {
  return reason === undefined || reason === "" ? status : `${status} (${reason})`;
}

function labelsOf(labels: Labels = {}): string {
  return Object.entries(labels)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

/** `deployment.kubernetes.io/revision` is `revision`. */
function shortName(annotation: string): string {
  return annotation.split("/").at(-1) ?? annotation;
}

interface ManagedFields {
  readonly manager?: unknown;
  readonly operation?: unknown;
  readonly subresource?: unknown;
}

/** By manager, operation and subresource: all that it says. A stripped object has none. */
function managersOf(object: CapturedObject): ReadonlyMap<string, string> {
  const { managedFields } = (object["metadata"] ?? {}) as { readonly managedFields?: unknown };
  const entries = Array.isArray(managedFields) ? (managedFields as readonly (ManagedFields | null)[]) : []; // whose shape nobody has looked at
  return new Map(
    entries.flatMap((entry) =>
      typeof entry?.manager === "string"
        ? [[`${entry.manager}\n${String(entry.operation)} ${String(entry.subresource)}`, canonical(entry)] as const]
        : [],
    ),
  );
}

function changedManager(before: Seen | undefined, { managers }: Seen): string | undefined {
  const changed = [...managers].filter(([id, text]) => before?.managers.get(id) !== text).map(([id]) => id.split("\n", 1)[0]);
  // So the API server calls a client that did not say who it is.
  return changed.length === 1 && changed[0] !== "unknown" ? changed[0] : undefined;
}
