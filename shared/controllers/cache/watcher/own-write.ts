/**
 * Whether an event tells of a write of ours. The cache has it already then (write-through.ts), so its message may wait for company. It is a
 * guess, and a wrong one costs that wait and nothing else.
 */
import { isObject, listAt, numberAt, objectAt, textAt } from "@deltaloop/base";
import type { JsonObject } from "@deltaloop/base";
import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";

/** Field managers of the functions that write through. The node agent is called much the same, and its news are news. */
const OURS: ReadonlySet<string> = new Set(CONTROLLERS.map((controller) => `deltaloop-${controller}`));

/**
 * managedFields say when each manager wrote last, in seconds. Ours must be among the newest. Others as new leave it open who came last; of
 * a workload it was we if its status speaks of its newest generation, for nobody else writes that, or if it has changed and has its first
 * generation still: what its maker wrote was told when it came. Never of what is being deleted, for that has no manager, nor of what is gone.
 *
 * Source: apimachinery pkg/util/managedfields/internal/managedfieldsupdater.go.
 */
export function isOwnWrite(resource: CachedResource, type: "A" | "M" | "D", object: unknown): boolean {
  if (type === "D" || !isObject(object)) return false;
  const metadata = objectAt(object, "metadata");
  if (metadata === undefined || metadata["deletionTimestamp"] !== undefined) return false;
  let newest = "";
  let [ours, others] = [false, false];
  for (const entry of listAt(metadata, "managedFields")) {
    const { time = "", manager = "" } = isObject(entry) ? { time: textAt(entry, "time"), manager: textAt(entry, "manager") } : {};
    if (time < newest) continue;
    if (time > newest) [ours, others] = [false, false];
    newest = time;
    if (OURS.has(manager)) ours = true;
    else others = true;
  }
  return newest !== "" && ours && (!others || (resource !== "pods" && (isObserved(metadata, object) || isAsMade(type, metadata))));
}

/** Its first status write comes within a second of its making, and speaks of no generation yet. */
function isAsMade(type: "A" | "M", metadata: JsonObject): boolean {
  return type === "M" && numberAt(metadata, "generation") === 1;
}

function isObserved(metadata: JsonObject, object: JsonObject): boolean {
  const generation = numberAt(metadata, "generation");
  return generation !== undefined && numberAt(objectAt(object, "status"), "observedGeneration") === generation;
}
