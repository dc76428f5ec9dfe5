/**
 * `npm run own-crashes [-- --runs N] [--seed N] [--kills N] [--only PART]…`: crash safety of user controllers on a real API server. Kills
 * each of the five examples before and after each of its calls and drops each response. Then runs N random trials (default 200), empties
 * the Store, and delays the watch by a minute. Finally kills `deltaloop dev FILE --act` or its function host N times (default 100), and N
 * times a watcher with its functions, the function host or Redis. Exits with 1 if a trial fails.
 */
import { parseArgs } from "node:util";
import { contestedTrials, everyPoint, plainTrials, randomTrials } from "../harness/own/matrix.ts";
import { killDev, killOnRedis } from "../harness/own/kills.ts";
import { prepareCluster, runTrials } from "../harness/own/trials.ts";
import type { Outcome } from "../harness/own/trials.ts";
import { startCluster } from "../support/e2e.ts";

const AT_ONCE = 100;
const LATE_MS = 60_000;
const EMPTIED_MS = [500, 2_000];

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    kills: { type: "string", default: "100" },
    only: { type: "string", multiple: true, default: ["calls", "others", "random", "emptied", "late", "kills"] },
  },
});
const [runs, seed, kills] = [values.runs, values.seed, values.kills].map(Number) as [number, number, number];
const cluster = await startCluster({ machines: false, garbageCollection: false });
let isWrong = false;
const print = (what: string, { failures, trials, faultsOccurred }: Outcome, startedMs: number): void => {
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  process.stdout.write(`${what}: ${trials} runs, ${faultsOccurred} faults, ${failures.length} ended differently, ${seconds} s\n`);
  for (const failure of failures) process.stdout.write(`  ${failure}\n`);
  isWrong ||= failures.length > 0;
};
const play = async (what: string, options: Parameters<typeof runTrials>[1]): Promise<Outcome> => {
  const startedMs = performance.now();
  const outcome = await runTrials(cluster, options);
  print(what, outcome, startedMs);
  return outcome;
};
try {
  await prepareCluster(cluster);
  const plain = await play("without faults", { trials: plainTrials() });
  const parts: Readonly<Record<string, () => Promise<unknown>>> = {
    calls: () => play("every call", { trials: everyPoint(plain) }),
    others: () => play("other writers", { trials: contestedTrials("other") }),
    random: async () => {
      const random = randomTrials(plain, runs, seed);
      for (let from = 0; from < random.length; from += AT_ONCE)
        await play(`random, seed ${seed}, from ${from}`, { trials: random.slice(from, from + AT_ONCE) });
    },
    emptied: () => play("Store emptied", { trials: [...plainTrials("emptied"), ...contestedTrials("emptied")], lossesMs: EMPTIED_MS }),
    late: () => play("watch a minute late", { trials: [...plainTrials("late"), ...contestedTrials("late")], lateMs: LATE_MS }),
    kills: async () => {
      for (const [what, killed] of [
        ["killed −9, dev", killDev],
        ["killed −9, on Redis", killOnRedis],
      ] as const) {
        const startedMs = performance.now();
        print(what, await killed(cluster, kills, seed), startedMs);
      }
    },
  };
  for (const name of values.only) await (parts[name] ?? unknown(name))();
} finally {
  await cluster.stop();
}
process.exitCode = isWrong ? 1 : 0;

function unknown(name: string): never {
  throw new Error(`no part ${name}; there are calls, others, random, emptied, late and kills`);
}
