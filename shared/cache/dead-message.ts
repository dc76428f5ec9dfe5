/**
 * What is known of a Q1 message that no applier could apply (informer §12.3): whose cache may miss something, and why it was given
 * up. Its content is of no use any more; the list that follows has it, or something newer.
 */
import { CACHED_RESOURCES } from "../api/resources.ts";
import type { CachedResource } from "../api/resources.ts";
import { decodeEnvelope } from "./decode.ts";
import { ENVELOPE_VERSION } from "./envelope.ts";

export interface DeadMessage {
  /** Absent: it does not say, so it may be any. */
  readonly cluster?: string;
  /** The one that it names, or all. */
  readonly resources: readonly CachedResource[];
  /** `pods, lane 3, sequence 42 of fence 812`, as far as it says so. */
  readonly what: string;
  readonly why: string;
}

/** Never throws: what cannot be read at all concerns every cache. */
export function readDeadMessage(body: string): DeadMessage {
  const decoded = decodeEnvelope(body);
  if (decoded.kind === "envelope") {
    const { c, r, k, ln, sq, f } = decoded.envelope;
    return { cluster: c, resources: [r], what: `${k} of ${r}, lane ${ln}, sequence ${sq} of fence ${f}`, why: "it failed every time" };
  }
  const { cluster, resource } = decoded;
  return {
    ...(cluster !== undefined && { cluster }),
    resources: resource === undefined ? CACHED_RESOURCES : [resource],
    what: resource ?? "unknown resource",
    why: decoded.kind === "newer" ? `envelope version ${decoded.version}, this build reads up to ${ENVELOPE_VERSION}` : decoded.why,
  };
}
