/** `npm run sim -- --protocol --hunt 10m`, and one schedule of such a search. */
import type { InvariantId } from "../invariants.ts";
import type { Rule } from "../rules.ts";
import { parseScheduleName, scheduleNameOf } from "../schedules/variant.ts";
import type { ScheduleName } from "../schedules/variant.ts";
import { FAULTS, runCovered } from "./coverage.ts";
import { describeUnreached, hunt } from "./hunt.ts";
import { describeFailure } from "./run-protocol.ts";
import { shrink } from "./shrink.ts";

const SEEDS = 1_000_000_000;
/** Pairs that every short search reaches are not printed. */
const FIRST_SCHEDULES = 1_000;

export interface HuntCommand {
  readonly forMs: number;
  readonly off: ReadonlySet<Rule>;
  readonly commit: string;
}

/** Prints rare pairs as they are reached, failures, and the pairs that were not reached. @returns whether no schedule failed */
export async function printHunt({ forMs, off, commit }: HuntCommand, print: (line: string) => void): Promise<boolean> {
  const untilMs = performance.now() + forMs;
  const firstSeed = Math.floor(Date.now() / 1_000) % SEEDS;
  const result = await hunt({
    firstSeed,
    off,
    goesOn: () => performance.now() < untilMs,
    onPair: (pair, ran) => (ran < FIRST_SCHEDULES ? undefined : print(`schedule ${ran}: ${pair}`)),
    onFailure: async (name, rule) => {
      print(`on ${commit}:`);
      await printShrunk(name, rule, off, print);
    },
  });
  const { ran, failed, pairs, steps } = result;
  print(
    `${ran} schedules from seed ${firstSeed} on, ${failed} failed, ${pairs.size} of ${FAULTS.length * steps.size} pairs reached; not reached:`,
  );
  for (const line of describeUnreached(result)) print(`  ${line}`);
  return failed === 0;
}

/** Runs the schedule of that name. @returns whether it violates no invariant */
export async function printSchedule(text: string, off: ReadonlySet<Rule>, print: (line: string) => void): Promise<boolean> {
  const name = parseScheduleName(text);
  const [first] = (await runCovered(name, off)).result.violations;
  if (first) await printShrunk(name, first.rule, off, print);
  else print(`${text} violates no invariant`);
  return first === undefined;
}

async function printShrunk(name: ScheduleName, rule: InvariantId, off: ReadonlySet<Rule>, print: (line: string) => void): Promise<void> {
  const small = await shrink(name, rule, off);
  const violation = (await runCovered(small, off)).result.violations.find((each) => each.rule === rule);
  for (const line of await describeFailure({ ...small, rule, what: violation?.what ?? "" }, off)) print(line);
  print(`  for protocol.test.ts: "${scheduleNameOf(small)}"`);
}
