/**
 * `npm run churn`: runs weeks of a node's work in minutes. Pods of all kinds are created, crash, are evicted and deleted; images are pulled
 * and collected; logs are rotated; tokens are refreshed; static pods are added and removed; the agent is restarted and killed. Exits with 1
 * and lists the leftovers if anything remains at the end.
 *
 *     npm run churn                              tests `deltaloop node` for 20 minutes
 *     npm run churn -- --minutes 3               too short for token refresh; memory growth is not checked
 *     npm run churn -- --side kubelet            tests upstream's kubelet, which may leave something, too
 *     npm run churn -- --side both               tests the kubelet, then ours; prints a table
 *     npm run churn -- --seed 7                  seed of the random pods and their order
 */
import { parseArgs } from "node:util";

import type { Side } from "../../harness/node-processes/compared-node.ts";
import { ensureContainerd } from "../../containerd/programs.ts";
import { startCluster } from "../../support/e2e.ts";
import { upstreamTests } from "../../upstream/program.ts";
import { churn } from "./churn.ts";
import type { Churned } from "./churn.ts";
import { tableOf } from "./verdict.ts";

const { values: flags } = parseArgs({
  options: {
    minutes: { type: "string", default: "20" },
    side: { type: "string", default: "ours" },
    seed: { type: "string", default: "1" },
  },
});
process.exitCode = await main();

async function main(): Promise<number> {
  const [minutes, seed, { side }] = [Number(flags.minutes), Number(flags.seed), flags];
  if (!isOneOf(side, ["ours", "kubelet", "both"]) || !(minutes > 0) || !Number.isInteger(seed)) {
    console.error("usage: npm run churn -- [--minutes N] [--side ours|kubelet|both] [--seed N]");
    return 2;
  }
  const missing = ensureContainerd();
  const upstream = missing === undefined ? await upstreamTests() : { missing };
  if ("missing" in upstream) {
    console.error(upstream.missing);
    return 2;
  }
  const run = async (one: Side): Promise<Churned> => {
    const cluster = await startCluster({ machines: "scheduler" });
    try {
      const churned = await churn(cluster, { side: one, minutes, seed, programs: upstream.programs });
      for (const what of churned.found) console.log(`FOUND  ${one}: ${what}`);
      console.log(`${one}: ${churned.found.length === 0 ? "no leftovers" : `${churned.found.length} found`}`);
      return churned;
    } finally {
      await cluster.stop();
    }
  };
  if (side !== "both") return (await run(side)).found.length === 0 ? 0 : 1;
  const [kubelet, ours] = [await run("kubelet"), await run("ours")];
  for (const line of tableOf(kubelet.figures, ours.figures)) console.log(line);
  return ours.found.length === 0 ? 0 : 1;
}

function isOneOf<T extends string>(text: string, of: readonly T[]): text is T {
  return of.some((one) => one === text);
}
