/**
 * `deltaloop cost`: what a month in an account comes to, from counts that were measured, idle included, beside a resident pod. Needs no
 * account and no network: prices and counts are files with a date.
 */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { parseYaml } from "../shared/adapters/system/yaml.ts";
import { messageOf } from "../shared/api/errors.ts";
import { residentsOf, savingsOf } from "./support/cost/compare.ts";
import counted from "./support/cost/counts.json" with { type: "json" };
import { parseCounts } from "./support/cost/counts.ts";
import { monthOf } from "./support/cost/month.ts";
import prices from "./support/cost/prices.json" with { type: "json" };
import { parsePrices } from "./support/cost/prices.ts";
import { reportAsJson, reportForPeople } from "./support/cost/report.ts";
import { madeOf, stackOf } from "./support/cost/stack.ts";
import { usageOf } from "./support/cost/usage.ts";
import type { Rates } from "./support/cost/usage.ts";
import { UsageError, wholeNumber } from "./support/usage-error.ts";

interface CostFlags extends Rates {
  readonly params?: string;
  readonly param: readonly string[];
  readonly prices?: string;
  readonly counts?: string;
  readonly slower: number;
  readonly json?: true;
}

const RATE_MAX = 10_000_000;

export function registerCost(program: Command): void {
  const rate = (flag: string) => wholeNumber(flag, { min: 0, max: RATE_MAX });
  program
    .command("cost")
    .description("what a month in an AWS account comes to, idle included, beside a resident pod; needs no account and no network")
    .option("--deployments <n>", "Deployments in the cluster", rate("--deployments"), 0)
    .option("--pods <n>", "of each", wholeNumber("--pods", { min: 1, max: 10_000 }), 3)
    .option("--rollouts-per-day <n>", "of all Deployments together", rate("--rollouts-per-day"), 0)
    .option("--new-deployments-per-day <n>", "of one pod each, and gone again", rate("--new-deployments-per-day"), 0)
    .option("--lost-pods-per-day <n>", "that are replaced", rate("--lost-pods-per-day"), 0)
    .option("--pod-changes-per-day <n>", "of readiness, labels and the like, beyond rollouts", rate("--pod-changes-per-day"), 0)
    .option("--other-pods-per-day <n>", "pods of Jobs and others, that come and go", rate("--other-pods-per-day"), 0)
    .option("--params <file>", "of a deployment, as `npm run deploy` takes them: `name: value`")
    .option("--param <name=value>", "one of them, on top of the file", (one: string, all: readonly string[]) => [...all, one], [])
    .option(
      "--slower <n>",
      "how much longer functions take in an account than where they were counted",
      wholeNumber("--slower", { min: 1, max: 100 }),
      3,
    )
    .option("--prices <file>", "of your region and contract, instead of cli/support/cost/prices.json")
    .option("--counts <file>", "of your own, instead of cli/support/cost/counts.json: `npm run counts` makes them")
    .option("--json", "one JSON object (cli/README.md has its fields)")
    .action(runCost);
}

function runCost(flags: CostFlags): void {
  const { deployments, pods, rolloutsPerDay, newDeploymentsPerDay, lostPodsPerDay, podChangesPerDay, otherPodsPerDay, slower } = flags;
  const rates: Rates = { deployments, pods, rolloutsPerDay, newDeploymentsPerDay, lostPodsPerDay, podChangesPerDay, otherPodsPerDay };
  const known = parsePrices(flags.prices ?? "prices.json", flags.prices === undefined ? prices : readJson(flags.prices));
  const counts = parseCounts(flags.counts ?? "counts.json", flags.counts === undefined ? counted : readJson(flags.counts));
  const parameters = { ...(flags.params !== undefined && parametersIn(flags.params)), ...Object.fromEntries(flags.param.map(assignment)) };
  const usage = usageOf(counts, rates);
  const { coldStartMs, series } = counts;
  const month = (given: Readonly<Record<string, string>>) => {
    const stack = stackOf(given);
    return monthOf(stack, madeOf(stack), usage, { slower, coldStartMs, series }, known);
  };
  const report = {
    region: known.region,
    pricesOf: known.date,
    countsOf: counts.date,
    countedAt: counts.commit,
    slower,
    parameters,
    rates,
    items: month(parameters),
    residents: residentsOf(known),
    savings: savingsOf(parameters, month),
  };
  process.stdout.write(flags.json ? reportAsJson(report) : reportForPeople(report));
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
}

/** @throws {UsageError} when it is no file of `name: value` */
function parametersIn(path: string): Readonly<Record<string, string>> {
  let read: unknown;
  try {
    read = parseYaml(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
  if (typeof read !== "object" || read === null || Array.isArray(read)) throw new UsageError(`${path}: lines of \`name: value\``);
  return Object.fromEntries(Object.entries(read).map(([name, value]) => [name, String(value)]));
}

function assignment(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw new UsageError(`--param takes name=value, not "${text}"`);
  return [text.slice(0, at), text.slice(at + 1)];
}
