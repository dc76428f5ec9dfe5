/** Finds a smaller schedule that violates the same invariant: fewer steps, faults, user actions and replicas. */
import type { InvariantId } from "../invariants.ts";
import { withoutRules } from "../rules.ts";
import type { Rule } from "../rules.ts";
import { runSchedule, STEPS } from "../schedules/schedule.ts";
import type { ScheduleName, Variant } from "../schedules/variant.ts";
import { FAULTS } from "./coverage.ts";
import { createMemoryGround } from "./memory-ground.ts";

const REPLICAS = [1, 2] as const;

/** @returns `name` itself if it does not violate the invariant */
export async function shrink({ seed, variant: given }: ScheduleName, rule: InvariantId, off?: ReadonlySet<Rule>): Promise<ScheduleName> {
  let counts: Readonly<Record<string, number>> = {};
  const fails = async (variant: Variant): Promise<boolean> => {
    const ground = createMemoryGround(off && ((store, data) => withoutRules(store, data, off)));
    const { violations, stats } = await runSchedule({ ground, seed, variant, faults: true });
    counts = stats;
    return violations.some((violation) => violation.rule === rule);
  };
  let variant = given;
  const shrinksTo = async (smaller: Variant): Promise<boolean> => {
    const isSmaller = await fails(smaller);
    if (isSmaller) variant = smaller;
    return isSmaller;
  };

  let steps = Math.min(STEPS, given.steps);
  for (let cut = steps >> 1; cut > 0; cut >>= 1) while (steps > cut && (await shrinksTo({ ...variant, steps: steps - cut }))) steps -= cut;
  if (!(await fails(variant))) return { seed, variant: given };
  const happened = FAULTS.filter((fault) => counts[fault] !== undefined);
  const actions = counts["user actions"] ?? 0;
  for (const fault of happened) await shrinksTo({ ...variant, without: new Set([...variant.without, fault]) });
  for (let action = 0; action < actions; action++) await shrinksTo({ ...variant, skip: new Set([...variant.skip, action]) });
  for (const replicas of REPLICAS) if (await shrinksTo({ ...variant, replicas })) break;
  return { seed, variant };
}
