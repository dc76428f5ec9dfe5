/**
 * `npm run nodeconf`: upstream's node tests against `deltaloop node` as the only node of a real control plane, with deltaloop's controllers
 * instead of upstream's. Prints a table and exits with 1 if a test failed that tests.ts does not list.
 *
 *     npm run nodeconf                       tests `deltaloop node`
 *     npm run nodeconf -- --baseline         tests upstream's kubelet and controllers first, to compare
 *     npm run nodeconf -- --core             runs only the tests of test/e2e/node-conformance.test.ts
 *     npm run nodeconf -- --cluster          runs only the tests that upstream's node suite does not contain
 *     npm run nodeconf -- --only subpath     runs only tests whose name contains the text; repeatable
 */
import { parseArgs } from "node:util";

import { ensureContainerd } from "../containerd/programs.ts";
import { startCluster, startDev } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { TestOutcome, UpstreamTests } from "../upstream/program.ts";
import { startJudgedNode } from "../harness/node-processes/compared-node.ts";
import type { Side } from "../harness/node-processes/compared-node.ts";
import { coreOf, hasFailed, isOfClusterSuite, nodeTests, passableOf, runTests } from "./tests.ts";

const { values: flags } = parseArgs({
  options: {
    baseline: { type: "boolean", default: false },
    core: { type: "boolean", default: false },
    cluster: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [""] },
  },
});
const WIDTH = 20;
process.exitCode = await main();

async function main(): Promise<number> {
  const missing = ensureContainerd();
  const upstream = missing === undefined ? await upstreamTests() : { missing };
  if ("missing" in upstream) {
    console.error(upstream.missing);
    return 2;
  }
  const all = await nodeTests(upstream);
  const names = passableOf(flags.core ? coreOf(all) : all, flags.only).filter(
    (name) => flags.only.some((text) => name.includes(text)) && (!flags.cluster || isOfClusterSuite(name)),
  );
  if (names.length === 0) {
    console.error(`no test's name contains ${flags.only.join(" or ")}`);
    return 2;
  }
  const sides: readonly Side[] = flags.baseline ? ["kubelet", "ours"] : ["ours"];
  const columns: (readonly TestOutcome[])[] = [];
  for (const side of sides) columns.push(await judge(upstream, side, names));
  for (const name of names.toSorted()) {
    const told = columns.map((outcomes) => state(outcomes.find((outcome) => outcome.name === name)));
    process.stdout.write(`${told.join("  ")}  ${name}\n`);
  }
  process.stdout.write(`${sides.map((side) => side.padEnd(WIDTH)).join("  ")}\n`);
  return columns.at(-1)?.some(hasFailed) === true ? 1 : 0;
}

async function judge(upstream: UpstreamTests, side: Side, names: readonly string[]): Promise<readonly TestOutcome[]> {
  const cluster = await startCluster({ machines: "scheduler" });
  try {
    const endLoops = await startLoops(cluster, side);
    const node = await startJudgedNode(cluster, side, upstream);
    const startedAt = performance.now();
    try {
      const outcomes = await runTests(upstream, names, {
        kubeconfig: cluster.plane.adminKubeconfig,
        ended: ({ name, state: how, seconds, told }) =>
          console.error(`with ${side} ${how} ${seconds.toFixed(1)} s ${name}${told === undefined ? "" : `\n${told}\n`}`),
      });
      const passed = outcomes.filter((outcome) => outcome.state === "passed").length;
      const seconds = Math.round((performance.now() - startedAt) / 1000);
      console.error(`with ${side}: ${passed} of ${names.length} passed in ${seconds} s`);
      return outcomes;
    } finally {
      await node.stop();
      await endLoops();
    }
  } finally {
    await cluster.stop();
  }
}

/**
 * Starts the controllers of Deployments, ReplicaSets and ReplicationControllers, which the cluster's controller manager does not run.
 * @returns a function that stops them
 */
async function startLoops(cluster: Cluster, side: Side): Promise<() => Promise<unknown>> {
  if (side === "ours") return (await startDev(cluster)).stop;
  const { plane } = cluster;
  const identity = await plane.clientCertificate("system:kube-controller-manager", []);
  return await plane.startWorkloadLoops({ server: plane.url, identity });
}

/** Formats an outcome: `passed 12.3 s`. */
function state(outcome: TestOutcome | undefined): string {
  return `${(outcome?.state ?? "").padEnd(11)} ${(outcome?.seconds ?? 0).toFixed(1).padStart(6)} s`.padEnd(WIDTH);
}
