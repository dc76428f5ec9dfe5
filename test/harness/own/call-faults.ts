/**
 * Faults that are planned by key and call. Calls are counted per key over all runs of the key: `create deployments 1`, `writeThrough 2`.
 */
import { createCallFaults } from "../../../shared/test-kit/simulation.ts";
import type { CallFaults, Fault } from "../../../shared/test-kit/simulation.ts";

/** `create deployments 1`: the nth call of this name. */
export type CallName = string;

export interface PlannedFaults extends Omit<CallFaults, "calls"> {
  /** `key` is `<controller> <namespace>/<name>`. */
  plan(key: string, call: CallName, fault: Fault): void;
  /** The calls for a key so far, in order. */
  calls(key: string): readonly CallName[];
}

export function createPlannedFaults(): PlannedFaults {
  const planned = new Map<string, Fault>();
  const faults = createCallFaults(({ key, name, nth }) => planned.get(`${key} ${name} ${nth}`));
  return {
    ...faults,
    plan: (key, call, fault) => void planned.set(`${key} ${call}`, fault),
    calls: (of) => faults.calls().flatMap(({ key, name, nth }) => (key === of ? [`${name} ${nth}`] : [])),
  };
}
