/**
 * `npm run prove-clusters`: many clusters behind one `dev --act --clusters --watchers 2`, for an hour, with churn in ten of them. Seven of
 * the ten fail one after the other, watchers and functions are killed, and Redis is restarted empty, repeatedly and in a random order. Prints
 * a line each minute, and the times per fault. Exits with 1 when a cluster does not converge to what its Deployments want, when that takes
 * longer than the documented bound, or when anything of one cluster is found in another; with the log lines that matter.
 *
 *     npm run prove-clusters                                            60 minutes, 200 API servers in memory, 3 real control planes
 *     npm run prove-clusters -- --minutes 5 --clusters 20 --real 1      each fault once; --real 0 needs no control plane
 *     npm run prove-clusters -- --only cloned                           the faults whose name contains this
 *     npm run prove-clusters -- --seed 7                                seed of the clusters and of the order of the faults
 */
import { parseArgs } from "node:util";

import { controlPlaneBinaries } from "../../envtest/binaries.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import { CHURNING } from "./faults.ts";
import { prove } from "./prove.ts";

const { values: flags } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    clusters: { type: "string", default: "200" },
    real: { type: "string", default: "3" },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
  },
});
process.exit(await main());

async function main(): Promise<number> {
  const [minutes, clusters, real, seed] = [flags.minutes, flags.clusters, flags.real, flags.seed].map(Number) as [
    number,
    number,
    number,
    number,
  ];
  if (!(minutes > 0) || !(clusters > CHURNING) || !Number.isInteger(clusters) || !(real >= 0) || !Number.isInteger(seed)) {
    console.error(`usage: npm run prove-clusters -- [--minutes N] [--clusters N, more than ${CHURNING}] [--real N] [--seed N]`);
    return 2;
  }
  const binaries = real === 0 ? {} : await controlPlaneBinaries();
  const missing = ensureRedisServer() ?? ("missing" in binaries ? binaries.missing : undefined);
  if (missing !== undefined) {
    console.error(missing);
    return 2;
  }
  const found = await prove({ minutes, clusters, real, seed, only: flags.only });
  for (const line of found) console.log(`FOUND  ${line}`);
  console.log(found.length === 0 ? "every cluster converged, and nothing crossed" : `${found.length} found`);
  return found.length === 0 ? 0 : 1;
}
