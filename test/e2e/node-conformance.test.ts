/**
 * A core of upstream's NodeConformance tests with `deltaloop node` as the one node of a real control plane, on a real containerd, and of what
 * its cluster suite has of kubectl and nodes besides.
 *
 * Catches: whatever upstream's own judges of a node catch, in their words: commands and environment, phases and restarts, init
 * containers, hooks, volumes of all kinds with their modes, security contexts, sysctls; logs, exec, copies, port-forward and debug as
 * kubectl asks for them.
 *
 * One test that fails among all the others and passes alone is told with what is left of it, and this one counts as skipped then, not as passed.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { ensureContainerd } from "../containerd/programs.ts";
import { keepLogs } from "../nodeconf/kept-logs.ts";
import type { KeptLogs } from "../nodeconf/kept-logs.ts";
import { startJudgedNode } from "../nodeconf/node.ts";
import type { JudgedNode } from "../nodeconf/node.ts";
import { coreOf, hasFailed, LEFT_OUT, nodeTests, runTests, SHORT } from "../nodeconf/tests.ts";
import { startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { TestOutcome, UpstreamTests } from "../upstream/program.ts";

const missing = ensureContainerd();
const built = missing === undefined ? await upstreamTests() : { missing };
if ("missing" in built) await whereRealPartsAre("upstream's node tests", () => undefined, built);
else await whereRealPartsAre("upstream's node tests", () => suite(built));

function suite(upstream: UpstreamTests): void {
  let cluster: Cluster;
  let node: JudgedNode;
  let logs: KeptLogs;
  let names: readonly string[];
  beforeAll(async () => {
    names = await nodeTests(upstream);
    cluster = await startCluster({ machines: "scheduler" });
    node = await startJudgedNode(cluster, "ours", upstream);
    logs = await keepLogs(cluster, node);
  });
  afterAll(async () => {
    await logs?.stop();
    await node?.stop();
    await cluster?.stop();
  });

  it("what is named, to be in the core or left out of it, is there", () => {
    const named = [...LEFT_OUT.map(({ group }) => group), ...SHORT];
    expect(named.filter((text) => !names.some((name) => name.includes(text)))).toEqual([]);
  });

  it("the core of upstream's node tests passes with our agent", { timeout: 480_000 }, async ({ signal, skip }) => {
    const core = coreOf(names);
    expect(core.length).toBeGreaterThan(100);
    const options = { kubeconfig: cluster.plane.adminKubeconfig, signal, keepsFailed: true };
    const outcomes = await runTests(upstream, core, options);
    expect(outcomes.filter(({ state }) => state === "passed").length).toBeGreaterThan(100);
    const failed = outcomes.filter(hasFailed).map(({ name }) => name);
    if (failed.length === 0) return;
    const told = `${failed.join("\n")}\n${await logs.ofFailed()}\n${toldOf(outcomes)}`;
    expect(failed.length, told).toBe(1);
    const again = await runTests(upstream, failed, options);
    expect(again.some(hasFailed), `${told}\nand again, alone: ${toldOf(again)}`).toBe(false);
    skip(`failed among the others, passed alone: ${told}`);
  });
}

function toldOf(outcomes: readonly TestOutcome[]): string {
  return outcomes
    .filter(hasFailed)
    .map(({ told = "" }) => told)
    .join("\n");
}
