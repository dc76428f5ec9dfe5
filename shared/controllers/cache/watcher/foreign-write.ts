/**
 * Whether an object's status was written by a controller that is not ours (informer §11.9). `managedFields` alone prove nothing: whoever may
 * write an object may write them, too. So they make a claim, and the object as it was one version before proves it.
 *
 * FW1 a claim holds if a field that counts has changed in just this version and belongs to its manager. A write of the status takes each field
 *     that it changes away from all other managers, whatever their entries say, and no other write changes a status: so in the version in which
 *     a field changed, its owner is who changed it, and the time of the owner's entry is the server's (structured-merge-diff's Updater).
 *
 * Source: apimachinery pkg/util/managedfields/internal/fieldmanager.go (a subresource's request does not set managedFields, any other does),
 * managedfieldsupdater.go (when an entry's time moves); apiserver pkg/endpoints/handlers/create.go prefixFromUserAgent (how a manager is named
 * that does not name itself).
 */
import { isObject, listAt, objectAt, textAt } from "@deltaloop/base";
import type { Json, JsonObject } from "@deltaloop/base";
import { objectKey } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { ForeignWrite } from "@deltaloop/store/ports";

/** What upstream's loops are called in a program of their own. */
const UPSTREAM = "kube-controller-manager";
const OURS = "deltaloop-";
/** `kubectl edit --subresource=status` is kubectl-edit, and so on: a person, once. */
const PERSON = "kubectl";

/**
 * What a controller writes, and nobody else. Not `readyReplicas` and `availableReplicas`: upstream's own conformance tests patch these, and no
 * controller writes them without one of the others for long. Source: api apps/v1 and core/v1, the statuses of the three kinds.
 */
const COUNTED: readonly string[] = [
  "observedGeneration",
  "replicas",
  "fullyLabeledReplicas",
  "unavailableReplicas",
  "updatedReplicas",
  "terminatingReplicas",
  "collisionCount",
];
/** Under this name nobody else writes. */
const COUNTED_OF_UPSTREAM: readonly string[] = [...COUNTED, "readyReplicas", "availableReplicas"];

/** What one version of an object says of who has written its status. */
export interface Claim {
  readonly resource: CachedResource;
  readonly key: ForeignWrite["key"];
  readonly uid: string;
  readonly rv: string;
  readonly entries: readonly ClaimedEntry[];
}

interface ClaimedEntry {
  readonly manager: string;
  readonly atMs: number;
  /** The fields that count of those that it says are its own, with what they hold. */
  readonly fields: readonly (readonly [name: string, value: Json])[];
}

/** Entries of others that are later than `afterMs`. Times of managedFields have whole seconds. */
export function claimOf(resource: CachedResource, object: unknown, afterMs: number): Claim | undefined {
  if (resource === "pods" || !isObject(object)) return undefined; // pods' statuses are their nodes', and there are very many
  const metadata = objectAt(object, "metadata");
  const entries = listAt(metadata, "managedFields").flatMap((entry): ClaimedEntry[] => {
    const owned = ownedFields(entry);
    if (owned.length === 0 || !isObject(entry)) return [];
    const atMs = Date.parse(textAt(entry, "time") ?? "");
    if (!(atMs > afterMs)) return [];
    const status = objectAt(object, "status");
    const fields = owned.flatMap((name) => (status?.[name] === undefined ? [] : [[name, status[name]] as const]));
    return [{ manager: textAt(entry, "manager") ?? "", atMs, fields }];
  });
  if (entries.length === 0) return undefined;
  const [namespace, name] = [textAt(metadata, "namespace") ?? "", textAt(metadata, "name") ?? ""];
  const [uid, rv] = [textAt(metadata, "uid") ?? "", textAt(metadata, "resourceVersion") ?? ""];
  return { resource, key: objectKey(namespace, name), uid, rv, entries };
}

/** FW1. `before`: the object as it was one version before; undefined: it was not there. */
export function proven({ resource, key, uid, entries }: Claim, before: unknown): ForeignWrite | undefined {
  if (!isObject(before) || textAt(objectAt(before, "metadata"), "uid") !== uid) return undefined; // what is made has no status yet
  const status = objectAt(before, "status");
  const writer = entries.find(({ fields }) => fields.some(([name, value]) => status?.[name] !== value));
  return writer && { resource, key, manager: writer.manager, atMs: writer.atMs };
}

/** The newest entry of a claim that is not later than `untilMs`, for what people are told; from metadata alone. */
export function newestClaimed({ resource, key, entries }: Claim, untilMs: number): ForeignWrite | undefined {
  const [newest] = entries.filter(({ atMs }) => atMs <= untilMs).toSorted((a, b) => b.atMs - a.atMs);
  return newest && { resource, key, manager: newest.manager, atMs: newest.atMs };
}

function ownedFields(entry: Json): readonly string[] {
  if (!isObject(entry) || textAt(entry, "subresource") !== "status") return [];
  const manager = textAt(entry, "manager") ?? "";
  if (manager.startsWith(OURS) || manager.startsWith(PERSON)) return [];
  const status = objectAt(objectAt(entry, "fieldsV1"), "f:status");
  if (!status) return [];
  return (manager === UPSTREAM ? COUNTED_OF_UPSTREAM : COUNTED).filter((name) => isOwned(objectAt(status, `f:${name}`)));
}

/** A field with others below it that is not owned itself has no "." beside them (FieldsV1). */
function isOwned(set: JsonObject | undefined): boolean {
  return set !== undefined && ("." in set || Object.keys(set).length === 0);
}
