/**
 * `npm run churn`: weeks of a node in minutes. Pods of all kinds come, crash, are evicted and deleted, images are pulled and collected, logs
 * grow and step aside, tokens are renewed, static pods come and go, the agent is restarted and killed; at the end nothing must be left.
 * Exits with code 1, and lists the leftovers, if there are any.
 *
 *     npm run churn                              our agent, 20 minutes
 *     npm run churn -- --minutes 3               shorter: tokens are not old enough to be renewed, and memory growth is not checked
 *     npm run churn -- --side kubelet            upstream's kubelet, which may leave something as well
 *     npm run churn -- --side both               the kubelet, then ours, and a table; code 1 where ours leaves what it should not
 *     npm run churn -- --seed 7                  other pods in another order
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
