/**
 * A guided search for rare pairs of a fault and a step (coverage.ts). Half of all schedules are new seeds. The others continue a schedule
 * that reached the step of a rare pair: they branch off shortly before it, and from there on have the pair's fault.
 */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { Random } from "../../../shared/base/random.ts";
import type { InvariantId } from "../invariants.ts";
import type { Rule } from "../rules.ts";
import { NO_VARIANT } from "../schedules/variant.ts";
import type { ScheduleName } from "../schedules/variant.ts";
import { FAULTS, runCovered } from "./coverage.ts";
import type { Pair } from "./coverage.ts";

export interface HuntOptions {
  readonly firstSeed: number;
  /** Whether to run another schedule. */
  readonly goesOn: (ran: number) => boolean;
  /** The share of schedules that continue an earlier one; 0 makes the search blind. */
  readonly continued?: number;
  readonly off?: ReadonlySet<Rule>;
  /** Called for the first schedule that violates an invariant, for each invariant. */
  readonly onFailure?: (name: ScheduleName, rule: InvariantId) => Promise<void>;
  readonly onPair?: (pair: Pair, ran: number) => void;
}

export interface HuntResult {
  readonly ran: number;
  /** The number of schedules that reached each pair. */
  readonly pairs: ReadonlyMap<Pair, number>;
  /** The number of schedules that reached each step. */
  readonly steps: ReadonlyMap<string, number>;
  readonly failed: number;
}

/** A schedule that reached a step. */
interface Reached {
  readonly name: ScheduleName;
  /** Number of random numbers drawn until then. */
  readonly draws: number;
}

const CONTINUED = 0.5;
/** Number of random pairs of which the rarest is chosen. */
const CANDIDATES = 12;
const KEPT_PER_STEP = 32;
const BRANCHES_MAX = 6;
/** Maximum number of random numbers between the branch and the step. */
const BEFORE_MAX = 60;
const SEEDS = 1_000_000_000;

export async function hunt({ firstSeed, goesOn, continued = CONTINUED, off, onFailure, onPair }: HuntOptions): Promise<HuntResult> {
  const random = createSeededRandom(firstSeed);
  const pairs = new Map<Pair, number>();
  const steps = new Map<string, number>();
  const reached = new Map<string, Reached[]>();
  const reported = new Set<InvariantId>();
  let [ran, failed, seed] = [0, 0, firstSeed];
  for (; goesOn(ran); ran++) {
    const name = (random.next() < continued && continuation(pairs, reached, random)) || { seed: seed++, variant: NO_VARIANT };
    const covered = await runCovered(name, off);
    for (const pair of covered.pairs) {
      const count = (pairs.get(pair) ?? 0) + 1;
      pairs.set(pair, count);
      if (count === 1) onPair?.(pair, ran);
    }
    for (const [step, draws] of covered.steps) {
      steps.set(step, (steps.get(step) ?? 0) + 1);
      const kept = reached.get(step) ?? [];
      if (!reached.has(step)) reached.set(step, kept);
      if (kept.length < KEPT_PER_STEP) kept.push({ name, draws });
      else kept[Math.floor(random.next() * kept.length)] = { name, draws };
    }
    const [first] = covered.result.violations;
    if (!first) continue;
    failed++;
    if (reported.has(first.rule)) continue;
    reported.add(first.rule);
    await onFailure?.(name, first.rule);
  }
  return { ran, pairs, steps, failed };
}

/** Another continuation, with the fault of a rare pair, of a schedule that reached the pair's step. */
function continuation(
  pairs: ReadonlyMap<Pair, number>,
  reached: ReadonlyMap<string, readonly Reached[]>,
  random: Random,
): ScheduleName | undefined {
  const pick = <T>(all: readonly T[]): T | undefined => all[Math.floor(random.next() * all.length)];
  const steps = [...reached.keys()];
  const drawn = Array.from({ length: CANDIDATES }, () => {
    const [fault = FAULTS[0], step = ""] = [pick(FAULTS), pick(steps)];
    return { fault, step, count: pairs.get(`${fault} × ${step}`) ?? 0 };
  });
  const { fault, step } = drawn.reduce((best, each) => (each.count < best.count ? each : best));
  const from = pick(reached.get(step) ?? []);
  if (!from) return undefined;
  const { seed, variant } = from.name;
  const at = Math.max(1, from.draws - Math.floor(random.next() * BEFORE_MAX));
  const kept = variant.branches.filter((branch) => branch.at < at).slice(0, BRANCHES_MAX - 1);
  return {
    seed,
    variant: { ...variant, branches: [...kept, { at, seed: Math.floor(random.next() * SEEDS) }], also: new Set([...variant.also, fault]) },
  };
}

/** Pairs that no schedule can reach. */
const IMPOSSIBLE = [
  {
    fault: "creates refused at the end",
    steps: /fenced|notOpen|setBack|dropped|stolen|ended|moved|recover|suspect|nothing/,
    why: "in the quiet phase one leader is alive, and nothing is lost",
  },
] as const;

/** The pairs that were not reached: for each step the faults that it was never reached with, and how rare the step itself is. */
export function describeUnreached({ ran, pairs, steps }: Pick<HuntResult, "ran" | "pairs" | "steps">): readonly string[] {
  const lines = [...steps]
    .toSorted(([, a], [, b]) => a - b)
    .flatMap(([step, count]) => {
      const faults = FAULTS.filter((fault) => !pairs.has(`${fault} × ${step}`) && !isImpossible(fault, step));
      return faults.length === 0 ? [] : [`${step}, reached in ${count} of ${ran} schedules: not with ${faults.join(", ")}`];
    });
  return [...lines, ...IMPOSSIBLE.map(({ fault, steps: { source }, why }) => `${fault}: not with steps like ${source}, because ${why}`)];
}

function isImpossible(fault: string, step: string): boolean {
  return IMPOSSIBLE.some((each) => each.fault === fault && each.steps.test(step));
}
