/**
 * `deltaloop cost`: what a month in an account comes to, from counts that were measured, idle included, beside a resident pod. Needs no
 * account and no network: prices and counts are files with a date.
 */
import { readFileSync, statSync } from "node:fs";
import type { Command } from "commander";
import { messageOf } from "@deltaloop/kube/objects";
import { residentsOf, savingsOf } from "./cost/compare.ts";
import counted from "./cost/counts.json" with { type: "json" };
import { parseCounts } from "./cost/counts.ts";
import { toldIn, usageOfTold } from "./cost/metrics.ts";
import type { Told } from "./cost/metrics.ts";
import { monthOf } from "./cost/month.ts";
import prices from "./cost/prices.json" with { type: "json" };
import { parsePrices } from "./cost/prices.ts";
import { reportAsJson, reportForPeople } from "./cost/report.ts";
import { madeOf, stackOf, parameterTexts } from "@deltaloop/controllers/registry";
import { usageOf } from "./cost/usage.ts";
import type { Rates } from "./cost/usage.ts";
import { duration, UsageError, wholeNumber } from "@deltaloop/base";

interface CostFlags extends Rates {
  readonly metrics?: string;
  readonly over?: number;
  readonly params?: string;
  readonly param: readonly string[];
  readonly prices?: string;
  readonly counts?: string;
  readonly slower: number;
  readonly json?: true;
}

const RATE_MAX = 10_000_000;
const FETCH_MS_MAX = 10_000;
const RATES = [
  "deployments",
  "pods",
  "rolloutsPerDay",
  "newDeploymentsPerDay",
  "lostPodsPerDay",
  "podChangesPerDay",
  "otherPodsPerDay",
] as const satisfies readonly (keyof Rates)[];

export function registerCost(program: Command): void {
  const rate = (flag: string) => wholeNumber(flag, { min: 0, max: RATE_MAX });
  program
    .command("cost")
    .description("what a month in an AWS account comes to, idle included, beside a resident pod; needs no account and no network")
    .option("--deployments <n>", "Deployments in the cluster", rate("--deployments"), 0)
    .option("--pods <n>", "of each", wholeNumber("--pods", { min: 1, max: 10_000 }), 3)
    .option("--rollouts-per-day <n>", "of all Deployments together", rate("--rollouts-per-day"), 0)
    .option("--new-deployments-per-day <n>", "of one pod each; their end is not counted", rate("--new-deployments-per-day"), 0)
    .option("--lost-pods-per-day <n>", "that are replaced", rate("--lost-pods-per-day"), 0)
    .option("--pod-changes-per-day <n>", "of readiness, labels and the like, beyond rollouts", rate("--pod-changes-per-day"), 0)
    .option("--other-pods-per-day <n>", "pods of Jobs and others, that come and go", rate("--other-pods-per-day"), 0)
    .option("--metrics <file|url>", "instead of these: what the function host of `deltaloop dev` tells at /metrics, after a day or so")
    .option("--over <duration>", "how long that was counted; default: since its process began", duration("--over"))
    .option("--params <file>", "of a deployment, as `npm run deploy` takes them: `name: value`")
    .option("--param <name=value>", "one of them, on top of the file", (one: string, all: readonly string[]) => [...all, one], [])
    .option(
      "--slower <n>",
      "how much longer functions take in an account than where they were counted",
      wholeNumber("--slower", { min: 1, max: 100 }),
      3,
    )
    .option("--prices <file>", "of your region and contract, instead of cli/cost/prices.json")
    .option("--counts <file>", "of your own, instead of cli/cost/counts.json: `npm run counts` makes them")
    .option("--json", "one JSON object (cli/README.md has its fields)")
    .action(runCost);
}

async function runCost(flags: CostFlags, command: Command): Promise<void> {
  const { slower } = flags;
  const rates = Object.fromEntries(RATES.map((name) => [name, flags[name]])) as unknown as Rates; // all of its names
  const known = parsePrices(flags.prices ?? "prices.json", flags.prices === undefined ? prices : readJson(flags.prices));
  const counts = parseCounts(flags.counts ?? "counts.json", flags.counts === undefined ? counted : readJson(flags.counts));
  const parameters = { ...(flags.params !== undefined && parametersIn(flags.params)), ...Object.fromEntries(flags.param.map(assignment)) };
  const told = flags.metrics === undefined ? undefined : await toldAt(flags.metrics, flags.over);
  const said = RATES.filter((name) => command.getOptionValueSource(name) === "cli");
  if (told !== undefined && said.length > 0) throw new UsageError(`--metrics says how much work there is: leave out ${said.join(", ")}`);
  const usage = told === undefined ? usageOf(counts, rates) : usageOfTold(counts, told);
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
    ...(told === undefined ? { rates } : { told }),
    items: month(parameters),
    residents: residentsOf(known),
    savings: savingsOf(parameters, month),
  };
  process.stdout.write(flags.json ? reportAsJson(report) : reportForPeople(report));
}

/** A file was read when it was written. @throws {UsageError} */
async function toldAt(where: string, overMs: number | undefined): Promise<Told> {
  const hours = overMs === undefined ? undefined : overMs / 3_600_000;
  try {
    if (!/^https?:/.test(where)) return toldIn(where, readFileSync(where, "utf8"), statSync(where).mtimeMs, hours);
    const answer = await fetch(where, { signal: AbortSignal.timeout(FETCH_MS_MAX) });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    return toldIn(where, await answer.text(), Date.now(), hours);
  } catch (error) {
    // fetch says no more than that it failed.
    const why = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw error instanceof UsageError ? error : new UsageError(`${where} cannot be read: ${messageOf(why)}`);
  }
}

function readJson(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
  if (text.trim() === "") throw new UsageError(`${path} is empty: shared/controllers/registry has files of its form`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${path} is not JSON: ${messageOf(error)}`);
  }
}

/** @throws {UsageError} when it is no file of `name: value` */
function parametersIn(path: string): Readonly<Record<string, string>> {
  try {
    return parameterTexts(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
}

function assignment(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw new UsageError(`--param takes name=value, not "${text}"`);
  return [text.slice(0, at), text.slice(at + 1)];
}
