/**
 * Pod names are chosen before the call, so that repeating the call is idempotent (design decision 3, replicaset R4). The Store counts the
 * names of an owner. If the Store loses recent writes and a second run creates the same pods, that run draws the same names.
 */
import { createHash } from "node:crypto";

/** Source: apiserver pkg/storage/names/generate.go MaxGeneratedNameLength. */
const BASE_LENGTH_MAX = 58;
const SUFFIX_LENGTH = 5;
/** The alphabet of generated names, without vowels and look-alike characters. Source: apimachinery pkg/util/rand alphanums. */
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";

const POD_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const POD_NAME_LENGTH_MAX = 253;

/**
 * `<owner>-`, or the owner's name alone if that is not a valid prefix of a pod name.
 * Source: pkg/controller/controller_utils.go getPodsPrefix, apimachinery NameIsDNSSubdomain with maskTrailingDash.
 */
export function podsPrefix(ownerName: string): string {
  const prefix = `${ownerName}-`;
  const masked = prefix.length > 1 ? `${prefix.slice(0, -2)}a` : prefix;
  return masked.length <= POD_NAME_LENGTH_MAX && POD_NAME.test(masked) ? prefix : ownerName;
}

/** Inputs of a name: the same three give the same name. */
export interface PodNameSeed {
  readonly ownerUid: string;
  readonly epoch: string;
  /** Number of the name among the owner's names in this epoch, from 0 (IT5 in store/ports/store.ts). */
  readonly index: number;
}

/**
 * `web-7f8fb-x2x4z`: the first 58 characters of the prefix and five characters from SHA-256 of the seed. It looks like a name that
 * the API server generates, but is known before the call.
 */
export function podName(ownerName: string, { ownerUid, epoch, index }: PodNameSeed): string {
  const hash = createHash("sha256").update(`${ownerUid}\n${epoch}\n${index}`).digest();
  let suffix = "";
  // 32 bits a character keep the bias towards the first letters below one in a hundred million.
  for (let i = 0; i < SUFFIX_LENGTH; i++) suffix += ALPHABET[hash.readUInt32BE(4 * i) % ALPHABET.length];
  return podsPrefix(ownerName).slice(0, BASE_LENGTH_MAX) + suffix;
}

/** Returns the next `count` names from `firstIndex` on that are not in `taken`, with their indexes, and the next index. */
export function podNames(
  ownerName: string,
  seed: Omit<PodNameSeed, "index">,
  { count, firstIndex, taken }: { readonly count: number; readonly firstIndex: number; readonly taken: ReadonlySet<string> },
): { readonly names: readonly { readonly name: string; readonly index: number }[]; readonly nextIndex: number } {
  const names = new Map<string, number>();
  let index = firstIndex;
  while (names.size < count) {
    const name = podName(ownerName, { ...seed, index });
    if (!taken.has(name) && !names.has(name)) names.set(name, index);
    index++;
  }
  return { names: [...names].map(([name, at]) => ({ name, index: at })), nextIndex: index };
}
