/**
 * `npm run top`: `kubectl top` through the real metrics-server, for a node with a busy and an idle pod, run by `deltaloop node` or
 * upstream's kubelet. Prints kubectl's output and every wrong value in it; exits with 1 if there is one. Takes about half a minute per
 * side.
 *
 *     npm run top                    tests `deltaloop node`
 *     npm run top -- --side both     tests upstream's kubelet first; `kubelet` tests only that
 */
import { availableParallelism, totalmem } from "node:os";
import { parseArgs } from "node:util";

import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { ensureContainerd } from "../containerd/programs.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { eventually, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import { metricsServerProgram, startMetricsServer } from "./metrics-server.ts";
import type { MetricsServerProgram } from "./metrics-server.ts";
import { NAME, startAgent } from "../harness/node-processes/compared-node.ts";
import type { Side } from "../harness/node-processes/compared-node.ts";
import { startTopPods, topOf, wrongIn } from "./top.ts";

const SIDES: Readonly<Record<string, readonly Side[]>> = { ours: ["ours"], kubelet: ["kubelet"], both: ["kubelet", "ours"] };
const CERTIFICATE_SECONDS = 24 * 60 * 60;
const SERVES_MS_MAX = 60_000;

const { values: flags } = parseArgs({ options: { side: { type: "string", default: "ours" } } });
process.exitCode = await main();

async function main(): Promise<number> {
  const sides = SIDES[flags.side];
  if (sides === undefined) return missing(`--side is one of ${Object.keys(SIDES).join(", ")}`);
  const noContainerd = ensureContainerd();
  if (noContainerd !== undefined) return missing(noContainerd);
  const metricsServer = await metricsServerProgram();
  if ("missing" in metricsServer) return missing(metricsServer.missing);
  const upstream = sides.includes("kubelet") ? await upstreamTests() : { programs: { kubelet: "" } };
  if ("missing" in upstream) return missing(upstream.missing);
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) return missing(binaries.missing);
  const cluster = await startCluster({ machines: "scheduler", frontProxy: true, signing: { seconds: CERTIFICATE_SECONDS } });
  try {
    let wrong = 0;
    for (const side of sides) {
      // One containerd per side: otherwise the next agent could report a leftover container of the previous one under the same name.
      const containerd = await startContainerd();
      try {
        wrong += await judge(side, { cluster, containerd, metricsServer, programs: upstream.programs });
      } finally {
        await containerd.stop();
      }
    }
    return wrong === 0 ? 0 : 1;
  } finally {
    await cluster.stop();
  }
}

function missing(why: string): number {
  process.stderr.write(`${why}\n`);
  return 2;
}

/** @returns the number of wrong values */
async function judge(
  side: Side,
  given: {
    readonly cluster: Cluster;
    readonly containerd: ContainerdNode;
    readonly metricsServer: MetricsServerProgram;
    readonly programs: { readonly kubelet: string };
  },
): Promise<number> {
  const { cluster, containerd, programs } = given;
  const agent = await startAgent(cluster, side, containerd, programs, {
    configuration: { serverTLSBootstrap: true },
    flags: ["--rotate-server-certificates"],
  });
  try {
    await approveServing(cluster, side);
    await startTopPods(cluster);
    const metricsServer = await startMetricsServer(cluster, given.metricsServer);
    try {
      const top = await topOf(cluster, metricsServer);
      const wrong = wrongIn(top, { cpuMillis: availableParallelism() * 1000, memoryMiB: totalmem() / 2 ** 20 });
      process.stdout.write(`${side}, after ${top.scrapes} scrapes:\n${top.text}`);
      for (const sentence of wrong) process.stdout.write(`WRONG  ${sentence}\n`);
      if (wrong.length > 0) process.stdout.write(`metrics-server said last:\n${await metricsServer.log()}\n`);
      else process.stdout.write("as it should be\n");
      return wrong.length;
    } finally {
      await metricsServer.stop();
    }
  } finally {
    await cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=true");
    await agent.stop();
  }
}

/** Approves the CSR for the serving certificate as docs/guides/node.md describes, so that metrics-server can verify the node. */
async function approveServing(cluster: Cluster, side: Side): Promise<void> {
  await eventually(
    `${side} serves by a certificate that the cluster signed`,
    async () => {
      const names = await cluster.kubectl("get", "csr", "--output", "jsonpath={.items[*].metadata.name}");
      if (names !== "") await cluster.kubectl("certificate", "approve", ...names.split(" "));
      return (await cluster.kubectl("get", "--raw", `/api/v1/nodes/${NAME}/proxy/healthz`)) === "ok";
    },
    SERVES_MS_MAX,
  );
}
