/**
 * `npm run check`, `npm test` and `npm run test:e2e`: prints one line per step with its time, the output of a failed step, one
 * reason for each part that could not run, and at the end `N passed, N failed, N skipped`.
 *
 * check format, lint, types, architecture, unused code, and every test that needs only this checkout
 * e2e tests against real components; installs missing programs where possible
 * endure tests of ten minutes and more; part of no other command
 * all check, then the adapters' conformance and every case of the long tests, the compiler, then e2e
 */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, relative } from "node:path";

import { TALLY_FILE } from "./tally-reporter.ts";
import type { Tally } from "./tally-reporter.ts";

type Environment = Readonly<Record<string, string>>;

interface Step {
  readonly name: string;
  /** Prints the time of each test file, because they are slow. */
  readonly tellsTimes?: true;
  /** Its test files compete for the machine: up to REPEATED_MAX failed files run again alone, and the second result counts. */
  readonly repeats?: true;
  /** Its measurements are printed. */
  readonly tellsFigures?: true;
  run(files?: readonly string[]): Promise<Result>;
}

interface Result {
  readonly tally: Tally;
  readonly output: string;
}

const ROOT = join(import.meta.dirname, "..");
const BIN = join(ROOT, "node_modules", ".bin");
/** A compile cache, so that the many Node.js processes of tests do not compile the same source again. */
const COMPILED = { NODE_COMPILE_CACHE: join(ROOT, "node_modules", ".cache", "compiled") };
/** For the linter, whose type checker is written in Go: a fifth less processor time for a tenth more memory. */
const SELDOM_COLLECTED = { GOGC: "400" };
/** One step runs the tests with two workers; the other steps run beside it, one at a time. */
const PARALLEL = 2;
/** More failed files than this are not flaky. */
const REPEATED_MAX = 2;

const CHECK: readonly Step[] = [
  tests("tests", ["check"], ["unit", "tooling", "conformance", "golden", "examples", "attacks", "simulation"]),
  // Types are checked by TypeScript 7, which comes with the linter; `npm test` also runs the compiler itself.
  command("types, lint", ["oxlint", "--type-aware", "--type-check", "--deny-warnings"], SELDOM_COLLECTED),
  command("architecture", ["node", "infra/build/architecture.ts"]),
  command("unused code", ["knip", "--no-config-hints"]),
  command("format", ["oxfmt", "--check"]),
];
const ADAPTERS: readonly Step[] = [
  tests("adapters", ["adapters", "long"], ["unit", "conformance", "attacks", "simulation", "differential"]),
  command("types", ["tsc", "--noEmit"]),
  command("types of the page", ["tsc", "--noEmit", "-p", "shared/timeline/page"]),
];
const E2E: readonly Step[] = [{ ...sideBySide("e2e", ["e2e-controllers", "e2e-nodes"]), tellsTimes: true, repeats: true }];
const ENDURE: readonly Step[] = [{ ...tests("endurance", ["endurance"]), tellsFigures: true }];

/** A command counts as one test: passed or failed. */
function command(name: string, [program, ...parameters]: readonly [string, ...string[]], environment: Environment = {}): Step {
  return {
    name,
    async run() {
      const { code, output } = await execute(program, parameters, environment);
      return { tally: { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: [] }, output };
    },
  };
}

/** Runs Vitest projects; at least one test of each of `folders` must have run. */
function tests(name: string, projects: readonly string[], folders: readonly string[] = projects): Step {
  return {
    name,
    async run(files = []) {
      const scratch = await mkdtemp(join(tmpdir(), "deltaloop-tests-"));
      const file = join(scratch, "tally.json");
      try {
        const chosen = projects.flatMap((project) => ["--project", project]);
        const parameters = ["run", ...chosen, ...files, "--reporter=default", "--reporter=./test/tally-reporter.ts"];
        const { code, output } = await execute("vitest", parameters, { [TALLY_FILE]: file });
        const tally = await readTally(file);
        // Any exit code of vitest other than 0 is a failure.
        const failed = code !== 0 && tally.failed === 0 ? 1 : tally.failed;
        const empty = files.length > 0 ? [] : emptyFolders(folders, tally);
        return {
          tally: { ...tally, failed: failed + empty.length },
          output: output + empty.map((folder) => `\nno test ran in ${folder}`).join(""),
        };
      } finally {
        await rm(scratch, { recursive: true });
      }
    },
  };
}

/** Like `tests` for the project `name`, in two processes: each runs a project with half of the files. */
function sideBySide(name: string, halves: readonly string[]): Step {
  return {
    name,
    async run(files) {
      if (files !== undefined) return await tests(name, [name]).run(files);
      const results = await Promise.all(halves.map(async (half) => await tests(half, [half], [name]).run()));
      const tallies = results.map(({ tally }) => tally);
      return {
        tally: { ...sum(tallies), files: tallies.flatMap((tally) => tally.files ?? []) },
        output: results.map(({ output }) => output).join("\n"),
      };
    },
  };
}

/** Without a tally file, the run did not finish. */
async function readTally(file: string): Promise<Tally> {
  try {
    // Written by tally-reporter.ts just now.
    return JSON.parse(await readFile(file, "utf8")) as Tally;
  } catch {
    return { passed: 0, failed: 1, skipped: [], files: [] };
  }
}

/** Folders without any test: a check that runs no file must fail. */
function emptyFolders(folders: readonly string[], { files = [] }: Tally): readonly string[] {
  return folders.filter((folder) => !files.some(({ path }) => path.includes(folder === "examples" ? "/examples/" : `/test/${folder}/`)));
}

async function execute(
  program: string,
  parameters: readonly string[],
  environment: Environment,
): Promise<{ readonly code: number; readonly output: string }> {
  const child = spawn(program, parameters, {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...COMPILED, ...environment, PATH: `${BIN}${delimiter}${process.env["PATH"] ?? ""}`, NO_COLOR: "1" },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

/** Runs the steps, up to `parallel` at a time, and prints each as it ends. */
async function runSteps(steps: readonly Step[], parallel: number): Promise<Tally> {
  const waiting = [...steps];
  const tallies: Tally[] = [];
  const work = async (): Promise<void> => {
    for (let step = waiting.shift(); step !== undefined; step = waiting.shift()) tallies.push(await runStep(step));
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return sum(tallies);
}

async function runStep(step: Step): Promise<Tally> {
  const startedAt = performance.now();
  const { tally, output } = step.repeats ? await runAndRepeat(step) : await step.run();
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const counts = tally.files === undefined ? "" : `  ${describe(tally)}`;
  console.log(`${tally.failed === 0 ? "ok  " : "FAIL"}  ${step.name.padEnd(14)}${seconds.padStart(6)} s${counts}`);
  if (tally.failed > 0) {
    // Names first, so that the start of a long output shows what failed.
    for (const line of failedNames(output)) console.log(`      failed: ${line}`);
    console.log(`\n${errorsFirst(withoutPassed(output))}\n`);
  }
  if (step.tellsFigures) for (const [figure] of output.matchAll(/^ *measured: .*$/gm)) console.log(figure);
  if (step.tellsTimes)
    for (const { path, ms } of (tally.files ?? []).toSorted((a, b) => b.ms - a.ms))
      console.log(`      ${(ms / 1000).toFixed(1).padStart(6)} s  ${relative(ROOT, path)}`);
  for (const [why, skipped] of Map.groupBy(tally.skipped, (test) => test.why)) console.log(`      ${skipped.length} skipped: ${why}`);
  return tally;
}

/** Runs a step and repeats its failed files alone. The first failure is printed even if the file then passes. */
async function runAndRepeat(step: Step): Promise<Result> {
  let { tally, output } = await step.run();
  const failed = (tally.files ?? []).filter((file) => file.failed > 0);
  if (failed.length > REPEATED_MAX) return { tally, output };
  for (const line of failed.length > 0 ? failedNames(output) : [])
    console.log(`!!!!  failed in parallel with other files, repeated alone: ${line}`);
  for (const file of failed) {
    const again = await step.run([file.path]);
    const skipped = [...tally.skipped.filter(({ path }) => path !== file.path), ...again.tally.skipped];
    const others = { ...tally, passed: tally.passed - file.passed, failed: tally.failed - file.failed };
    tally = { ...others, passed: others.passed + again.tally.passed, failed: others.failed + again.tally.failed, skipped };
    output += again.output;
  }
  return { tally, output };
}

/** `file > suite > test: the first line of its error`, as vitest's summary has them. */
function failedNames(output: string): readonly string[] {
  // Tests with the same failure are listed above one error.
  return [...output.matchAll(/((?:^ FAIL {1,2}.+\n)+)(.*)$/gm)].flatMap(([, names = "", error = ""]) =>
    [...names.matchAll(/^ FAIL {1,2}(.+)$/gm)].map(([, name = ""]) => `${name}: ${error}`),
  );
}

/** Omits passed tests and measurements. */
function withoutPassed(output: string): string {
  return output.replace(/^ *(?:✓|measured:) .*\n/gm, "").trim();
}

/** The errors with their diffs first, before the tests' own output, which is much longer. */
function errorsFirst(output: string): string {
  const from = output.search(/^⎯+ Failed (?:Suites|Tests) \d+ ⎯+$/m);
  return from <= 0 ? output : `${output.slice(from).trimEnd()}\n\nwhat was said on the way:\n\n${output.slice(0, from).trimEnd()}`;
}

/** Installs what e2e needs where this machine allows it; reasons why a part cannot run are printed before everything else. */
async function prepare(): Promise<void> {
  const [{ ensureRedisServer }, { controlPlaneBinaries }, { ensureContainerd }, { ensureChromium }, { upstreamTests }] = await Promise.all([
    import("./support/redis.ts"),
    import("./envtest/binaries.ts"),
    import("./containerd/programs.ts"),
    import("./support/chromium.ts"),
    import("./upstream/program.ts"),
  ]);
  const redis = ensureRedisServer();
  if (redis !== undefined) console.log(`!!!!  cannot run against real Redis: ${redis}`);
  const containerd = ensureContainerd();
  if (containerd !== undefined) console.log(`!!!!  cannot run real containers: ${containerd}`);
  const browser = ensureChromium();
  if (browser !== undefined) console.log(`!!!!  cannot show pages in a browser: ${browser}`);
  console.log("      control plane: looking for its binaries, or building them once (about 5 minutes)");
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) console.log(`!!!!  cannot run against a real API server: ${binaries.missing}`);
  const upstream = await upstreamTests();
  if ("missing" in upstream) console.log(`!!!!  cannot run upstream's own tests: ${upstream.missing}`);
}

function sum(tallies: readonly Tally[]): Tally {
  return {
    passed: tallies.reduce((total, { passed }) => total + passed, 0),
    failed: tallies.reduce((total, { failed }) => total + failed, 0),
    skipped: tallies.flatMap(({ skipped }) => skipped),
  };
}

function describe({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed, ${skipped.length} skipped`;
}

async function main(what: string | undefined): Promise<void> {
  const tallies: Tally[] = [];
  switch (what) {
    case "check":
      tallies.push(await runSteps(CHECK, PARALLEL));
      break;
    case "e2e":
      await prepare();
      tallies.push(await runSteps(E2E, 1));
      break;
    case "endure":
      await prepare();
      tallies.push(await runSteps(ENDURE, 1));
      break;
    case "all":
      tallies.push(await runSteps(CHECK, PARALLEL));
      await prepare();
      tallies.push(await runSteps([...ADAPTERS, ...E2E], 1));
      break;
    default:
      console.error("usage: node test/run.ts check|e2e|endure|all");
      process.exitCode = 2;
      return;
  }
  const total = sum(tallies);
  console.log(describe(total));
  if (total.failed > 0) process.exitCode = 1;
}

await main(process.argv[2]);
