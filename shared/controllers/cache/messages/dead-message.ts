/**
 * Reads a message of the delta dead-letter queue (informer §12.3): which caches may now lack its objects, and why. Its content is not
 * needed, because the list that follows has the same or newer objects.
 */
import { BUILT_IN } from "@deltaloop/kube/objects";
import type { Catalog, View } from "@deltaloop/kube/objects";
import type { Ended } from "@deltaloop/store/ports";
import { decodeEnvelope } from "./decode.ts";
import type { Forged, SignerOf } from "./signed-body.ts";

export interface DeadMessage {
  readonly kind: "dead";
  readonly cluster: string;
  /** The resource that the message names; all resources if it is unknown; empty for a view that this build does not know. */
  readonly resources: readonly View[];
  /** `pods, lane 3, sequence 42 of fence 812`, as far as it could be read. */
  readonly what: string;
  readonly why: string;
  /** The items whose processing ends with this message (TY1). */
  readonly ended: Ended;
}

/** Never throws. A signed but unreadable message affects every cache of its cluster; an unsigned message affects no cache. */
export function readDeadMessage(body: string, signerOf: SignerOf, catalog: Pick<Catalog, "views"> = BUILT_IN): DeadMessage | Forged {
  const decoded = decodeEnvelope(body, signerOf, catalog);
  if (decoded.kind === "forged") return decoded;
  if (decoded.kind === "envelope") {
    const { c, r, k, ln, sq, f } = decoded.envelope;
    const items = "items" in decoded.envelope ? decoded.envelope.items.length : 0;
    const what = `${k} of ${r}, lane ${ln}, sequence ${sq} of fence ${f}`;
    return {
      kind: "dead",
      cluster: c,
      resources: [r],
      what,
      why: "every delivery failed",
      ended: { resource: r, lane: ln, fate: "dead", items },
    };
  }
  const { cluster, resource, view, why } = decoded;
  return {
    kind: "dead",
    cluster,
    resources: affected(catalog, resource, view),
    what: resource ?? view ?? "unknown resource",
    why,
    ended: { ...(resource && { resource }), fate: "dead", items: 1 },
  };
}

/** An own view has its own lane, so only this view is affected. The gap in the lane's sequence makes the watcher list it again. */
function affected({ views }: Pick<Catalog, "views">, resource: View | undefined, view: string | undefined): readonly View[] {
  if (view !== undefined) return [];
  return resource === undefined ? views : [resource];
}
