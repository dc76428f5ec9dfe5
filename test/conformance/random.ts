/** The conformance suite of Random (shared/base/random.ts). */
import { describe, expect, it } from "vitest";

import type { Random } from "../../shared/base/random.ts";

export function randomConformance(name: string, factory: () => Random): void {
  describe(`randomness on ${name}`, () => {
    it("RN1 a random number is uniform in [0, 1)", () => {
      const random = factory();
      const counts = Array.from({ length: 10 }, () => 0);
      for (let draw = 0; draw < 20_000; draw++) {
        const value = random.next();
        expect(value >= 0 && value < 1, `${value}`).toBe(true);
        counts[Math.floor(value * 10)] = (counts[Math.floor(value * 10)] ?? 0) + 1;
      }
      // The expected count is 2,000 each; ten standard deviations are 424.
      for (const count of counts) expect(Math.abs(count - 2_000)).toBeLessThan(424);
    });

    it("RN1 the random numbers do not repeat", () => {
      const random = factory();
      expect(new Set(Array.from({ length: 1_000 }, () => random.next())).size).toBeGreaterThan(990);
    });
  });
}
