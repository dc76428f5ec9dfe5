/** `npm run sim -- --protocol`: seeds, a summary with faults by kind; `--rules`: the table of planted faults. */
import { RULES } from "../rules.ts";
import type { Rule } from "../rules.ts";
import { describeFailure, runProtocol } from "./run-protocol.ts";

export interface CommandOptions {
  /** `n`, or `a-b`. */
  readonly seeds: string | undefined;
  readonly seed: string | undefined;
  readonly off: ReadonlySet<Rule>;
  readonly stop: boolean;
  readonly rules: boolean;
  readonly print: (line: string) => void;
}

const SEEDS = 300;
const RULE_SEEDS = 2_000;
const FAILURES_SHOWN = 3;

/** @returns the exit code. */
export async function protocolCommand(options: CommandOptions): Promise<number> {
  if (options.rules) return await printRules(rangeOf(options, RULE_SEEDS).last, options.print);
  const { off, stop, print } = options;
  const cpu = process.cpuUsage();
  const { ran, failed, stats } = await runProtocol({ ...rangeOf(options, SEEDS), off, stop });
  const seconds = cpuSeconds(cpu);
  const firsts = failed.filter(({ seed }, i) => failed.findIndex((each) => each.seed === seed) === i);
  for (const failure of firsts.slice(0, FAILURES_SHOWN)) for (const line of await describeFailure(failure, off)) print(line);
  const counts = Object.entries(stats).toSorted(([, a], [, b]) => b - a);
  for (const [name, count] of counts) print(`  ${String(count).padStart(8)}  ${name}`);
  print(`${ran} seeds, ${firsts.length} failed, ${(ran / seconds).toFixed(0)} seeds/s of CPU time`);
  return firsts.length > 0 ? 1 : 0;
}

async function printRules(max: number, print: CommandOptions["print"]): Promise<number> {
  print("| rule switched off | first failing seed | CPU seconds | invariant |\n|---|---|---|---|");
  for (const rule of RULES) {
    const cpu = process.cpuUsage();
    const { failed } = await runProtocol({ first: 1, last: max, off: new Set([rule]), stop: true });
    const [first] = failed;
    print(`| ${rule} | ${first?.seed ?? `none (${max})`} | ${cpuSeconds(cpu).toFixed(1)} | ${first?.rule ?? "–"} |`);
  }
  return 0;
}

function rangeOf({ seeds, seed }: CommandOptions, count: number): { readonly first: number; readonly last: number } {
  if (seed !== undefined) return { first: Number(seed), last: Number(seed) };
  const [first = count, last] = (seeds ?? String(count)).split("-").map(Number);
  return last === undefined ? { first: 1, last: first } : { first, last };
}

function cpuSeconds(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
}
