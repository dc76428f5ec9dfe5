/** Memory and CPU of an idle kube-controller-manager that runs only the three workload controllers. */
import { setTimeout as sleep } from "node:timers/promises";

import type { CountsFile } from "../../cli/cost/counts.ts";
import { cpuSeconds, memoryMiB } from "../bench/process-usage.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { startCluster } from "../support/e2e.ts";

const SETTLE_MS = 20_000;
const IDLE_MS = 60_000;

/** @throws {Error} with the reason why no control plane can run here */
export async function measureResident(): Promise<CountsFile["resident"]> {
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) throw new Error(binaries.missing);
  const cluster = await startCluster({ machines: false });
  try {
    const { plane } = cluster;
    const identity = await plane.clientCertificate("system:kube-controller-manager", []);
    const stop = await plane.startWorkloadLoops({ server: plane.url, identity, isReadable: false });
    const { "workload-loops": pid = 0 } = plane.pids();
    await sleep(SETTLE_MS);
    const [before, fromMs] = [await cpuSeconds(pid), performance.now()];
    await sleep(IDLE_MS);
    const cores = ((await cpuSeconds(pid)) - before) / ((performance.now() - fromMs) / 1_000);
    const memoryMib = (await memoryMiB(pid)).pss;
    await stop();
    return { date: new Date().toISOString().slice(0, 10), memoryMib: Math.round(memoryMib), cores: Number(cores.toPrecision(2)) };
  } finally {
    await cluster.stop();
  }
}
