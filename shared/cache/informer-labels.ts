import { RESOURCES } from "../api/resources.ts";
import type { CachedResource } from "../api/resources.ts";
import type { LabelsOf } from "../ports/metrics.ts";

/** How upstream's informer metrics name a resource; ours is the informer `deltaloop`. */
export function informerLabels(resource: CachedResource): LabelsOf<"informer_store_resource_version"> {
  return { name: "deltaloop", group: RESOURCES[resource].group, version: "v1", resource };
}
