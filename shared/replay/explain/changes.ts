/** Changes of the objects in a capture: the differences between versions, and who wrote them. */
import type {
  Cached,
  CachedDeployment,
  CachedPod,
  CachedReplicaSet,
  CachedReplicationController,
  CachedResource,
  Condition,
  Labels,
} from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { isKnownSentence, controllerRef } from "@deltaloop/kube/objects";
import { strip } from "@deltaloop/kube/strip";
import type { CapturedObject, CaptureRecord } from "../capture-format/capture.ts";
import { canonical } from "../shadow/canonical-write.ts";
import { creatorOf, managersOf, writerOf } from "./writer.ts";
import type { Managers } from "./writer.ts";

/** `from` or `to` is absent if the field is absent, or if its values are secret. */
export interface Difference {
  readonly field: string;
  readonly from?: string;
  readonly to?: string;
  /** Message of the condition ReplicaFailure, if it is safe to show. */
  readonly says?: string;
}

export interface ObjectChange {
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Uid of the object's controller. */
  readonly owner?: string;
  readonly kind: "stands" | "appears" | "changes" | "goes";
  readonly differences: readonly Difference[];
  /** The writer: the user from an audit log, otherwise the field manager, if known. `unknown` means a client without a name. */
  readonly by?: string;
}

/** Computes changes record by record; keeps only the current objects. */
export class ChangeTracker {
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
    // Objects that are missing in a later list were deleted in the gap before this list.
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
  /** Messages by the field of `fields` that they explain. */
  readonly says: ReadonlyMap<string, string>;
  readonly managers: Managers;
}

function changeOf(
  { atMs, resource, kind, type, object, by: user }: CaptureRecord,
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
    says: saysOf(cached),
    managers: managersOf(object),
  };
  if (type === "DELETED") known.delete(place);
  else known.set(place, seen);
  const what = type === "DELETED" ? "goes" : before !== undefined ? "changes" : kind === "item" && isFirstList ? "stands" : "appears";
  const differences = what === "goes" ? [] : differencesOf(before?.fields ?? new Map(), seen);
  if (what === "changes" && differences.length === 0) return undefined;
  const by = user ?? (what === "goes" || what === "stands" ? undefined : managerOf(before, seen, differences));
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

/** Returns undefined for an object that a watcher would quarantine. */
function cachedOf(resource: CachedResource, object: CapturedObject, digester: Digester): Cached | undefined {
  try {
    return strip(resource, object, digester);
  } catch {
    return undefined;
  }
}

function managerOf(before: Seen | undefined, { managers }: Seen, differences: readonly Difference[]): string | undefined {
  if (before === undefined) return creatorOf(managers);
  return writerOf(
    before.managers,
    managers,
    differences.map(({ field }) => field),
  );
}

function differencesOf(before: ReadonlyMap<string, string>, { fields: after, says }: Seen): readonly Difference[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((field) => {
    const [from, to] = [before.get(field), after.get(field)];
    if (from === to) return [];
    // A digest shows only that the value changed.
    if (SEALED.test(field)) return from === undefined && before.size === 0 ? [] : [{ field }];
    const words = says.get(field);
    return [{ field, ...(from !== undefined && { from }), ...(to !== undefined && { to }), ...(words !== undefined && { says: words }) }];
  });
}

const SEALED = /^(?:template|annotation .*)$/;

/** Fields by display name, without defaults and zeros. */
function fieldsOf(resource: CachedResource, cached: Cached): ReadonlyMap<string, string> {
  const fields = resource === "pods" ? podFields(cached as CachedPod) : ownerFields(cached as CachedOwnerKind); // the resource determines the type
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
  const { template, selector, replicas, ...rest } = spec as CachedDeployment["spec"]; // other kinds have fewer fields
  const plain = Object.entries(rest).map(([name, value]) => [name, typeof value === "object" ? canonical(value) : value] as const);
  return {
    replicas,
    template: (template as CachedDeployment["spec"]["template"] | undefined)?.digest, // a ReplicationController has no cached template
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

function saysOf(cached: Cached): Seen["says"] {
  const conditions = "status" in cached ? (cached.status.conditions ?? []) : [];
  return new Map(
    conditions.flatMap(({ type, message }) => (type === "ReplicaFailure" && isKnownSentence(message) ? [[type, message] as const] : [])),
  );
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
export function shortName(annotation: string): string {
  return annotation.split("/").at(-1) ?? annotation;
}
