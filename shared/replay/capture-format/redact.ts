/**
 * What a capture keeps of an object: as much as the cache does (design decision 5). Templates and annotations stand there as keyed
 * digests, so what was equal stays equal and what was different different; a Deployment's template keeps the state from which
 * upstream's `pod-template-hash` is made, so that ReplicaSets get the names that they had.
 */
import type { Cached, CachedResource } from "@deltaloop/kube/objects";
import { withoutForeignMessages } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { strip } from "@deltaloop/kube/strip";

/**
 * A cached object has the messages of its conditions whole, for the status patch; a capture outlives that need.
 *
 * @throws {MalformedObjectError} as `strip` does
 */
export function redacted(resource: CachedResource, object: unknown, digester: Digester): Cached {
  const stripped: Cached = strip(resource, object, digester);
  return "status" in stripped ? ({ ...stripped, status: withoutForeignMessages(stripped.status) } as Cached) : stripped; // of the same kind
}
