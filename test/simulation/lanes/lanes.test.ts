/** The model of lanes that grow (model.ts): its schedules violate nothing, and each rule is needed. */
import { expect, it, test } from "vitest";

import { RULES, run } from "./model.ts";
import type { Rule } from "./model.ts";

const SEEDS = 300;

const failures = (seed: number, ...off: readonly Rule[]): readonly string[] =>
  [...run(seed, new Set(off))].map(([invariant, what]) => `seed ${seed}: ${invariant}: ${what}`);

it(`${SEEDS} schedules of growing lanes violate no invariant`, () => {
  expect(Array.from({ length: SEEDS }, (_, seed) => failures(seed + 1)).flat()).toEqual([]);
});

const PLANTED: readonly (readonly [rule: Rule, seed: number, invariant: string])[] = [
  ["fence", 5, "sound"],
  ["watermark", 1, "back"],
  ["watermark", 4, "again"],
  ["tombstones", 64, "again"],
  ["rows", 1, "placed"],
  ["frozen", 28, "sound"],
  ["time", 1, "open"],
  ["count", 8, "placed"],
  ["single", 58, "sound"],
  ["adopt", 1, "placed"],
  ["inPlace", 33, "surplus"],
];

test.each(PLANTED)("without rule %s, seed %i violates %s", (rule, seed, invariant) => {
  expect(failures(seed)).toEqual([]);
  expect(failures(seed, rule).some((failure) => failure.startsWith(`seed ${seed}: ${invariant}: `))).toBe(true);
});

test("every rule has a schedule that needs it", () => {
  expect([...new Set(PLANTED.map(([rule]) => rule))].toSorted()).toEqual([...RULES].toSorted());
});
