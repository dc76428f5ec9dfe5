import { RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { LabelsOf } from "@deltaloop/base/metrics";

/** Labels of a resource in upstream's informer metrics; the informer's name is `deltaloop`. */
export function informerLabels(resource: CachedResource): LabelsOf<"informer_store_resource_version"> {
  return { name: "deltaloop", group: RESOURCES[resource].group, version: "v1", resource };
}
