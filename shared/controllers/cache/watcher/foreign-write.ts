/**
 * Detects a status write of another controller (informer §11.9). `managedFields` prove nothing, because any client that may write an object
 * may set them. Here they are only a claim ("this manager wrote these fields"), which a comparison with the object's previous version
 * proves or disproves.
 *
 * FW1 a claim is proven if one of the fields below changed in exactly this version and the claim's manager owns it. A status write takes
 *     ownership of each field that it changes from all other managers, whatever their entries say, and no other write changes a status.
 *     Hence the owner of a changed field made the change, and the time of its entry is the server's (structured-merge-diff's Updater).
 *
 * Source: apimachinery pkg/util/managedfields/internal/fieldmanager.go (a request to a subresource does not set managedFields, any other
 * does), managedfieldsupdater.go (when an entry's time moves); apiserver pkg/endpoints/handlers/create.go prefixFromUserAgent (default
 * manager name).
 */
import { isObject, listAt, objectAt, textAt } from "@deltaloop/base";
import type { Json, JsonObject } from "@deltaloop/base";
import { objectKey } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { ForeignWrite } from "@deltaloop/store/ports";

/** Field manager of upstream's controllers. */
const UPSTREAM = "kube-controller-manager";
const OURS = "deltaloop-";
/** Prefix of the field managers of manual writes: `kubectl edit --subresource=status` writes as kubectl-edit. */
const PERSON = "kubectl";

/**
 * Status fields whose change proves a controller's write. Not `readyReplicas` and `availableReplicas`: upstream's conformance tests patch
 * these, and a controller soon writes other fields with them. Source: api apps/v1 and core/v1, the statuses of the three kinds.
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
/** Status fields whose change proves a write by kube-controller-manager: no test or tool uses this name, so all fields count. */
const COUNTED_OF_UPSTREAM: readonly string[] = [...COUNTED, "readyReplicas", "availableReplicas"];

/** The writers of an object's status according to the managedFields of one of its versions. */
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
  /** The status fields above that the manager owns according to managedFields, with their values. */
  readonly fields: readonly (readonly [name: string, value: Json])[];
}

/** Returns the claim in `object`: entries of other managers that are later than `afterMs`. Times in managedFields have whole seconds. */
export function claimOf(resource: CachedResource, object: unknown, afterMs: number): Claim | undefined {
  if (resource === "pods" || !isObject(object)) return undefined; // kubelets write pod statuses, which are too frequent to check
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

/** Verifies a claim (FW1). `before` is the previous version of the object; undefined if it did not exist. */
export function proven({ resource, key, uid, entries }: Claim, before: unknown): ForeignWrite | undefined {
  if (!isObject(before) || textAt(objectAt(before, "metadata"), "uid") !== uid) return undefined; // created in this version: a create sets no status
  const status = objectAt(before, "status");
  const writer = entries.find(({ fields }) => fields.some(([name, value]) => status?.[name] !== value));
  return writer && { resource, key, manager: writer.manager, atMs: writer.atMs };
}

/** Returns the newest, unverified entry of a claim up to `untilMs`, for messages to users. */
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

/** Whether FieldsV1 `set` includes the field itself: it has "." or no subfields. */
function isOwned(set: JsonObject | undefined): boolean {
  return set !== undefined && ("." in set || Object.keys(set).length === 0);
}
