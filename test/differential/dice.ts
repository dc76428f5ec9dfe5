import { createSeededRandom } from "../../shared/base/memory/random.ts";

export interface Dice {
  /** A random integer from `low` to `high`, inclusive. */
  int(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
}

export function diceOf(seed: number): Dice {
  const random = createSeededRandom(seed);
  for (let skipped = 0; skipped < 3; skipped++) random.next(); // the first numbers of neighbouring seeds are similar
  const int = (low: number, high: number): number => low + Math.floor(random.next() * (high - low + 1));
  return {
    int,
    chance: (probability) => random.next() < probability,
    pick: (items) => {
      const item = items[int(0, items.length - 1)];
      if (item === undefined) throw new Error("cannot pick from an empty list");
      return item;
    },
  };
}
