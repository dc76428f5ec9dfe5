/**
 * `npm run sim -- [--seed n | --seeds a-b]`: the simulation, seed by seed.
 *
 *     --node, --crashes, --protocol a node agent; functions that are killed during a Deployment's history; only the memory Store
 *     --directed  chosen faults in the recorded scenarios: plans 1 to 4000
 *     --own     user controllers; with --plants: which seed and which everyCrash test detect each planted mistake
 *     --clusters several clusters of one deployment
 *     --fault flush|damage|restore|rewind|clock|clone|etcd|upkeep|stops|skew|hostile|keys|full|builds|big|stale    injects this fault in every run
 *     --grows                           epochs begin with one lane per resource, which grow
 *     --hunt 10m, --schedule name       searches protocol schedules for rare pairs of a fault and a step; runs one of such a search
 *     --off rule,rule                   disables these rules; --protocol --rules: prints the first seed that fails without each
 *     --workers n                       threads, one per core by default
 *     --resume file                     skips the seeds that have passed according to the file, and updates it
 *     --stop, --stats, --trace          ends after a failure; sums and medians; prints each step
 *
 * The first Ctrl-C ends the run after the current seeds, the second one immediately.
 */
import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { duration } from "../../shared/base/usage-error.ts";
import { isKnown } from "./checks.ts";
import { LEVELS } from "./levels.ts";
import type { SeedResult } from "./levels.ts";
import { CHOSEN_FAULTS } from "./losses.ts";
import { ProgressFile } from "./progress-file.ts";
import { isRule, RULES } from "./rules.ts";
import { runSeeds } from "./threads.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    trace: { type: "boolean", default: false },
    off: { type: "string", default: "" },
    fault: { type: "string" },
    grows: { type: "boolean", default: false },
    stop: { type: "boolean", default: false },
    stats: { type: "boolean", default: false },
    node: { type: "boolean", default: false },
    crashes: { type: "boolean", default: false },
    protocol: { type: "boolean", default: false },
    directed: { type: "boolean", default: false },
    rules: { type: "boolean", default: false },
    own: { type: "boolean", default: false },
    clusters: { type: "boolean", default: false },
    plants: { type: "boolean", default: false },
    hunt: { type: "string" },
    schedule: { type: "string" },
    workers: { type: "string", default: String(availableParallelism()) },
    resume: { type: "string" },
  },
});
const RULE_SEEDS = 2_000;
const SAVE_EVERY_MS = 5_000;
const REPORT_EVERY_MS = 30_000;
const LINES_MAX = 6;
/** Maximum number of described failures; all failed seeds are listed. */
const DESCRIBED_MAX = 3;

// Only protocol schedules are searched for rare pairs.
const searched = values.hunt ?? values.schedule;
const level = LEVELS.find((each) => each !== "system" && values[each]) ?? (searched === undefined ? "system" : "protocol");
if (searched !== undefined && level !== "protocol") throw new Error(`--hunt and --schedule are of --protocol, not --${level}`);
const names = values.off.split(",").filter((name) => name !== "");
const unknown = names.filter((name) => !isRule(name));
if (unknown.length > 0) throw new Error(`no such rule: ${unknown.join(", ")}; there are ${RULES.join(", ")}`);
const fault = CHOSEN_FAULTS.find((each) => each === values.fault);
if (values.fault !== undefined && !fault) throw new Error(`no such fault: ${values.fault}; there are ${CHOSEN_FAULTS.join(", ")}`);
const settings = { level, off: new Set(names.filter(isRule)), fault, grows: values.grows };
const { first, last } = rangeOf(values);

if (level === "protocol" && values.rules) {
  const { printRules } = await import("./protocol/rules-table.ts");
  await printRules(values.seeds === undefined ? RULE_SEEDS : last, console.log);
  process.exit();
}

if (level === "protocol" && values.hunt !== undefined) {
  const { printHunt } = await import("./protocol/print-hunt.ts");
  process.exit((await printHunt({ forMs: duration("--hunt")(values.hunt), off: settings.off, commit: commit() }, console.log)) ? 0 : 1);
}

if (level === "protocol" && values.schedule !== undefined) {
  const { printSchedule } = await import("./protocol/print-hunt.ts");
  process.exit((await printSchedule(values.schedule, settings.off, console.log)) ? 0 : 1);
}

if (level === "own" && values.plants) {
  const { findPlants } = await import("./own/find-plants.ts");
  process.exit((await findPlants(values.seeds === undefined ? RULE_SEEDS : last, console.log)) ? 0 : 1);
}

const options = `${level}${fault ? ` --fault ${fault}` : ""}${values.grows ? " --grows" : ""}${names.length > 0 ? ` --off ${names.join(",")}` : ""}`;
const progress = values.resume === undefined ? undefined : new ProgressFile(values.resume, options, commit());
const seeds = Array.from({ length: last - first + 1 }, (_, i) => first + i).filter((seed) => progress?.has(seed) !== true);
const counts = new Map<string, { count: number; first: number }>();
const samples = new Map<string, number[]>();
const stops = new AbortController();
const startedAt = performance.now();
const failed: number[] = [];
let [done, savedAt, reportedAt] = [0, startedAt, startedAt];

for (const [name, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const) {
  process.on(name, () => {
    if (stops.signal.aborted) process.exit(code);
    process.exitCode = code;
    stops.abort();
    process.stderr.write("ends after the seeds that are running\n");
  });
}

await runSeeds({
  settings,
  seeds,
  workers: values.trace ? 1 : Math.max(1, Math.min(Number(values.workers), seeds.length)),
  signal: stops.signal,
  onResult,
  ...(values.trace && { trace: console.log }),
});
progress?.save();
summarise();
// Calls of killed processes never end, so the process would not exit by itself.
process.exit(process.exitCode ?? (failed.length > 0 ? 1 : 0));

function onResult(result: SeedResult): void {
  const { seed, mix, violations, lines, stats } = result;
  done++;
  progress?.add(result, isKnown);
  for (const { rule } of violations) {
    const known = counts.get(rule);
    counts.set(rule, { count: (known?.count ?? 0) + 1, first: Math.min(known?.first ?? seed, seed) });
  }
  for (const [name, value] of Object.entries(stats)) {
    const known = samples.get(name);
    if (known) known.push(value);
    else samples.set(name, [value]);
  }
  const bad = violations.filter(({ rule }) => !isKnown(rule));
  if (bad.length > 0) {
    failed.push(seed);
    const described = lines && failed.length <= DESCRIBED_MAX ? lines : bad.slice(0, LINES_MAX).map(({ rule, what }) => `${rule} ${what}`);
    console.log(`seed ${seed}${mix === undefined ? "" : ` (${mix})`}:`);
    for (const line of described) console.log(`  ${line}`);
    if (values.stop) stops.abort();
  }
  const now = performance.now();
  if (now - savedAt > SAVE_EVERY_MS) {
    progress?.save();
    savedAt = now;
  }
  if (now - reportedAt < REPORT_EVERY_MS || done === seeds.length) return;
  reportedAt = now;
  const minutesLeft = (((now - startedAt) / done) * (seeds.length - done)) / 60_000;
  process.stderr.write(`${done} of ${seeds.length} seeds, ${failed.length} failed, ${minutesLeft.toFixed(0)} minutes left\n`);
}

function summarise(): void {
  const seconds = (performance.now() - startedAt) / 1_000;
  const { user, system } = process.cpuUsage();
  const perSeed = `${(done / seconds).toFixed(1)} seeds/s, ${((user + system) / 1e6 / done).toFixed(2)} CPU s each`;
  console.log(`${done} seeds, ${failed.length} failed, ${seconds.toFixed(1)} s: ${perSeed}`);
  for (const [rule, { count, first: seed }] of counts) console.log(`  ${rule}: ${count}, first at seed ${seed}`);
  for (const line of progress?.summary() ?? []) console.log(`  ${line}`);
  if (!values.stats) return;
  const rows = [...samples].map(([name, each]) => ({ name, sum: each.reduce((sum, one) => sum + one, 0), median: medianOf(each) }));
  for (const { name, sum, median } of rows.toSorted((a, b) => b.sum - a.sum))
    console.log(`  ${String(sum).padStart(9)}  ${name}${median > 0 ? `, median ${median}` : ""}`);
}

/** The median over all seeds that have the count. */
function medianOf(values: readonly number[]): number {
  const all = [...values, ...Array.from({ length: done - values.length }, () => 0)].toSorted((a, b) => a - b);
  return all[all.length >> 1] ?? 0;
}

function rangeOf({ seed, seeds: range }: { readonly seed?: string | undefined; readonly seeds?: string | undefined }): {
  readonly first: number;
  readonly last: number;
} {
  if (range === undefined) return { first: Number(seed ?? 1), last: Number(seed ?? 1) };
  const [a = 1, b] = range.split("-").map(Number);
  return b === undefined ? { first: 1, last: a } : { first: a, last: b };
}

function commit(): string {
  return execFileSync("git", ["describe", "--always", "--dirty", "--exclude=*"], { cwd: import.meta.dirname, encoding: "utf8" }).trim();
}
