/** One input of a decision is changed at a time: if the decision changes, a reason that names that input must change with it. */
import fc from "fast-check";
import { expect } from "vitest";
import type { Reason } from "../../shared/controller/reason.ts";

export interface Decided {
  /** What is done: writes, sizes, a time. */
  readonly decision: unknown;
  readonly why: readonly Reason[];
}

/** Each input with the facts in which it can be read, alone or in a sum. */
export type Inputs<World> = {
  readonly [Input in keyof World]: { readonly values: fc.Arbitrary<World[Input]>; readonly facts: readonly string[] };
};

export function expectChangesExplained<World extends object>(
  inputs: Inputs<World>,
  decide: (world: World) => Decided,
  options: { readonly numRuns?: number } = {},
): void {
  // Record of the same keys.
  const worlds = fc.record(Object.fromEntries(names(inputs).map((name) => [name, inputs[name].values]))) as unknown as fc.Arbitrary<World>;
  const changed = new Set<keyof World>();
  const change = fc.constantFrom(...names(inputs)).chain((name) => inputs[name].values.map((value) => ({ name, value })));
  fc.assert(
    fc.property(worlds, change, (world, { name, value }) => {
      const [before, after] = [decide(world), decide({ ...world, [name]: value })];
      if (JSON.stringify(before.decision) === JSON.stringify(after.decision)) return;
      changed.add(name);
      const { facts } = inputs[name];
      expect(factsOf(before.why, facts), `${String(name)} changes the decision and stands in none of ${facts.join(", ")}`).not.toEqual(
        factsOf(after.why, facts),
      );
    }),
    { numRuns: 2000, ...options },
  );
  // An input that never changed anything proves nothing.
  expect([...changed].toSorted()).toEqual(names(inputs).toSorted());
}

function names<World extends object>(inputs: Inputs<World>): readonly (keyof World)[] {
  return Object.keys(inputs) as (keyof World)[]; // made of literals
}

function factsOf(why: readonly Reason[], names: readonly string[]): readonly unknown[] {
  return why.flatMap(({ about, facts }) => names.flatMap((name) => (name in facts ? [[about, name, facts[name]]] : [])));
}
