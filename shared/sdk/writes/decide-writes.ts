/** Which requests a sync needs, and why. Pure; the order is that in which they are performed. */
import type { Definition } from "../definition/controller.ts";
import type { KindData } from "../definition/kind.ts";
import type { Digest, LastWrite } from "./last-write.ts";
import { isContested, isOf, isReturn, sentText } from "./last-write.ts";
import type { ObjectBody, ObjectId, Primary, Wanted } from "./wanted.ts";
import { idText } from "./wanted.ts";

/** An owned object as the view caches it. */
export interface CachedOwned {
  readonly id: ObjectId;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Digest of its content. */
  readonly content: string;
  /** Whether this controller's manager has an entry in managedFields. */
  readonly isManaged: boolean;
  readonly isDeleting: boolean;
}

/** The known state in addition to the result of a sync, all of the same moment. */
export interface Observed {
  readonly primary: Primary;
  /** Digests of the primary's content and status. */
  readonly content: string;
  readonly statusContent: string;
  /** This controller's manager has an entry in the primary's managedFields. */
  readonly isManaged: boolean;
  /** The owned objects: their controller reference equals the primary in all its fields. */
  readonly owned: readonly CachedOwned[];
  /** Last-write records: of owned objects by `idText`, and of the primary under `self` and `status`. */
  readonly records: ReadonlyMap<string, LastWrite>;
}

/** Why a request is sent; shadow mode prints it. */
export type Reason =
  | "missing"
  | "desired state changed"
  | "changed since the last write"
  /** This manager has written the object, but the record of that is lost, as after a restart of `dev`. */
  | "last write unknown"
  | "no longer desired"
  | "returned by sync";

export type OwnWrite =
  | { readonly kind: "create"; readonly id: ObjectId; readonly body: ObjectBody; readonly why: "missing" }
  | {
      readonly kind: "apply";
      readonly id: ObjectId;
      readonly body: ObjectBody;
      readonly uid: string;
      /** Version that the decision read. The request's precondition is the uid alone. */
      readonly readVersion: string;
      readonly isRevert: boolean;
      readonly why: Reason;
    }
  /** Sent only if every write before it has succeeded. */
  | {
      readonly kind: "prune";
      readonly id: ObjectId;
      readonly uid: string;
      readonly resourceVersion: string;
      readonly why: "no longer desired";
    }
  | {
      readonly kind: "self" | "status";
      readonly body: Readonly<Record<string, unknown>>;
      readonly uid: string;
      readonly resourceVersion: string;
      readonly isRevert: boolean;
      readonly why: Reason;
    }
  | { readonly kind: "remove"; readonly uid: string; readonly resourceVersion: string; readonly why: "returned by sync" };

export interface Decided {
  readonly writes: readonly OwnWrite[];
  /** Objects that another writer keeps changing: they are not applied until a back-off has passed. */
  readonly contested: readonly string[];
  /** The primary is read live before the first write: one of them creates, prunes or removes. */
  readonly needsLiveRead: boolean;
}

/** Deleting one of these deletes what other programs own, so it must be asked for. Keys: `KIND.GROUP`. */
const KEPT_KINDS = ["PersistentVolumeClaim.", "PersistentVolume.", "Namespace.", "CustomResourceDefinition.apiextensions.k8s.io"];

export function decideWrites(definition: Definition, wanted: Wanted, observed: Observed, digest: Digest, nowMs: number): Decided {
  const { primary, owned, records } = observed;
  const { uid, resourceVersion } = primary;
  if (wanted.isRemoved)
    return { writes: [{ kind: "remove", uid, resourceVersion, why: "returned by sync" }], contested: [], needsLiveRead: true };
  const cached = new Map(owned.map((object) => [idText(object.id), object]));
  const contested: string[] = [];
  const reasonOf: ReasonOf = (text, found, record, isDesired = true) => {
    const sent = digest(text);
    const why = reasonFor(sent, found, record);
    const isBack = isDesired && isReturn(record, sent, primary.generation, nowMs);
    return why && { why, isRevert: why === "changed since the last write" || isBack };
  };
  const ifUncontested = (id: string, write: OwnWrite | undefined): readonly OwnWrite[] => {
    if (write === undefined) return [];
    const isHeld = "isRevert" in write && write.isRevert && isContested(records.get(id), nowMs);
    if (isHeld) contested.push(id);
    return isHeld ? [] : [write];
  };
  const applied = (wanted.apply ?? []).flatMap(({ id, body }) =>
    ifUncontested(idText(id), objectWrite(id, body, cached.get(idText(id)), records.get(idText(id)), reasonOf)),
  );
  // A manager has one entry for each subresource; a record of one of them shows that none is lost.
  const isManaged = observed.isManaged && !records.has("self") && !records.has("status");
  const self = wanted.self && ({ kind: "self", body: wanted.self, content: observed.content } as const);
  const status = wanted.status && ({ kind: "status", body: wanted.status, content: observed.statusContent } as const);
  const ofPrimary = [self, status].flatMap((each) => {
    if (each === undefined) return [];
    // A status may return to an earlier value when the reported state does. That is no revert, so only `self` counts as desired state.
    const reason = reasonOf(sentText(each.body), { uid, content: each.content, isManaged }, records.get(each.kind), each.kind === "self");
    const write = reason && { kind: each.kind, body: each.body, uid, resourceVersion, ...reason };
    return ifUncontested(each.kind, write);
  });
  const desired = new Set([...(wanted.apply ?? []).map(({ id }) => idText(id)), ...wanted.keep]);
  const pruned = wanted.apply === undefined ? [] : owned.filter((each) => isPruned(definition, each, desired));
  const prunes = pruned.map((each): OwnWrite => ({
    kind: "prune",
    id: each.id,
    uid: each.uid,
    resourceVersion: each.resourceVersion,
    why: "no longer desired",
  }));
  const needsLiveRead = prunes.length > 0 || applied.some(({ kind }) => kind === "create");
  return { writes: [...applied, ...prunes, ...ofPrimary], contested, needsLiveRead };
}

function objectWrite(
  id: ObjectId,
  body: ObjectBody,
  cached: CachedOwned | undefined,
  record: LastWrite | undefined,
  reasonOf: ReasonOf,
): OwnWrite | undefined {
  if (cached === undefined) return { kind: "create", id, body, why: "missing" };
  if (cached.isDeleting) return undefined; // its deletion enqueues the key, whose next sync finds it missing
  const reason = reasonOf(sentText(body), cached, record);
  const { uid, resourceVersion: readVersion } = cached;
  return reason && { kind: "apply", id, body, uid, readVersion, ...reason };
}

/** Undefined: no request is needed. */
type ReasonOf = (
  text: string,
  found: Parameters<typeof reasonFor>[1],
  record: LastWrite | undefined,
  isDesired?: boolean,
) => { readonly why: Reason; readonly isRevert: boolean } | undefined;

/** Undefined: sent and content are as recorded. */
function reasonFor(
  sent: string,
  { uid, content, isManaged }: Pick<CachedOwned, "uid" | "content" | "isManaged">,
  record: LastWrite | undefined,
): Reason | undefined {
  if (!isOf(record, uid)) return isManaged ? "last write unknown" : "desired state changed";
  if (record.sent !== sent) return "desired state changed";
  return record.content === content ? undefined : "changed since the last write";
}

function isPruned(definition: Definition, { id, isManaged, isDeleting }: CachedOwned, desired: ReadonlySet<string>): boolean {
  if (isDeleting || !isManaged || desired.has(idText(id))) return false;
  const owned = definition.owns.find(({ kind }) => isSameKind(kind, id.kind));
  return owned?.prune ?? (owned !== undefined && !KEPT_KINDS.includes(`${id.kind.kind}.${id.kind.group}`));
}

function isSameKind(a: KindData, b: KindData): boolean {
  return a.group === b.group && a.kind === b.kind;
}
