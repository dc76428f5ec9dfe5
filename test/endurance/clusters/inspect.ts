/** The state of all clusters after the faults: that of a cluster without faults, and nothing of another cluster. */
import { setTimeout as sleep } from "node:timers/promises";

import type { Cluster } from "../../support/e2e.ts";
import { problemsOf } from "../../bench/clusters/inspection.ts";
import type { Inspected } from "../../bench/clusters/inspection.ts";
import { DEPLOYMENTS, PODS, REPLICA_SETS } from "../../bench/clusters/workload.ts";
import type { Proved } from "./faults.ts";
import { rollOut } from "./real-clusters.ts";
import type { Stage } from "./stage.ts";

type Found = (cluster: string, what: string) => void;

/** A key that failed often waits up to 1,000 s for its next sync, as upstream's; clusters with faults last converged within their bounds. */
const CONVERGED_MS_MAX = 150_000;
const PAUSE_MS = 500;
/** Names of the objects that all clusters begin with, and of the pods of the storm. */
const COMMON = ["web-", "storm-"];
const CANARY = /\bcanary\.[a-z0-9-]+/g;

export async function inspectAll({ clusters, planes }: Stage, found: Found): Promise<void> {
  await Promise.all(clusters.map(async (cluster) => await inspect(cluster, (what) => found(cluster.name, what))));
  await Promise.all(planes.map(async (plane, i) => await inspectReal(plane, `real-${i}`, (what) => found(`real-${i}`, what))));
}

async function inspect({ host, server, tokens, identities }: Proved, found: (what: string) => void): Promise<void> {
  let inspection = await host.ask({ verb: "inspect", server });
  const untilMs = performance.now() + CONVERGED_MS_MAX;
  while (inspection.problems.length > 0 && performance.now() < untilMs) {
    await sleep(PAUSE_MS);
    inspection = await host.ask({ verb: "inspect", server });
  }
  if (inspection.problems.length > 0) found(`did not converge: ${inspection.problems.join("; ")}`);
  const prefixes = [...identities.map((identity) => `${identity}-`), ...COMMON];
  for (const name of inspection.names) if (!prefixes.some((prefix) => name.startsWith(prefix))) found(`has an object ${name}`);
  for (const token of inspection.tokens) if (!tokens.includes(token)) found(`got a request with the token ${token}`);
  for (const canary of inspection.canaries)
    if (!identities.some((identity) => canary === `canary.${identity}`)) found(`got or has an object with ${canary}`);
}

async function inspectReal(plane: Cluster, name: string, found: (what: string) => void): Promise<void> {
  await rollOut(plane, `${name}-last`, `canary.${name}`).catch((error: unknown) => found(String(error)));
  const list = async (path: string): Promise<readonly Inspected[]> =>
    (await plane.client.list<Inspected & Record<string, unknown>>(path)).items;
  const [deployments, replicaSets, pods] = await Promise.all([list(DEPLOYMENTS), list(REPLICA_SETS), list(PODS)]);
  const all = [...deployments, ...replicaSets, ...pods];
  for (const { metadata } of all) if (!metadata.name.startsWith(`${name}-`)) found(`has an object ${metadata.name}`);
  for (const canary of new Set(JSON.stringify(all).match(CANARY))) if (canary !== `canary.${name}`) found(`has an object with ${canary}`);
  // Objects of deleted Deployments may still wait for upstream's garbage collector.
  for (const problem of problemsOf({ deployments, replicaSets: [], pods: [] }).filter((text) => text.includes("older generation")))
    found(problem);
}
