/**
 * Texts from the queue or Redis are trusted only with a valid MAC (design decision 15), because other clients can write both.
 *
 * A signature is the id of the key (2 characters) and 132 bits of a MAC (22 characters of base64), over a domain and its parts.
 * Keys are derived per cluster, so that a signature is valid for one cluster only. Their secret differs from the digest key, so that a
 * client that may compare template digests cannot forge rows.
 *
 * The MAC is NMAC, HMAC's construction with two separate keys, each filling one block of SHA-256: two one-shot hashes take half
 * the time of `createHmac`, and a snapshot of a thousand pods needs a thousand.
 */
import { hash, hkdfSync } from "node:crypto";

/**
 * The kind of a signed text, so that one kind is never valid as another: delta message, row, slice entry, tombstone, manifest part, guard,
 * last write, doorbell, member, heartbeat.
 */
export type SignedDomain = "q1" | "v" | "s" | "t" | "mp" | "g" | "w" | "d" | "m" | "h";

/**
 * Result of a verification. `former`: signed with an accepted key that no longer signs. `unknown`: signed with a key that is not
 * configured. Only `current` and `former` are valid.
 */
export type Verdict = "current" | "former" | "unknown" | "forged";

export interface Signer {
  /** Id of the key that signs. */
  readonly keyId: string;
  sign(domain: SignedDomain, parts: readonly string[]): string;
  verify(domain: SignedDomain, parts: readonly string[], signature: string): Verdict;
}

const KEY_ID_CHARACTERS = 2;
const MAC_CHARACTERS = 22;
export const SIGNATURE_CHARACTERS = KEY_ID_CHARACTERS + MAC_CHARACTERS;
/** Separates the parts: keys, uids and versions cannot contain this character, and JSON escapes it. */
const SEPARATOR = "\x1f";
const KEY_BYTES = 32;

interface Key {
  readonly id: string;
  /** Hex of 256 bits: 64 characters, one block of SHA-256. */
  readonly inner: string;
  readonly outer: string;
}

/**
 * @param secrets of `DELTALOOP_MAC_KEY`: the first key signs, all keys are accepted.
 * @throws {RangeError} without a secret, or if two secrets have the same id, so that they are indistinguishable and one of them must be
 * regenerated.
 */
export function createSigner(secrets: readonly string[], cluster: string): Signer {
  const keys = secrets.map((secret) => deriveKey(secret, cluster));
  const [current] = keys;
  if (current === undefined) throw new RangeError("there is no MAC key");
  const byId = new Map(keys.map((key) => [key.id, key]));
  if (byId.size !== keys.length) throw new RangeError("two MAC keys have the same id: generate one of them again");
  return {
    keyId: current.id,
    sign: (domain, parts) => current.id + mac(current, domain, parts),
    verify(domain, parts, signature) {
      const key = byId.get(signature.slice(0, KEY_ID_CHARACTERS));
      if (key === undefined) return "unknown";
      if (mac(key, domain, parts) !== signature.slice(KEY_ID_CHARACTERS)) return "forged";
      return key === current ? "current" : "former";
    },
  };
}

function deriveKey(secret: string, cluster: string): Key {
  const derive = (info: string, encoding: "hex" | "base64"): string =>
    Buffer.from(hkdfSync("sha256", secret, cluster, `deltaloop mac 2 ${info}`, KEY_BYTES)).toString(encoding);
  return { id: derive("id", "base64").slice(0, KEY_ID_CHARACTERS), inner: derive("inner", "hex"), outer: derive("outer", "hex") };
}

function mac({ inner, outer }: Key, domain: SignedDomain, parts: readonly string[]): string {
  const text = domain + SEPARATOR + parts.join(SEPARATOR);
  return hash("sha256", outer + hash("sha256", inner + text, "base64"), "base64").slice(0, MAC_CHARACTERS);
}
