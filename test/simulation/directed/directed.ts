/**
 * Directed plans: the twenty recorded scenarios (test/captures), each played with one fault at a chosen point. Number n is plan
 * (n − 1) % 200 of scenario ⌊(n − 1) / 200⌋.
 *
 * A run must end in the desired state and, unless a change of a spec is seen late, create no more objects than the run without a fault. Usually it ends as recorded. It may not if a
 * request of a user met another state than in the recording; such runs are counted.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";

import type { Life } from "../../../shared/replay/closed/life.ts";
import type { SeedResult } from "../levels.ts";
import type { Rule } from "../rules.ts";
import { chosenPlans, PLANS_MAX } from "./plans.ts";
import type { Plan } from "./plans.ts";
import { lifeOfScenario, play } from "./play.ts";
import type { Played } from "./play.ts";

const CAPTURES = join(import.meta.dirname, "../../captures");

export const SCENARIOS: readonly string[] = readdirSync(CAPTURES)
  .flatMap((file) => (file.endsWith(".watch.jsonl.gz") ? [file.replace(".watch.jsonl.gz", "")] : []))
  .toSorted();

interface Reference {
  readonly life: Life;
  readonly plain: Played;
  readonly plans: readonly Plan[];
}

const references = new Map<string, Promise<Reference>>();

function referenceOf(name: string): Promise<Reference> {
  const known = references.get(name) ?? prepare(name);
  references.set(name, known);
  return known;
}

async function prepare(name: string): Promise<Reference> {
  const life = lifeOfScenario(name);
  const plain = await play(name, life);
  return { life, plain, plans: chosenPlans(plain) };
}

export async function runDirected(number: number, off: ReadonlySet<Rule>, trace?: (line: string) => void): Promise<SeedResult> {
  const name = SCENARIOS[Math.floor((number - 1) / PLANS_MAX)];
  const reference = name === undefined ? undefined : await referenceOf(name);
  const plan = reference?.plans[(number - 1) % PLANS_MAX];
  if (name === undefined || reference === undefined || plan === undefined)
    return { seed: number, violations: [], stats: { "numbers without a plan": 1 } };
  const { life, plain } = reference;
  trace?.(`${name}: ${JSON.stringify(plan)}`);
  const played = await play(name, life, plan, off);
  const isAsRecorded = played.disagreements.every((each) => plain.disagreements.includes(each));
  return {
    seed: number,
    mix: `${name} ${Object.values(plan).join(" ")}`,
    violations: violationsOf(plan, plain, played),
    stats: {
      plans: 1,
      [`plans: ${plan.pattern}`]: 1,
      ...(!played.isHit && { "plans whose fault did not occur": 1 }),
      ...(!isAsRecorded && { "ends that differ from the recorded one": 1 }),
    },
  };
}

/** Whether a user's change is seen late, perhaps together with the next one: other rollouts then follow, with other numbers of pods. */
function holdsSpec(plan: Plan, { events }: Played): boolean {
  if (plan.pattern === "crash") return false;
  const held = events.get(plan.resource)?.slice(plan.from, plan.until) ?? [];
  return held.some(({ change }) => change.includes("spec"));
}

function violationsOf(plan: Plan, plain: Played, played: Played): SeedResult["violations"] {
  const surplus = [...played.created].flatMap(([what, count]) => {
    const most = holdsSpec(plan, plain) ? Infinity : (plain.created.get(what) ?? 0);
    return count > most ? [{ rule: "surplus", what: `${what}: ${count} times, without the fault ${most}` }] : [];
  });
  const undesired = played.undesired.filter((what) => !plain.undesired.includes(what));
  return [...undesired.map((what) => ({ rule: "desired", what })), ...surplus];
}
