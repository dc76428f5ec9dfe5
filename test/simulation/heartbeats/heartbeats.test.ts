/** The model of heartbeats (model.ts): its schedules violate nothing, and each rule is needed. */
import { expect, it, test } from "vitest";

import { RULES, run } from "./model.ts";
import type { Rule } from "./model.ts";

const SEEDS = 400;

const failures = (seed: number, ...off: readonly Rule[]): readonly string[] =>
  [...run(seed, new Set(off))].map(([invariant, what]) => `seed ${seed}: ${invariant}: ${what}`);

it(`${SEEDS} schedules of heartbeats violate no invariant`, () => {
  expect(Array.from({ length: SEEDS }, (_, seed) => failures(seed + 1)).flat()).toEqual([]);
});

const PLANTED: readonly (readonly [rule: Rule, seed: number, invariant: string])[] = [
  ["mac", 1, "sound"],
  ["epoch", 23, "sound"],
  ["fence", 89, "sound"],
  ["time", 76, "dead"],
  ["ahead", 42, "sound"],
  ["frozen", 1, "sound"],
  ["applied", 3, "calm"],
  ["applied", 383, "tail"],
  ["separate", 225, "alive"],
];

test.each(PLANTED)("without rule %s, seed %i violates %s", (rule, seed, invariant) => {
  expect(failures(seed)).toEqual([]);
  expect(failures(seed, rule).some((failure) => failure.startsWith(`seed ${seed}: ${invariant}: `))).toBe(true);
});

test("every rule has a schedule that needs it", () => {
  expect([...new Set(PLANTED.map(([rule]) => rule))].toSorted()).toEqual([...RULES].toSorted());
});
