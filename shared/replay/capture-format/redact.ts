/**
 * Redaction of captured objects: the same fields are kept as in the cache (design decision 5). Templates and annotations become keyed
 * digests, so equality is preserved; a Deployment's template keeps the hash state of upstream's `pod-template-hash`, so that ReplicaSets
 * get their original names.
 */
import type { Cached, CachedResource } from "@deltaloop/kube/objects";
import { withoutForeignMessages } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { strip } from "@deltaloop/kube/strip";
import { evidenceOf } from "../evidence/evidence.ts";
import type { Evidence } from "../evidence/evidence.ts";
import { isObject } from "../evidence/fields.ts";
import { otherEvidence } from "../evidence/other-evidence.ts";
import { isEvidenceResource } from "./recorded-resources.ts";
import type { RecordedResource } from "./recorded-resources.ts";

/**
 * Strips the object, and removes the messages of its conditions, which the cache keeps only for status patches.
 *
 * @throws {MalformedObjectError} as `strip` does
 */
export function redacted(resource: CachedResource, object: unknown, digester: Digester): Cached {
  const stripped: Cached = strip(resource, object, digester);
  return "status" in stripped ? ({ ...stripped, status: withoutForeignMessages(stripped.status) } as Cached) : stripped; // both have the same kind
}

/** A record's object without secrets, and its evidence. Undefined for an Event, Node, … without identity. */
export function recorded(
  resource: RecordedResource,
  object: unknown,
  digester: Digester,
): { readonly object: object; readonly evidence?: Evidence } | undefined {
  if (isEvidenceResource(resource)) {
    const shown = isObject(object) ? otherEvidence(resource, object, digester) : undefined;
    return shown && { object: shown };
  }
  const stripped = redacted(resource, object, digester);
  return { object: stripped, ...(isObject(object) && { evidence: evidenceOf(resource, object, digester) }) };
}
