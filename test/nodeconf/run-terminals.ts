/**
 * `npm run terminals`: `kubectl run`, `attach`, `exec` and `debug` with and without a terminal, with upstream's kubelet and then with
 * `deltaloop node` on one containerd. Prints the cases with equal output, both outputs of the others, and exits with 1 if there are others.
 * Takes about two minutes.
 *
 *     npm run terminals                    runs all cases
 *     npm run terminals -- --only debug    runs the cases whose name contains the text; repeatable
 */
import { isDeepStrictEqual, parseArgs } from "node:util";

import { messageOf } from "../../shared/kube/objects/errors.ts";
import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { ensureContainerd } from "../containerd/programs.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { UpstreamTests } from "../upstream/program.ts";
import { startAgent } from "../harness/node-processes/compared-node.ts";
import type { Side } from "../harness/node-processes/compared-node.ts";
import { terminalCases } from "./terminals.ts";

/**
 * Prefix that the API server adds to a node's error if it proxies to the node over SPDY. It does so with every kubelet that does not
 * declare ExtendWebSocketsToKubelet, which `deltaloop node` does not.
 */
const THROUGH_SPDY = "Internal error occurred: unable to upgrade connection";

type Outcomes = Readonly<Record<string, unknown>>;

const { values: flags } = parseArgs({ options: { only: { type: "string", multiple: true, default: [""] } } });
process.exitCode = await main();

async function main(): Promise<number> {
  const missing = ensureContainerd();
  const upstream = missing === undefined ? await upstreamTests() : { missing };
  const binaries = await controlPlaneBinaries();
  for (const part of [upstream, binaries])
    if ("missing" in part) {
      process.stderr.write(`${part.missing}\n`);
      return 2;
    }
  if ("missing" in upstream || "missing" in binaries) return 2;
  const cluster = await startCluster({ machines: "scheduler" });
  try {
    const containerd = await startContainerd();
    try {
      const cases = Object.entries(terminalCases(cluster, containerd, binaries.kubectl)).filter(([name]) =>
        flags.only.some((text) => name.includes(text)),
      );
      const theirs = await outcomesOf("kubelet", { cluster, containerd, upstream, cases });
      const ours = await outcomesOf("ours", { cluster, containerd, upstream, cases });
      return compared(theirs, ours);
    } finally {
      await containerd.stop();
    }
  } finally {
    await cluster.stop();
  }
}

async function outcomesOf(
  side: Side,
  given: {
    readonly cluster: Cluster;
    readonly containerd: ContainerdNode;
    readonly upstream: UpstreamTests;
    readonly cases: readonly (readonly [name: string, act: () => Promise<object>])[];
  },
): Promise<Outcomes> {
  const { cluster, containerd, upstream, cases } = given;
  const agent = await startAgent(cluster, side, containerd, upstream.programs, {
    configuration: { clusterDNS: ["10.96.0.10"] },
    flags: ["--cluster-dns", "10.96.0.10"],
  });
  try {
    const failure = (error: unknown): object => ({ failed: `${messageOf(error)} ${messageOf((error as Error).cause)}` });
    return Object.fromEntries(await Promise.all(cases.map(async ([name, act]) => [name, await act().catch(failure)] as const)));
  } finally {
    await cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=true");
    await agent.stop();
  }
}

function compared(theirs: Outcomes, ours: Outcomes): number {
  const names = Object.keys(theirs);
  const likeTheirs = (outcome: unknown): unknown =>
    JSON.parse(JSON.stringify(outcome).replaceAll(THROUGH_SPDY, "unable to upgrade connection"));
  // the results of a side, by case name
  const hasFailed = (name: string): boolean => [theirs, ours].some((each) => Object.hasOwn(each[name] as object, "failed"));
  const differing = names.filter((name) => hasFailed(name) || !isDeepStrictEqual(likeTheirs(ours[name]), likeTheirs(theirs[name])));
  for (const name of names) {
    const differs = differing.includes(name);
    process.stdout.write(`${differs ? "DIFFERS" : "same   "}  ${name}\n`);
    if (differs) process.stdout.write(`    kubelet ${JSON.stringify(theirs[name])}\n    ours    ${JSON.stringify(ours[name])}\n`);
  }
  process.stdout.write(`${names.length - differing.length} of ${names.length} the same\n`);
  return names.length > 0 && differing.length === 0 ? 0 : 1;
}
