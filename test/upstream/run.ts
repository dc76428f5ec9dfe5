/**
 * `npm run sigapps`: upstream's own tests of the three controllers with deltaloop's controllers, on a real control plane. Prints a table
 * and exits with 1 if a test failed with deltaloop's controllers.
 *
 *     npm run sigapps                       with `deltaloop dev --act`
 *     npm run sigapps -- --baseline         runs them with upstream's own controllers first, to compare
 *     npm run sigapps -- --faults puts a fault-injecting proxy (test/fault-profile) between controllers and API server
 *     npm run sigapps -- --only rollover    only tests whose name contains the text
 */
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import { messageOf } from "../../shared/kube/objects/errors.ts";
import { WRITES } from "../fault-profile/fault-profile.ts";
import type { FaultRule } from "../fault-profile/fault-profile.ts";
import { INTERNAL_ERROR, tooManyRequests } from "../fault-profile/refusals.ts";
import { startFaultInjectingServer } from "../fault-profile/server.ts";
import type { FaultInjectingServer } from "../fault-profile/server.ts";
import { startCluster, startDev } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { TESTS_AT_ONCE, upstreamTests } from "./program.ts";
import type { UpstreamTests } from "./program.ts";
import { TESTS } from "./tests.ts";

interface Outcome {
  readonly seconds: number;
  /** The failure message; undefined if the test passed. */
  readonly failure?: string;
}

type Outcomes = ReadonlyMap<string, Outcome>;

/**
 * Faults for the controllers: a fifth of their writes is rejected, some responses are lost and watches cut, and objects have unknown
 * fields.
 */
const FAULTS: readonly FaultRule[] = [
  { name: "refused", about: { verbs: WRITES }, often: { every: 7 }, fault: { kind: "refuse", with: tooManyRequests(1) } },
  { name: "broken", about: { verbs: WRITES }, often: { every: 11 }, fault: { kind: "refuse", with: INTERNAL_ERROR } },
  { name: "lost", about: { verbs: WRITES }, often: { every: 29 }, fault: { kind: "loseAnswer" } },
  { name: "cut", about: { verbs: ["watch"] }, often: { every: 101 }, fault: { kind: "cutWatch" } },
  { name: "newer", about: {}, often: "always", fault: { kind: "addFields" } },
];

const { values: flags } = parseArgs({
  options: {
    baseline: { type: "boolean", default: false },
    faults: { type: "boolean", default: false },
    only: { type: "string", default: "" },
  },
});
process.exitCode = await main();

async function main(): Promise<number> {
  const tests = await upstreamTests();
  const names = TESTS.filter((name) => name.includes(flags.only));
  if ("missing" in tests || names.length === 0) {
    console.error("missing" in tests ? tests.missing : `no test's name contains ${flags.only}`);
    return 2;
  }
  const cluster = await startCluster();
  let proxy: FaultInjectingServer | undefined;
  try {
    const { plane } = cluster;
    const identity = await plane.clientCertificate("system:kube-controller-manager", []);
    if (flags.faults) {
      const certificate = await plane.serverCertificate();
      proxy = await startFaultInjectingServer({ url: plane.url, ca: plane.ca, certificate, identities: [identity] });
    }
    const server = proxy?.url ?? plane.url;
    let baseline: Outcomes | undefined;
    if (flags.baseline) {
      const end = await plane.startWorkloadLoops({ server, identity });
      baseline = await runAll("upstream's loops", names, { tests, cluster, proxy });
      await end();
    }
    const kubeconfig = `${cluster.rolesKubeconfig}.proxy`;
    await writeFile(kubeconfig, (await readFile(cluster.rolesKubeconfig, "utf8")).replaceAll(plane.url, server), { mode: 0o600 });
    const dev = await startDev({ ...cluster, rolesKubeconfig: kubeconfig });
    const ours = await runAll("our loops", names, { tests, cluster, proxy });
    await dev.stop();
    process.stdout.write(table(names, ours, baseline));
    return [...ours.values()].some(({ failure }) => failure !== undefined) ? 1 : 0;
  } finally {
    await proxy?.close();
    await cluster.stop();
  }
}

/** Runs all tests under the fault rules and returns their outcomes. */
async function runAll(
  side: string,
  names: readonly string[],
  { tests, cluster, proxy }: { readonly tests: UpstreamTests; readonly cluster: Cluster; readonly proxy: FaultInjectingServer | undefined },
): Promise<Outcomes> {
  const outcomes = new Map<string, Outcome>();
  const endFaults = proxy?.behave(...FAULTS);
  const startedAt = performance.now();
  const waiting = [...names];
  const work = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const from = performance.now();
      const failure = await tests.run(name, { kubeconfig: cluster.plane.adminKubeconfig }).then(() => undefined, messageOf);
      outcomes.set(name, { seconds: secondsSince(from), ...(failure !== undefined && { failure }) });
      if (failure !== undefined) console.error(`with ${side} ${name}\n${failure}\n`);
    }
  };
  await Promise.all(Array.from({ length: TESTS_AT_ONCE }, work));
  endFaults?.();
  const passed = [...outcomes.values()].filter(({ failure }) => failure === undefined).length;
  const faulty = proxy?.exchanges().filter(({ rule }) => rule !== undefined).length;
  const faultText = faulty === undefined ? "" : `, ${faulty} requests met a fault so far`;
  console.error(`with ${side}: ${passed} of ${names.length} passed in ${secondsSince(startedAt).toFixed(0)} s${faultText}`);
  return outcomes;
}

function table(names: readonly string[], ours: Outcomes, baseline: Outcomes | undefined): string {
  const width = Math.max(...names.map((name) => name.length));
  const row = (name: string, ...columns: readonly string[]): string => `${[name.padEnd(width), ...columns].join("  ")}\n`;
  const columns = baseline === undefined ? [ours] : [baseline, ours];
  const titles = baseline === undefined ? ["ours"] : ["baseline", "ours"];
  const rows = names.map((name) => row(name, ...columns.map((side) => told(side.get(name)))));
  return [row("test", ...titles.map((title) => title.padEnd(told(undefined).length))), ...rows].join("");
}

/** Formats an outcome: `passed 12.3 s`. */
function told(outcome: Outcome | undefined): string {
  const seconds = outcome?.seconds.toFixed(1) ?? "";
  return `${outcome?.failure === undefined ? "passed" : "FAILED"} ${seconds.padStart(6)} s`;
}

function secondsSince(from: number): number {
  return (performance.now() - from) / 1000;
}
