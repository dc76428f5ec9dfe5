/**
 * Runs a bounded number of the model's schedules (README.md) with all rules, and one schedule per rule that shows its purpose: with the
 * rule, no invariant is violated outside the stated windows; without the rule, one is. To run more: `node test/simulation/lineage/model.mjs
 * --seeds 1-200000`.
 */
import { describe, expect, it } from "vitest";

import { run, VARIANTS } from "./model.mjs";

const RULES = (VARIANTS["RN"] ?? "").split(",");
const SEEDS = 1_500;
/** The windows that the specification states (informer §11.11). */
const WINDOWS = /[ryzwc]/;

/** Violations outside the windows. */
const violations = (seed: number, rules: readonly string[]): readonly string[] =>
  Object.entries(run(seed, rules, false)).flatMap(([id, why]) =>
    WINDOWS.test(id.slice(2)) && id !== "I3c" ? [] : [`seed ${seed}: ${id} ${why}`],
  );

it(`${SEEDS} schedules violate no invariant outside the windows that the specification allows`, () => {
  expect(Array.from({ length: SEEDS }, (_, seed) => violations(seed + 1, RULES)).flat()).toEqual([]);
});

it(`${SEEDS} schedules with the rarer checkpoints and renewals of quiet clusters violate no invariant outside the windows`, () => {
  const rules = (VARIANTS["RQ"] ?? "").split(",");
  expect(rules).toContain("rare");
  expect(Array.from({ length: SEEDS }, (_, seed) => violations(seed + 1, rules)).flat()).toEqual([]);
});

it(`${SEEDS} schedules with deleted Leases violate no invariant outside the windows that the specification allows`, () => {
  const rules = (VARIANTS["RK"] ?? "").split(",");
  expect(rules).toContain("keep");
  expect(Array.from({ length: SEEDS }, (_, seed) => violations(seed + 1, rules)).flat()).toEqual([]);
});

describe("disabling a rule violates an invariant", () => {
  it.each([
    ["tok", 3],
    ["live", 80],
    ["reproof", 13_140],
    ["auto", 2544],
    ["fcheck", 168],
    ["first", 332],
    ["clamp", 838],
    ["still", 4680],
    ["own", 4703],
  ])("without rule %s, seed %i", (rule, seed) => {
    expect(violations(seed, RULES)).toEqual([]);
    expect(RULES).toContain(rule);
    expect(
      violations(
        seed,
        RULES.filter((each) => each !== rule),
      ),
    ).not.toEqual([]);
  });
});
