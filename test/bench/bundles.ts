/**
 * The cost of a cold start: the size of each function's bundle, how much of it is our own code, and the time in which a fresh Node.js
 * process imports it. Each round is the best of five processes, because other load on the machine only adds time.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BUNDLE_KIB_MAX } from "../../infra/build/budgets.ts";
import { bundleFunction, functionNames } from "../../infra/build/bundle.ts";
import { importMs } from "../../infra/build/import-time.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const KIB = 1024;
const ROUNDS = 3;
/** The time that a cold start may wait for the import, on an idle machine. */
const IMPORT_GOAL = { name: "goal: 50 ms", value: 50 };

export async function bench(): Promise<readonly BenchResult[]> {
  const out = await mkdtemp(join(tmpdir(), "deltaloop-bundles-"));
  try {
    const results: BenchResult[] = [];
    for (const name of await functionNames(ROOT)) {
      const { bundle, bytes, ownBytes } = await bundleFunction(ROOT, name, out);
      const rounds: number[] = [];
      for (let round = 0; round < ROUNDS; round++) rounds.push(await importMs(bundle));
      results.push(
        benchResult(`bundle of ${name}`, "KiB", [bytes / KIB], { name: "its budget", value: BUNDLE_KIB_MAX[name] ?? 0 }),
        benchResult(`own code in ${name}`, "KiB", [ownBytes / KIB]),
        benchResult(`import of ${name}`, "ms", rounds, IMPORT_GOAL),
      );
    }
    return results;
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}
