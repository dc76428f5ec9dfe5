/**
 * `npm run bench [-- --json] [-- --only NAME [--rows A,B] [--rounds N] [--profile FOLDER] [--before FILE] [--pieces]]…`: runs the
 * benchmarks one after the other, each in a separate process with its own heap and compiled code. Prints a table; with --json one JSON
 * object on standard output (name → value, unit, n, spread, ratio, against) and everything else on standard error.
 *
 * The comment at the head of a benchmark's file describes what it measures, and how.
 */
import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { othersAtWork } from "./others.ts";
import type { BenchOptions, BenchResult } from "./result.ts";
import { messageOf } from "../../shared/kube/objects/errors.ts";

interface BenchModule {
  readonly bench: (options?: BenchOptions) => readonly BenchResult[] | Promise<readonly BenchResult[]>;
  /** A table of its own, printed when only this benchmark runs. */
  readonly table?: (results: readonly BenchResult[]) => string;
}

const BENCHES: Readonly<Record<string, () => Promise<BenchModule>>> = {
  strip: () => import("./strip.ts"),
  "watch-lines": () => import("./watch-lines.ts"),
  http: () => import("./http.ts"),
  "applier-store": () => import("./applier-store.ts"),
  "applier-messages": () => import("./applier-messages.ts"),
  bundles: () => import("./bundles.ts"),
  cold: () => import("./cold.ts"),
  "event-to-write": () => import("./event-to-write.ts"),
  rollout: () => import("./rollout.ts"),
  "thousand-pods": () => import("./thousand-pods.ts"),
  flood: () => import("./flood.ts"),
  deltas: () => import("./deltas.ts"),
  large: () => import("./large.ts"),
  clusters: () => import("./clusters/clusters.ts"),
  crowd: () => import("./crowd.ts"),
  node: () => import("./node.ts"),
  own: () => import("./own.ts"),
  replay: () => import("./replay.ts"),
  "replay-memory": () => import("./replay-memory.ts"),
  capture: () => import("./capture.ts"),
  "capture-command": () => import("./capture-command.ts"),
  explain: () => import("./explain.ts"),
  side: () => import("./side/side.ts"),
  timeline: () => import("./timeline.ts"),
};

const BENCH_MS_MAX = 25 * 60_000;

const { values } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    only: { type: "string", multiple: true },
    rows: { type: "string" },
    rounds: { type: "string" },
    profile: { type: "string" },
    before: { type: "string" },
    pieces: { type: "boolean" },
  },
});
process.exitCode = await main(values.only ?? Object.keys(BENCHES), values.json);

async function main(names: readonly string[], json: boolean): Promise<number> {
  const unknown = names.filter((name) => BENCHES[name] === undefined);
  if (unknown.length > 0) {
    console.error(`no bench ${unknown.join(", ")}; there are ${Object.keys(BENCHES).join(", ")}`);
    return 2;
  }
  const results: BenchResult[] = [];
  const failed: string[] = [];
  for (const name of names) {
    try {
      results.push(...(names.length === 1 ? await runHere(name) : await runApart(name)));
    } catch (error) {
      failed.push(name);
      console.error(`${name} FAILED: ${messageOf(error)}`);
    }
  }
  if (json) process.stdout.write(`${JSON.stringify(Object.fromEntries(results.map(({ name, ...rest }) => [name, rest])))}\n`);
  else if (results.length > 0) process.stdout.write(((names.length === 1 && (await BENCHES[names[0] ?? ""]?.())?.table) || table)(results));
  return failed.length > 0 ? 1 : 0;
}

async function runHere(name: string): Promise<readonly BenchResult[]> {
  console.error(`${name}: ${await othersAtWork()}`);
  const module = await BENCHES[name]?.();
  const { rows, rounds, profile, before, pieces } = values;
  const options = {
    rows: rows?.split(","),
    rounds: rounds === undefined ? undefined : Number(rounds),
    profiles: profile && resolve(profile),
    before: before && resolve(before),
    pieces,
  };
  return (await module?.bench(options)) ?? [];
}

async function runApart(name: string): Promise<readonly BenchResult[]> {
  const child = spawn(process.execPath, [import.meta.filename, "--json", "--only", name], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: BENCH_MS_MAX,
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  if (code !== 0) throw new Error(`its process ended with code ${code}`);
  const parsed = JSON.parse(text) as Readonly<Record<string, Omit<BenchResult, "name">>>; // printed by main() above
  return Object.entries(parsed).map(([title, rest]) => ({ name: title, ...rest }));
}

function table(results: readonly BenchResult[]): string {
  const rows = results.map(({ name, value, unit, n, spread, ratio, against }) => [
    name,
    number(value),
    unit,
    String(n),
    `${number(spread[0])} – ${number(spread[1])}`,
    ratio === undefined ? "" : `${ratio.toFixed(2)}× ${against ?? ""}`,
  ]);
  const lines = [["bench", "median", "unit", "n", "spread", "ratio"], ...rows];
  const widths = lines.reduce<number[]>((most, cells) => cells.map((cell, i) => Math.max(most[i] ?? 0, cell.length)), []);
  return lines
    .map(
      (cells) =>
        `${cells.map((cell, i) => (i === 1 || i === 3 ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))).join("  ")}`.trimEnd() +
        "\n",
    )
    .join("");
}

function number(value: number): string {
  return value < 10 ? value.toFixed(2) : value < 1_000 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}
