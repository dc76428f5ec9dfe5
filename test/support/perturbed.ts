/**
 * Changes one input of a decision at a time: if the decision changes, a reason that contains that input must change
 * too.
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { Reason } from "../../shared/controllers/kit/reason.ts";

export interface Decided {
  /** The outcome: writes, sizes, a time. */
  readonly decision: unknown;
  readonly why: readonly Reason[];
}

/** For each input, the facts of a reason that contain it, alone or in a sum. */
export type Inputs<Given> = {
  readonly [Name in keyof Given]: { readonly values: fc.Arbitrary<Given[Name]>; readonly facts: readonly string[] };
};

export function expectChangesExplained<Given extends object>(
  inputs: Inputs<Given>,
  decide: (input: Given) => Decided,
  options: { readonly numRuns?: number } = {},
): void {
  // the record has the same keys
  const cases = fc.record(Object.fromEntries(names(inputs).map((name) => [name, inputs[name].values]))) as unknown as fc.Arbitrary<Given>;
  const changed = new Set<keyof Given>();
  const change = fc.constantFrom(...names(inputs)).chain((name) => inputs[name].values.map((value) => ({ name, value })));
  fc.assert(
    fc.property(cases, change, (input, { name, value }) => {
      const [before, after] = [decide(input), decide({ ...input, [name]: value })];
      if (JSON.stringify(before.decision) === JSON.stringify(after.decision)) return;
      changed.add(name);
      const { facts } = inputs[name];
      expect(factsOf(before.why, facts), `${String(name)} changes the decision and stands in none of ${facts.join(", ")}`).not.toEqual(
        factsOf(after.why, facts),
      );
    }),
    { numRuns: 2000, ...options },
  );
  // An input that never changes the decision proves nothing.
  expect([...changed].toSorted()).toEqual(names(inputs).toSorted());
}

function names<Input extends object>(inputs: Inputs<Input>): readonly (keyof Input)[] {
  return Object.keys(inputs) as (keyof Input)[]; // made of literals
}

function factsOf(why: readonly Reason[], names: readonly string[]): readonly unknown[] {
  return why.flatMap(({ about, facts }) => names.flatMap((name) => (name in facts ? [[about, name, facts[name]]] : [])));
}
