/**
 * Decodes the body of a delta message to an envelope (informer §10.4). Errors differ by the caller's reaction: an unsigned message is a
 * forgery, content that no retry can fix is quarantined, a newer envelope or an unknown view waits for a newer applier.
 */
import { packText } from "./pack-codec.ts";
import { BUILT_IN, isOwnView, isResourceVersion } from "@deltaloop/kube/objects";
import type { Catalog, View } from "@deltaloop/kube/objects";
import { ENVELOPE_VERSION } from "./envelope.ts";
import type { Envelope } from "./envelope.ts";
import { openBody } from "./signed-body.ts";
import type { Forged, SignerOf } from "./signed-body.ts";

export type Decoded =
  | { readonly kind: "envelope"; readonly envelope: Envelope }
  /** The payload is not an envelope: the applier quarantines and acknowledges the message. */
  | ({ readonly kind: "undecodable"; readonly why: string } & Addressee)
  /** Sent by a newer watcher: not acknowledged, so the lane waits until the appliers are deployed too. */
  | ({ readonly kind: "newer"; readonly why: string } & Addressee)
  /** No valid signature: the rest of the message has not been read. */
  | Forged;

interface Addressee {
  /** Cluster whose key signed the message. */
  readonly cluster: string;
  /** Absent if it could not be read. */
  readonly resource?: View;
  /** A view that this build does not know, so no cache of this build lacks the message's objects. */
  readonly view?: string;
}

export function decodeEnvelope(body: string, signerOf: SignerOf, catalog: Pick<Catalog, "views"> = BUILT_IN): Decoded {
  const opened = openBody(body, signerOf);
  return opened.kind === "signed" ? decodePayload(opened.cluster, opened.payload, catalog) : opened;
}

function decodePayload(cluster: string, payload: string, { views }: Pick<Catalog, "views">): Decoded {
  let value: unknown;
  try {
    value = JSON.parse(packText(payload));
  } catch (error) {
    // The error text is dropped: a SyntaxError quotes its input, which may be attacker-controlled.
    return { kind: "undecodable", why: error instanceof SyntaxError ? "not JSON" : `not JSON: ${String(error)}`, cluster };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { kind: "undecodable", why: "not a JSON object", cluster };
  const head = value as Readonly<Record<string, unknown>>;
  const resource = views.find((name) => name === head["r"]);
  const view = resource === undefined && typeof head["r"] === "string" && isOwnView(head["r"]) ? head["r"] : undefined;
  const addressee: Addressee = { cluster, ...(resource && { resource }), ...(view !== undefined && { view }) };
  const version = head["v"];
  if (typeof version !== "number" || !Number.isInteger(version) || version < ENVELOPE_VERSION)
    return { kind: "undecodable", why: `v is ${JSON.stringify(version)}, not an envelope version of this build`, ...addressee };
  if (version > ENVELOPE_VERSION)
    return { kind: "newer", why: `envelope version ${version}, this build reads up to ${ENVELOPE_VERSION}`, ...addressee };
  // Another version may have the cluster id elsewhere; the signing key already identifies the cluster.
  const fault =
    head["c"] === cluster ? faultOf(head, resource ?? view) : "field c names a different cluster from the one whose key signed the message";
  if (fault !== undefined) return { kind: "undecodable", why: fault, ...addressee };
  if (view !== undefined) return { kind: "newer", why: `view ${view} is unknown to this build`, ...addressee };
  return { kind: "envelope", envelope: value as Envelope }; // `faultOf` has checked every field
}

/** The first error of the envelope's fields, or of a body without items; items are checked one by one later. */
function faultOf(head: Readonly<Record<string, unknown>>, name: string | undefined): string | undefined {
  for (const field of ["e", "f"] as const) if (typeof head[field] !== "string" || head[field] === "") return `${field} is not a string`;
  for (const field of ["g", "ln", "sq"] as const) if (!isCount(head[field])) return `${field} is not a whole number`;
  if (name === undefined) return `r is ${JSON.stringify(head["r"])}, not a watched resource`;
  if (!isResourceVersion(head["f"] as string)) return "f is not a resourceVersion"; // the check above proves that it is a string
  switch (head["k"]) {
    case "L":
      if (!isVersion(head["L"])) return "L is not a resourceVersion";
      return Array.isArray(head["items"]) ? undefined : "items is not a list";
    case "D":
      return Array.isArray(head["items"]) ? undefined : "items is not a list";
    case "W":
      return isVersion(head["rv"]) ? undefined : "rv is not a resourceVersion";
    case "M":
      if (!isVersion(head["L"])) return "L is not a resourceVersion";
      if (!isCount(head["part"]) || !isCount(head["parts"])) return "part or parts is not a whole number";
      if (head["lanes"] !== undefined && !isCount(head["lanes"])) return "lanes is not a whole number";
      if (!Array.isArray(head["rows"])) return "rows is not a list";
      return head["rows"].every(isManifestRow) ? undefined : "a row is not {key, uid, rv}";
    default:
      return `k is ${JSON.stringify(head["k"])}, not one of D, L, M, W`;
  }
}

function isManifestRow(row: unknown): boolean {
  if (typeof row !== "object" || row === null) return false;
  const { key, uid, rv } = row as Readonly<Record<string, unknown>>;
  return typeof key === "string" && typeof uid === "string" && isVersion(rv);
}

function isCount(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

function isVersion(value: unknown): boolean {
  return typeof value === "string" && isResourceVersion(value);
}
