/**
 * Core tests of upstream's NodeConformance suite, and kubectl and node tests of its cluster suite, with `deltaloop node` as the only node
 * of a real control plane, on a real containerd.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { ensureContainerd } from "../containerd/programs.ts";
import { keepLogs } from "../nodeconf/kept-logs.ts";
import type { KeptLogs } from "../nodeconf/kept-logs.ts";
import { startJudgedNode } from "../harness/node-processes/compared-node.ts";
import type { JudgedNode } from "../harness/node-processes/compared-node.ts";
import { coreOf, hasFailed, LEFT_OUT, LONG, nodeTests, runTests, SHORT } from "../nodeconf/tests.ts";
import { startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { TestOutcome, UpstreamTests } from "../upstream/program.ts";

/** Maximum number of failed tests to repeat; their output can then be compared. */
const AGAIN_MAX = 3;
const AGAIN_MS_MAX = 60_000;

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

  it("every test in the core list and in the exclusion list exists upstream", () => {
    const named = [...LEFT_OUT.map(({ group }) => group), ...LONG, ...SHORT];
    expect(named.filter((text) => !names.some((name) => name.includes(text)))).toEqual([]);
  });

  it("the core of upstream's node tests passes with this agent", { timeout: 480_000 }, async ({ signal }) => {
    const core = coreOf(names);
    expect(core.length).toBeGreaterThan(100);
    const options = { kubeconfig: cluster.plane.adminKubeconfig, signal, keepsFailed: true };
    const outcomes = await runTests(upstream, core, options);
    expect(outcomes.filter(({ state }) => state === "passed").length).toBeGreaterThan(100);
    const failed = outcomes.filter(hasFailed).map(({ name }) => name);
    if (failed.length === 0) return;
    const left = await logs.ofFailed().catch(String);
    const soon = AbortSignal.any([signal, AbortSignal.timeout(AGAIN_MS_MAX)]);
    const again = await runTests(upstream, failed.slice(0, AGAIN_MAX), { ...options, signal: soon });
    const alone = again.map(({ name, state }) => `run again, without the others: ${state} ${name}`);
    expect.fail(["failed:", ...failed, ...alone, left, toldOf(outcomes)].join("\n"));
  });
}

function toldOf(outcomes: readonly TestOutcome[]): string {
  return outcomes
    .filter(hasFailed)
    .map(({ told = "" }) => told)
    .join("\n");
}
