/**
 * The frame of a Q1 message (informer §10.4, design decision 15):
 *
 *     <cluster id>.<signature>.<payload>        5d3f00aa11bb.qYx0…22.{"v":2,…}
 *
 * The cluster id stands in clear because keys are derived per cluster; it is signed too. Nothing of the payload is read, inflated or
 * parsed before its MAC is found good, the envelope's version included: so the frame itself has no version and never gets one.
 */
import { SIGNATURE_CHARACTERS } from "@deltaloop/store/ports";
import type { Signer } from "@deltaloop/store/ports";

export type Opened =
  /** Signed by a watcher of this deployment. */
  { readonly kind: "signed"; readonly cluster: string; readonly payload: string } | Forged;

/** Nobody who holds a key of ours has made it, or its key was replaced in the wrong order: acknowledge, name, keep its name. */
export interface Forged {
  readonly kind: "forged";
  readonly why: string;
  /** The configured cluster that it claims; absent = it names none of ours. */
  readonly cluster?: string;
  /** By its id the key is none of ours: it may be a newer one. */
  readonly unknownKey?: true;
}

/** The verifier of a configured cluster. */
export type SignerOf = (cluster: string) => Pick<Signer, "verify"> | undefined;

/** Longer than any cluster id: more of a foreign text is not searched for a frame. */
const CLUSTER_CHARACTERS_MAX = 64;
const SEPARATOR = ".";

export function signBody(signer: Signer, cluster: string, payload: string): string {
  return cluster + SEPARATOR + signer.sign("q1", [cluster, payload]) + SEPARATOR + payload;
}

/** Never throws. */
export function openBody(body: string, signerOf: SignerOf): Opened {
  const end = body.slice(0, CLUSTER_CHARACTERS_MAX + 1).indexOf(SEPARATOR);
  const signed = end + 1 + SIGNATURE_CHARACTERS;
  if (end <= 0 || body[signed] !== SEPARATOR) return { kind: "forged", why: "not a signed message" };
  const cluster = body.slice(0, end);
  const signer = signerOf(cluster);
  if (signer === undefined) return { kind: "forged", why: "signed for a cluster that is not configured here" };
  const payload = body.slice(signed + 1);
  // A half of a surrogate pair is hashed as U+FFFD: two texts would have one MAC. The watcher escapes them.
  const verdict = payload.isWellFormed() ? signer.verify("q1", [cluster, payload], body.slice(end + 1, signed)) : "forged";
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
 * The same, once more with other keys where `read` found none of ours and `renewKeys` says that there are others: a key that is replaced
 * may sign before everybody has read it.
 */
export async function withRenewedKeys<D extends { readonly kind: string }>(
  read: () => D | Forged,
  renewKeys: (() => Promise<boolean>) | undefined,
): Promise<D | Forged> {
  const first = read();
  if (first.kind !== "forged" || !("unknownKey" in first) || renewKeys === undefined) return first;
  return (await renewKeys()) ? read() : first;
}
