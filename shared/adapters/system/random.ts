/** Real randomness, from the operating system's generator: lease tokens and epoch ids must not repeat between processes. */
import { getRandomValues } from "node:crypto";
import type { Random } from "../../ports/random.ts";

/** A double's fraction has 53 bits: 27 of one word, 26 of another. */
const HIGH_SHIFT = 5;
const LOW_SHIFT = 6;

export function createSystemRandom(): Random {
  const words = new Uint32Array(2);
  return {
    next() {
      getRandomValues(words);
      const [high = 0, low = 0] = words;
      return ((high >>> HIGH_SHIFT) * 2 ** 26 + (low >>> LOW_SHIFT)) / 2 ** 53;
    },
  };
}
