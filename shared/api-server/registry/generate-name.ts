/** Generated names and uids. Randomness is injected, so that a simulation can be repeated from its seed. */
import type { Random } from "@deltaloop/base";

/** No vowels and none of 0, 1, 3, to avoid words and misreading. Source: apimachinery/pkg/util/rand. */
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const RANDOM_LENGTH = 5;
/** 63 characters of a DNS label minus the random ones. Source: apiserver/pkg/storage/names/generate.go. */
const BASE_LENGTH_MAX = 58;

export function randomSuffix(random: Random, length = RANDOM_LENGTH): string {
  return Array.from({ length }, () => ALPHABET[Math.floor(random.next() * ALPHABET.length)] ?? "b").join("");
}

/** `web-` → `web-x2x4z`. */
export function generateName(random: Random, base: string): string {
  return `${base.slice(0, BASE_LENGTH_MAX)}${randomSuffix(random)}`;
}

/** A version 4 UUID. */
export function generateUid(random: Random): string {
  const digits = Array.from({ length: 32 }, (_, i) => {
    const digit = Math.floor(random.next() * 16);
    if (i === 12) return "4";
    return (i === 16 ? (digit & 0x3) | 0x8 : digit).toString(16);
  }).join("");
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join("-");
}

let last = { second: Number.NaN, text: "" };

/** RFC 3339 with one-second resolution, as the API server stores times. Each request needs one, often in the second of the last. */
export function timestamp(nowMs: number): string {
  const second = Math.floor(nowMs / 1_000);
  if (second !== last.second) last = { second, text: new Date(second * 1_000).toISOString().replace(/\.\d{3}Z$/u, "Z") };
  return last.text;
}
