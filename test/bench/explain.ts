/**
 * The cost of a verdict: `explain` of the packed command (`npm run build` first) on a capture of 400 Deployments with 35,200 events, on one
 * with few events, and on captures of 1 GB, redacted and whole. Measures the time to the first line, the time to the end, and CPU time.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeLargeCapture } from "../support/large-capture.ts";
import type { LargeCaptureOptions } from "../support/large-capture.ts";
import { benchResult } from "./result.ts";
import type { BenchOptions, BenchResult } from "./result.ts";

const COMMAND = join(import.meta.dirname, "../../dist/cli/deltaloop.js");
const TICKS_PER_SECOND = 100;
const DAY_MS = 86_000_000;
/** Occasional rollouts: a pod changes every 43 seconds. */
const QUIET_EVENTS = 2_000;

interface Row {
  readonly name: string;
  readonly rounds: number;
  readonly capture: LargeCaptureOptions;
}

const ROWS: Readonly<Record<string, Row>> = {
  incident: { name: "35,200 events", rounds: 5, capture: { deployments: 400, pods: 8, stepMs: 20, events: 35_200 } },
  quiet: {
    name: "a quiet day",
    rounds: 5,
    capture: { deployments: 20, pods: 4, stepMs: DAY_MS / (QUIET_EVENTS + 200), events: QUIET_EVENTS },
  },
  gigabyte: { name: "1 GB", rounds: 1, capture: { deployments: 200, pods: 10, stepMs: 100, bytes: 1e9 } },
  whole: { name: "1 GB of whole objects", rounds: 1, capture: { deployments: 200, pods: 10, stepMs: 100, bytes: 1e9, whole: true } },
};

/** @throws {Error} if `npm run build` has not been run */
export async function bench({ rows = Object.keys(ROWS) }: BenchOptions = {}): Promise<readonly BenchResult[]> {
  if (!existsSync(COMMAND)) throw new Error(`${COMMAND} is missing: npm run build`);
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-bench-"));
  try {
    const results: BenchResult[] = [];
    for (const id of rows) {
      const row = ROWS[id];
      if (row === undefined) throw new Error(`no row ${id}; there are ${Object.keys(ROWS).join(", ")}`);
      const file = join(folder, `${id}.jsonl.gz`);
      await writeLargeCapture(file, row.capture);
      results.push(...(await explained(row, file)));
      rmSync(file);
    }
    return results;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function explained({ name, rounds }: Row, file: string): Promise<readonly BenchResult[]> {
  const [firsts, alls, cpus]: [number[], number[], number[]] = [[], [], []];
  for (let round = -1; round < rounds; round++) {
    const begun = performance.now();
    const before = cpuOfChildren();
    const child = spawn(process.execPath, [COMMAND, "explain", file, "deploy/web-7", "-n", "shop"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const closed = once(child, "close");
    await once(child.stdout, "data");
    const first = performance.now();
    child.stdout.resume();
    const [code] = (await closed) as unknown as readonly [number | null]; // the exit code is the first argument of a close event
    if (code !== 0) throw new Error(`explain of ${name} ended with ${code}`);
    if (round < 0) continue; // the first round fills the compile cache
    firsts.push((first - begun) / 1_000);
    alls.push((performance.now() - begun) / 1_000);
    cpus.push(cpuOfChildren() - before);
  }
  return [
    benchResult(`explain of ${name}: first line`, "s", firsts),
    benchResult(`explain of ${name}: all`, "s", alls),
    benchResult(`explain of ${name}: CPU`, "s", cpus),
  ];
}

/** Returns the CPU seconds of all child processes that have ended. */
function cpuOfChildren(): number {
  const fields = readFileSync("/proc/self/stat", "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
}
