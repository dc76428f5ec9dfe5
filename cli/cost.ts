/**
 * `deltaloop cost`: the estimated cost of a month in an AWS account, from measured counts, compared with a resident pod. Needs no account
 * and no network: prices and counts are dated files.
 */
import { readFileSync, statSync } from "node:fs";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";
import { messageOf } from "@deltaloop/kube/objects";
import { clustersReport } from "./cost/clusters.ts";
import { residentsOf, savingsOf } from "./cost/compare.ts";
import counted from "./cost/counts.json" with { type: "json" };
import { parseCounts } from "./cost/counts.ts";
import { measuredIn, usageOfMeasured } from "./cost/metrics.ts";
import type { Measured } from "./cost/metrics.ts";
import { monthOf } from "./cost/month.ts";
import prices from "./cost/prices.json" with { type: "json" };
import { parsePrices } from "./cost/prices.ts";
import { reportAsObject, reportForPeople } from "./cost/report.ts";
import { madeOf, stackOf, parameterTexts } from "@deltaloop/controllers/registry";
import { usageOf } from "./cost/usage.ts";
import type { Rates } from "./cost/usage.ts";
import { withProgress } from "./output/terminal.ts";
import { duration, UsageError, wholeNumber } from "@deltaloop/base";

interface CostFlags extends Rates {
  readonly clusters: number;
  readonly metrics?: string;
  readonly over?: number;
  readonly params?: string;
  readonly param: readonly string[];
  readonly prices?: string;
  readonly counts?: string;
  readonly slower: number;
  readonly output?: OutputFormat;
}

const RATE_MAX = 10_000_000;
const CLUSTERS_MAX = 10_000;
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

/** Has all names. */
const NO_WORK = { ...Object.fromEntries(RATES.map((name) => [name, 0])), pods: 1 } as unknown as Rates;

export function registerCost(program: Command): void {
  const rate = (flag: string) => wholeNumber(flag, { min: 0, max: RATE_MAX });
  const command = program
    .command("cost")
    .description("Estimates the monthly AWS cost, and compares it with a resident pod.")
    .optionsGroup("Workload:")
    .option("--clusters <n>", "clusters that the deployment serves", wholeNumber("--clusters", { min: 1, max: CLUSTERS_MAX }), 1)
    .option("--deployments <n>", "Deployments of all clusters together", rate("--deployments"), 0)
    .option("--pods <n>", "pods of each Deployment", wholeNumber("--pods", { min: 1, max: 10_000 }), 3)
    .option("--rollouts-per-day <n>", "rollouts of all Deployments together", rate("--rollouts-per-day"), 0)
    .option(
      "--new-deployments-per-day <n>",
      "new Deployments of one pod; their deletion is not counted",
      rate("--new-deployments-per-day"),
      0,
    )
    .option("--lost-pods-per-day <n>", "pods that are lost and replaced", rate("--lost-pods-per-day"), 0)
    .option("--pod-changes-per-day <n>", "changes of readiness, labels and the like, beyond rollouts", rate("--pod-changes-per-day"), 0)
    .option("--other-pods-per-day <n>", "pods of Jobs and others", rate("--other-pods-per-day"), 0)
    .optionsGroup("Measured workload (instead of the options above):")
    .option("--metrics <file|url>", "/metrics of the function host of `deltaloop dev`, after about a day")
    .option("--over <duration>", "duration of the measurement (default: since the process started)", duration("--over"))
    .optionsGroup("Deployment and prices:")
    .option("--params <file>", "parameters of the deployment as for `npm run deploy`: one `name: value` a line")
    .option(
      "--param <name=value>",
      "one parameter, in addition to the file; repeatable",
      (one: string, all: readonly string[]) => [...all, one],
      [],
    )
    .option(
      "--slower <n>",
      "how much slower functions run in AWS than where they were measured",
      wholeNumber("--slower", { min: 1, max: 100 }),
      3,
    )
    .option("--prices <file>", "prices of your region and contract (default: cli/cost/prices.json)")
    .option("--counts <file>", "your own measurements by `npm run counts` (default: cli/cost/counts.json)")
    .optionsGroup("Options:");
  withDetails(addOutputOption(command, "one object").action(runCost), {
    notes: ["Needs no AWS account and no network. cli/README.md describes the assumptions and the fields of -o json."],
    examples: [
      "cost",
      "cost --deployments 50 --rollouts-per-day 20 --param natGateway=false",
      "cost --clusters 200",
      "cost --metrics http://127.0.0.1:9090/metrics -o yaml",
    ],
  });
}

async function runCost(flags: CostFlags, command: Command): Promise<void> {
  const { slower } = flags;
  const rates = Object.fromEntries(RATES.map((name) => [name, flags[name]])) as unknown as Rates; // has all names
  const known = parsePrices(flags.prices ?? "prices.json", flags.prices === undefined ? prices : readJson(flags.prices));
  const counts = parseCounts(flags.counts ?? "counts.json", flags.counts === undefined ? counted : readJson(flags.counts));
  const given = { ...(flags.params !== undefined && parametersIn(flags.params)), ...Object.fromEntries(flags.param.map(assignment)) };
  const { clusters } = flags;
  const parameters = clusters > 1 ? forSeveral(given) : given;
  const measured =
    flags.metrics === undefined ? undefined : await withProgress(`Reading ${flags.metrics}`, measuredAt(flags.metrics, flags.over));
  const rateOptions = command.options.filter((option) => {
    const name = option.attributeName();
    return (RATES as readonly string[]).includes(name) && command.getOptionValueSource(name) === "cli";
  });
  if (measured !== undefined && rateOptions.length > 0)
    throw new UsageError(`--metrics already contains the workload: remove ${rateOptions.map(({ long }) => long).join(", ")}`);
  const usage = measured === undefined ? usageOf(counts, rates, clusters) : usageOfMeasured(counts, measured, clusters);
  const { coldStartMs, series } = counts;
  const month = (changed: Readonly<Record<string, string>>, of = usage) => {
    const stack = stackOf(changed);
    return monthOf(stack, madeOf(stack), of, { slower, coldStartMs, series }, known);
  };
  const idleMonth = (count: number, changed: Readonly<Record<string, string>>) => month(changed, usageOf(counts, NO_WORK, count));
  const report = {
    region: known.region,
    pricesOf: known.date,
    countsOf: counts.date,
    countedAt: counts.commit,
    slower,
    parameters,
    ...(measured === undefined ? { rates } : { measured }),
    items: month(parameters),
    residents: residentsOf(known),
    ...(clusters > 1 && { clusters: clustersReport(clusters, parameters, idleMonth, counts, known) }),
    savings: savingsOf(parameters, month),
  };
  process.stdout.write(flags.output ? objectText(reportAsObject(report), flags.output) : reportForPeople(report));
}

/** Reads metrics. For a file, the time of reading is the file's modification time. @throws {UsageError} */
async function measuredAt(where: string, overMs: number | undefined): Promise<Measured> {
  const hours = overMs === undefined ? undefined : overMs / 3_600_000;
  try {
    if (!/^https?:/.test(where)) return measuredIn(where, readFileSync(where, "utf8"), statSync(where).mtimeMs, hours);
    const answer = await fetch(where, { signal: AbortSignal.timeout(FETCH_MS_MAX) });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    return measuredIn(where, await answer.text(), Date.now(), hours);
  } catch (error) {
    // the message of fetch has no reason; its cause has it
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
  if (text.trim() === "") throw new UsageError(`${path} is empty: see cli/cost for examples`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${path} is not JSON: ${messageOf(error)}`);
  }
}

/** Reads parameters from a file. @throws {UsageError} unless the file consists of `name: value` lines */
function parametersIn(path: string): Readonly<Record<string, string>> {
  try {
    return parameterTexts(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
}

/** The parameters of a deployment of several clusters, which only `clusters=listed` can serve. @throws {UsageError} for another value */
function forSeveral(given: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const { clusters = "listed" } = given;
  if (clusters !== "listed") throw new UsageError(`--clusters above 1 needs clusters=listed, not clusters=${clusters}`);
  return { ...given, clusters };
}

function assignment(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw new UsageError(`--param takes name=value, not "${text}"`);
  return [text.slice(0, at), text.slice(at + 1)];
}
