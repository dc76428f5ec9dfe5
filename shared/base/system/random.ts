/** Randomness of the operating system's generator: lease tokens and epoch ids must not repeat between processes. */
import { getRandomValues } from "node:crypto";
import type { Random } from "../random.ts";

/** A double has 53 bits of precision: 27 bits are from one word and 26 from another. */
const HIGH_SHIFT = 5;
const LOW_SHIFT = 6;

/** Number of random words fetched at once, because one generator call costs more than a jitter needs. */
const WORDS = 64;

export function createSystemRandom(): Random {
  const words = new Uint32Array(WORDS);
  let used = WORDS;
  return {
    next() {
      if (used === WORDS) {
        getRandomValues(words);
        used = 0;
      }
      const high = words[used++] ?? 0;
      const low = words[used++] ?? 0;
      return ((high >>> HIGH_SHIFT) * 2 ** 26 + (low >>> LOW_SHIFT)) / 2 ** 53;
    },
  };
}
