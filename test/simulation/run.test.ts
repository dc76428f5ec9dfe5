// Would catch: a seed that runs twice or not at all, a result that depends on the thread or on earlier seeds, and a run that cannot be
// resumed.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { runSeed } from "./levels.ts";
import type { SeedResult, SeedSettings } from "./levels.ts";
import { ProgressFile } from "./progress-file.ts";
import { runSeeds } from "./threads.ts";

const SETTINGS: SeedSettings = { level: "protocol", off: new Set(), fault: undefined, grows: false };
const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function progressFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "simulation-"));
  folders.push(folder);
  return join(folder, "progress.json");
}

function result(seed: number, ...violations: SeedResult["violations"]): SeedResult {
  return { seed, violations, stats: { faults: 2 } };
}

test("two threads run each seed once, with the same results as a single thread", async () => {
  const results: SeedResult[] = [];
  const seeds = [1, 2, 3, 4, 5, 6];
  const signal = new AbortController().signal;
  await runSeeds({ settings: SETTINGS, seeds, workers: 2, signal, onResult: (each) => results.push(each) });
  const alone: SeedResult[] = [];
  for (const seed of seeds) alone.push(await runSeed(SETTINGS, seed));
  expect(results.toSorted((a, b) => a.seed - b.seed)).toEqual(alone);
});

test("an abort ends the run after the seeds that are running", async () => {
  const stops = new AbortController();
  const seeds: number[] = [];
  const onResult = ({ seed }: SeedResult): void => {
    seeds.push(seed);
    stops.abort();
  };
  await runSeeds({ settings: SETTINGS, seeds: [1, 2, 3, 4, 5, 6], workers: 2, signal: stops.signal, onResult });
  expect(seeds.toSorted()).toEqual([1, 2]);
});

test("an interrupted run skips seeds that already ran, and repeats failed seeds on another commit only", () => {
  const file = progressFile();
  const isExcused = (rule: string): boolean => rule === "SC6loss";
  const first = new ProgressFile(file, "system", "a1");
  for (const seed of [1, 2, 3, 7]) first.add(result(seed), isExcused);
  first.add(result(5, { rule: "SC6loss", what: "" }), isExcused);
  first.add(result(6, { rule: "SC1", what: "at 2 s: a pod too many" }), isExcused);
  first.save();
  const on = (commit: string): readonly number[] => {
    const progress = new ProgressFile(file, "system", commit);
    return [1, 2, 3, 4, 5, 6, 7, 8].filter((seed) => !progress.has(seed));
  };
  expect(on("a1")).toEqual([4, 8]);
  expect(on("b2")).toEqual([4, 6, 8]);
  expect(() => new ProgressFile(file, "system --fault rewind", "a1")).toThrow(`is of "system"`);
  const second = new ProgressFile(file, "system", "b2");
  second.add(result(6), isExcused);
  second.save();
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({
    options: "system",
    passed: { a1: "1-3 5 7", b2: "6" },
    failed: [],
    totals: { faults: 14, "excused: SC6loss": 1 },
  });
});
