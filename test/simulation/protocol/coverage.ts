/** Which pairs of a fault and a protocol step schedules have reached: a step within the next few after the fault. */
import { runSchedule } from "../schedules/schedule.ts";
import type { ScheduleResult } from "../schedules/schedule.ts";
import type { ScheduleName } from "../schedules/variant.ts";
import type { Rule } from "../rules.ts";
import { withoutRules } from "../rules.ts";
import { PROTOCOL_FAULTS } from "./faults.ts";
import { createMemoryGround } from "./memory-ground.ts";

export const FAULTS = [
  "messages lost",
  "messages repeated",
  "messages reordered",
  "doorbells lost",
  "doorbells repeated",
  "processes that died",
  "calls refused",
  "calls unanswered",
  "creates refused at the end",
  "leaders at once",
  "losses",
  ...PROTOCOL_FAULTS,
] as const;
export type Fault = (typeof FAULTS)[number];

/** Steps after a fault that count as reached with it. */
const STEPS_AFTER = 8;

export type Pair = `${Fault} × ${string}`;

export interface Covered {
  readonly result: ScheduleResult;
  readonly pairs: ReadonlySet<Pair>;
  /** Number of random numbers drawn when each step was first reached. */
  readonly steps: ReadonlyMap<string, number>;
}

export async function runCovered({ seed, variant }: ScheduleName, off?: ReadonlySet<Rule>): Promise<Covered> {
  const ground = createMemoryGround(off && ((store, data) => withoutRules(store, data, off)));
  const left = new Map<Fault, number>();
  const pairs = new Set<Pair>();
  const steps = new Map<string, number>();
  const result = await runSchedule({
    ...{ ground, seed, variant, faults: true },
    onCount(what) {
      const fault = FAULTS.find((each) => each === what);
      if (fault) left.set(fault, STEPS_AFTER);
    },
    onStep(step, draws) {
      if (!steps.has(step)) steps.set(step, draws);
      for (const [fault, count] of left) {
        pairs.add(`${fault} × ${step}`);
        if (count > 1) left.set(fault, count - 1);
        else left.delete(fault);
      }
    },
  });
  return { result, pairs, steps };
}
