/** The resources of a capture: those in the controllers' caches, and those that findings also use. */
import { CACHED_RESOURCES, EVIDENCE_RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource, EvidenceResource, Resource } from "@deltaloop/kube/objects";

export const RECORDED_RESOURCES = [...CACHED_RESOURCES, ...EVIDENCE_RESOURCES] as const;
export type RecordedResource = CachedResource | EvidenceResource;

export function isEvidenceResource(resource: Resource): resource is EvidenceResource {
  return EVIDENCE_RESOURCES.some((each) => each === resource);
}
