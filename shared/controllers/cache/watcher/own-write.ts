/**
 * Guesses whether an event reports a write of this system. Write-through has then already cached the object (write-through.ts), so the
 * message may wait for a longer batching window. A wrong guess costs only that delay.
 */
import { isObject, listAt, numberAt, objectAt, textAt } from "@deltaloop/base";
import type { JsonObject } from "@deltaloop/base";
import { CONTROLLERS, isOwnView } from "@deltaloop/kube/objects";
import type { View } from "@deltaloop/kube/objects";

/** Field managers of the functions that write through. The node agent has a similar name, but its writes are new to the cache. */
const OURS: ReadonlySet<string> = new Set(CONTROLLERS.map((controller) => `deltaloop-${controller}`));

/**
 * Whether the event probably reports a write of this system. managedFields hold the time of each manager's last write, in seconds;
 * deltaloop's entry must be among the newest. If other entries have the same second, a workload's write counts as deltaloop's in two cases:
 * its status has the newest observedGeneration, which only deltaloop writes, or it was modified while its generation was still 1. Never true
 * for an object that is deleted or being deleted: deletion has no manager.
 *
 * Source: apimachinery pkg/util/managedfields/internal/managedfieldsupdater.go.
 */
export function isOwnWrite(resource: View, type: "A" | "M" | "D", object: unknown): boolean {
  if (type === "D" || !isObject(object)) return false;
  const metadata = objectAt(object, "metadata");
  if (metadata === undefined || metadata["deletionTimestamp"] !== undefined) return false;
  // Only its own controller writes a user controller's view through, and others write the status of what it creates.
  const own = isOwnView(resource) ? `deltaloop-${resource.split("~")[1]}` : undefined;
  let newest = "";
  let [ours, others] = [false, false];
  for (const entry of listAt(metadata, "managedFields")) {
    const { time = "", manager = "" } = isObject(entry) ? { time: textAt(entry, "time"), manager: textAt(entry, "manager") } : {};
    if (time < newest) continue;
    if (time > newest) [ours, others] = [false, false];
    newest = time;
    if (own === undefined ? OURS.has(manager) : manager === own) ours = true;
    else others = true;
  }
  const isRarelyOthers = own === undefined && resource !== "pods" && (isObserved(metadata, object) || isAsMade(type, metadata));
  return newest !== "" && ours && (!others || isRarelyOthers);
}

/** Whether the event looks like a new object's first status write, which follows the creation within a second. */
function isAsMade(type: "A" | "M", metadata: JsonObject): boolean {
  return type === "M" && numberAt(metadata, "generation") === 1;
}

function isObserved(metadata: JsonObject, object: JsonObject): boolean {
  const generation = numberAt(metadata, "generation");
  return generation !== undefined && numberAt(objectAt(object, "status"), "observedGeneration") === generation;
}
