import { isOwnView, RESOURCES } from "@deltaloop/kube/objects";
import type { View } from "@deltaloop/kube/objects";
import type { LabelsOf } from "@deltaloop/base/metrics";

/** Labels of a resource in upstream's informer metrics; the informer's name is `deltaloop`. An own view has no group. */
export function informerLabels(resource: View): LabelsOf<"informer_store_resource_version"> {
  return { name: "deltaloop", group: isOwnView(resource) ? "" : RESOURCES[resource].group, version: "v1", resource };
}
