/** The evidence recorded with a captured object of a cached resource (capture format 2). */
import type { CachedResource } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { Json } from "./fields.ts";
import { ownerEvidence } from "./owner-evidence.ts";
import type { OwnerEvidence } from "./owner-evidence.ts";
import { podEvidence } from "./pod-evidence.ts";
import type { PodEvidence } from "./pod-evidence.ts";

export type Evidence = OwnerEvidence | PodEvidence;

/** @param object a whole object, or evidence from a capture, which is returned unchanged */
export function evidenceOf(resource: CachedResource, object: Json, digester: Digester): Evidence {
  return resource === "pods" ? podEvidence(object, digester) : ownerEvidence(object, digester);
}
