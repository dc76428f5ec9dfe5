/**
 * Whether an object's status was written by a controller that is not ours (informer §11.9): a decision on `managedFields` alone.
 *
 * Source: apimachinery pkg/util/managedfields/internal/managedfieldsupdater.go (when an entry's time moves); apiserver
 * pkg/endpoints/handlers/create.go prefixFromUserAgent (how a manager is named that does not name itself).
 */
import { isObject, listAt, objectAt, textAt } from "../api/json.ts";
import type { Json, JsonObject } from "../api/json.ts";
import { objectKey } from "../api/resources.ts";
import type { CachedResource } from "../api/resources.ts";
import type { ForeignWrite } from "../ports/store.ts";

/** What upstream's loops are called in a program of their own: then any status is theirs, for nothing else of it writes these. */
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
].map((field) => `f:${field}`);

/** The newest such write that is later than `afterMs`. Times of managedFields have whole seconds. */
export function foreignWrite(resource: CachedResource, object: unknown, afterMs: number): ForeignWrite | undefined {
  if (resource === "pods" || !isObject(object)) return undefined; // pods' statuses are their nodes', and there are very many
  const metadata = objectAt(object, "metadata");
  let newest: { readonly manager: string; readonly atMs: number } | undefined;
  for (const entry of listAt(metadata, "managedFields")) {
    if (!isForeignStatus(entry)) continue;
    const atMs = Date.parse(textAt(entry, "time") ?? "");
    if (atMs > (newest?.atMs ?? afterMs)) newest = { manager: textAt(entry, "manager") ?? "", atMs };
  }
  if (!newest) return undefined;
  return { resource, key: objectKey(textAt(metadata, "namespace") ?? "", textAt(metadata, "name") ?? ""), ...newest };
}

function isForeignStatus(entry: Json): entry is JsonObject {
  if (!isObject(entry) || textAt(entry, "subresource") !== "status") return false;
  const manager = textAt(entry, "manager") ?? "";
  if (manager === UPSTREAM) return true;
  if (manager.startsWith(OURS) || manager.startsWith(PERSON)) return false;
  const status = objectAt(objectAt(entry, "fieldsV1"), "f:status");
  return status !== undefined && COUNTED.some((field) => field in status);
}
