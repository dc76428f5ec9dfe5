/**
 * The frame of a delta message (informer §10.4, design decision 15):
 *
 *     <cluster id>.<signature>.<payload>        5d3f00aa11bb.qYx0…22.{"v":2,…}
 *
 * The cluster id is not encoded, because keys are derived per cluster; it is signed too. The payload is read, inflated or parsed only after
 * its MAC is verified. This includes the envelope's version, so the frame itself has none.
 */
import { SIGNATURE_CHARACTERS } from "@deltaloop/store/ports";
import type { SignedDomain, Signer } from "@deltaloop/store/ports";

export type Opened =
  /** Signed by a watcher of this deployment. */
  { readonly kind: "signed"; readonly cluster: string; readonly payload: string } | Forged;

/**
 * A message without a valid signature: forged, or sent while keys were rotated in the wrong order. It is acknowledged and logged, and its
 * id is stored.
 */
export interface Forged {
  readonly kind: "forged";
  readonly why: string;
  /** The configured cluster that the message claims, if any. */
  readonly cluster?: string;
  /** The message has an unknown key id, which may be that of a newer key. */
  readonly unknownKey?: true;
}

/** The verifier of a configured cluster. */
export type SignerOf = (cluster: string) => Pick<Signer, "verify"> | undefined;

/** Longer than any cluster id; bounds the search for the separator in arbitrary text. */
const CLUSTER_CHARACTERS_MAX = 64;
const SEPARATOR = ".";

/** Kinds of bodies: delta messages and heartbeats. */
type BodyDomain = Extract<SignedDomain, "q1" | "h">;

export function signBody(signer: Signer, cluster: string, payload: string, domain: BodyDomain = "q1"): string {
  return cluster + SEPARATOR + signer.sign(domain, [cluster, payload]) + SEPARATOR + payload;
}

/** Never throws. */
export function openBody(body: string, signerOf: SignerOf, domain: BodyDomain = "q1"): Opened {
  const end = body.slice(0, CLUSTER_CHARACTERS_MAX + 1).indexOf(SEPARATOR);
  const signed = end + 1 + SIGNATURE_CHARACTERS;
  if (end <= 0 || body[signed] !== SEPARATOR) return { kind: "forged", why: "not a signed message" };
  const cluster = body.slice(0, end);
  const signer = signerOf(cluster);
  if (signer === undefined) return { kind: "forged", why: "signed for a cluster that is not configured here" };
  const payload = body.slice(signed + 1);
  // Node hashes an unpaired surrogate as U+FFFD, so two texts would have the same MAC. The watcher escapes surrogates.
  const verdict = payload.isWellFormed() ? signer.verify(domain, [cluster, payload], body.slice(end + 1, signed)) : "forged";
  switch (verdict) {
    case "current":
    case "former":
      return { kind: "signed", cluster, payload };
    case "unknown":
      return { kind: "forged", why: "signed with a key that this build does not know", cluster, unknownKey: true };
    case "forged":
      return { kind: "forged", why: "its MAC is wrong", cluster };
  }
}

/**
 * Reads again with renewed keys if `read` found an unknown key and `renewKeys` reports new ones: during a rotation a watcher may
 * sign with a key that not all readers have yet.
 */
export async function withRenewedKeys<D extends { readonly kind: string }>(
  read: () => D | Forged,
  renewKeys: (() => Promise<boolean>) | undefined,
): Promise<D | Forged> {
  const first = read();
  if (first.kind !== "forged" || !("unknownKey" in first) || renewKeys === undefined) return first;
  return (await renewKeys()) ? read() : first;
}
