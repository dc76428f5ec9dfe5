/**
 * What one resident controller manager costs: kube-controller-manager with only the three workload controllers, on real control planes of
 * its own, one after the other. For N clusters the values are multiplied by N: N managers run in N containers and share nothing but, on one
 * node, the pages of their program, which counts in favour of the multiplied value (RSS includes them each time).
 *
 * The test's managers run without leader election. A resident one renews its Lease every 2 s, which is added to its requests.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { controlPlaneBinaries } from "../../envtest/binaries.ts";
import { eventually, startCluster } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { cpuSeconds, memoryMiB } from "../process-usage.ts";
import { partiesOn } from "../side/parties.ts";
import { deploymentOf, DEPLOYMENTS, NAMESPACE } from "./workload.ts";

const SETTLE_MS = 15_000;
const IDLE_MS = 60_000;
const PER_HOUR = 3_600_000 / IDLE_MS;
const ROLLOUTS = 20;
const ROLLOUT_MS_MAX = 30_000;
const [PERCENT, MS_PER_SECOND] = [100, 1_000];
/** The default RetryPeriod of leader election is 2 s. */
const LEASE_RENEWALS_PER_HOUR = 1_800;

/** One value for each control plane. */
export interface Resident {
  readonly idleMiB: readonly number[];
  readonly activeMiB: readonly number[];
  /** Percent of a core. */
  readonly idleCpu: readonly number[];
  /** Seconds for a Deployment of 1, from the POST to its deletion. */
  readonly rolloutCpu: readonly number[];
  readonly requestsPerHour: readonly number[];
}

/** `objects`: Deployments of 3 in each cluster. @returns the reason when this machine has no control plane */
export async function measureResident(planes: number, deployments: number): Promise<Resident | { readonly missing: string }> {
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) return binaries;
  const measured: Record<keyof Resident, number[]> = { idleMiB: [], activeMiB: [], idleCpu: [], rolloutCpu: [], requestsPerHour: [] };
  for (let i = 0; i < planes; i++) {
    const cluster = await startCluster();
    try {
      const one = await measure(cluster, deployments);
      for (const name of Object.keys(measured) as (keyof Resident)[]) measured[name].push(one[name]); // Object.keys loses the type
    } finally {
      await cluster.stop();
    }
  }
  return measured;
}

async function measure(cluster: Cluster, deployments: number): Promise<{ readonly [N in keyof Resident]: number }> {
  const parties = await partiesOn(cluster);
  const upstream = parties.find(({ name }) => name === "upstream");
  if (upstream === undefined) throw new Error("there is no party upstream");
  const running = await upstream.start();
  try {
    const { "kube-controller-manager": pid = 0 } = running.own;
    await cluster.kubectl("create", "namespace", NAMESPACE);
    for (let i = 0; i < deployments; i++) await rolledOut(cluster, `web-${i}`, 3);
    await sleep(SETTLE_MS);
    const users = [...upstream.users, "system:kube-controller-manager"];
    const requests = async (): Promise<number> => (await cluster.audit()).filter(({ user }) => users.includes(user.username)).length;
    const [cpu, asked, fromMs] = [await cpuSeconds(pid), await requests(), performance.now()];
    await sleep(IDLE_MS);
    const idleCpu = (((await cpuSeconds(pid)) - cpu) * PERCENT * MS_PER_SECOND) / (performance.now() - fromMs);
    const requestsPerHour = ((await requests()) - asked) * PER_HOUR + LEASE_RENEWALS_PER_HOUR;
    const idleMiB = (await memoryMiB(pid)).rss;
    const before = await cpuSeconds(pid);
    for (let i = 0; i < ROLLOUTS; i++) {
      await rolledOut(cluster, `bench-${i}`, 1);
      await cluster.client.request("DELETE", `${DEPLOYMENTS}/bench-${i}`, { propagationPolicy: "Background" });
    }
    const rolloutCpu = ((await cpuSeconds(pid)) - before) / ROLLOUTS;
    return { idleMiB, idleCpu, rolloutCpu, requestsPerHour, activeMiB: (await memoryMiB(pid)).rss };
  } finally {
    await running.stop();
  }
}

async function rolledOut({ client }: Cluster, name: string, replicas: number): Promise<void> {
  await client.request("POST", DEPLOYMENTS, deploymentOf(name, replicas));
  const isDone = async (): Promise<boolean> => {
    const { status } = await client.request<{ status?: { availableReplicas?: number } }>("GET", `${DEPLOYMENTS}/${name}`);
    return status?.availableReplicas === replicas;
  };
  await eventually(`${name} is rolled out`, isDone, ROLLOUT_MS_MAX);
}
