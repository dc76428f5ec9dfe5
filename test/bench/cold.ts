/**
 * Cold starts of each function as Lambda starts it: wall time and CPU time from process start to the end of its first work
 * (test/support/cold-start.ts), compared with an empty Node.js process. Lambda's time for the sandbox and the download of the zip is not
 * included.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COLD_START_MAX } from "../../infra/build/budgets.ts";
import { bundleFunction } from "../../infra/build/bundle.ts";
import { startColdStage } from "../support/cold-start.ts";
import { ensureRedisServer, startRedis } from "../support/redis.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const ROUNDS = 5;
/** Runs last, because it abandons the cache. */
const LAST = "dead-deltas";

/** @throws {Error} if redis-server is unavailable */
export async function bench(): Promise<readonly BenchResult[]> {
  const reason = ensureRedisServer();
  if (reason !== undefined) throw new Error(reason);
  const out = await mkdtemp(join(tmpdir(), "deltaloop-cold-"));
  const redis = await startRedis();
  const stage = await startColdStage(redis.url);
  try {
    const bare = { ms: [] as number[], cpuMs: [] as number[] };
    const results: BenchResult[] = [];
    const names = Object.keys(COLD_START_MAX).toSorted((a, b) => Number(a === LAST) - Number(b === LAST));
    for (let round = 0; round < ROUNDS; round++) {
      const { ms, cpuMs } = await stage.bare();
      bare.ms.push(ms);
      bare.cpuMs.push(cpuMs);
    }
    const nothing = { ms: benchResult("a Node that does nothing", "ms", bare.ms), cpu: benchResult("CPU of it", "ms", bare.cpuMs) };
    for (const name of names) {
      const { bundle } = await bundleFunction(ROOT, name, out);
      const [times, cpu]: [number[], number[]] = [[], []];
      for (let round = 0; round < ROUNDS; round++) {
        const { ms, cpuMs } = await stage.start(name, bundle);
        times.push(ms);
        cpu.push(cpuMs);
      }
      results.push(
        benchResult(`cold start of ${name}, to its first work done`, "ms", times, {
          name: "a Node that does nothing",
          value: nothing.ms.value,
        }),
        benchResult(`CPU of a cold start of ${name}`, "ms", cpu, { name: "a Node that does nothing", value: nothing.cpu.value }),
      );
    }
    return [nothing.ms, nothing.cpu, ...results];
  } finally {
    await stage.close();
    await redis.stop();
    await rm(out, { recursive: true });
  }
}
