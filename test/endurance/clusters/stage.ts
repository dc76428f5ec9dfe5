/** Everything that the proof runs on: API servers in memory, real control planes, and `dev --act --clusters` with two watchers. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";

import type { JsonObject } from "../../../shared/base/json.ts";
import { bundledCommand, rolledOutObjects, startFleet, startHost } from "../../bench/clusters/stage.ts";
import type { Fleet, Host } from "../../bench/clusters/stage.ts";
import { NAMESPACE } from "../../bench/clusters/workload.ts";
import { memoryMiB } from "../../bench/process-usage.ts";
import { isRunning, OWN_NAMESPACE, startCluster } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { CHURNING } from "./faults.ts";
import type { Proved } from "./faults.ts";

export interface Stage {
  readonly fleet: Fleet;
  /** All API servers in memory, with clones that were added. */
  readonly clusters: Proved[];
  readonly churning: readonly Proved[];
  /** Without churn. */
  readonly calm: readonly Proved[];
  /** Real control planes. */
  readonly planes: readonly Cluster[];
  /** Starts an API server in a new process. */
  startServer(): Promise<Pick<Proved, "host" | "server" | "url">>;
  /** Memory of our processes, and the load of the machine. */
  usageText(): Promise<string>;
  stop(): Promise<void>;
}

/** Processes of API servers without churn. */
const HOSTS = 2;
const DEPLOYMENTS_EACH = 2;
const READY_MS_MAX = 300_000;

export async function startStage(
  { clusters: total, real }: { readonly clusters: number; readonly real: number },
  say: (text: string) => void,
): Promise<Stage> {
  const [main, objects] = [await bundledCommand(), await rolledOutObjects(DEPLOYMENTS_EACH)];
  const hosts: Host[] = [];
  const planes: Cluster[] = [];
  let fleet: Fleet | undefined;
  const stop = async (): Promise<void> => {
    await fleet?.stop();
    for (const host of hosts) host.stop();
    for (const plane of planes) await plane.stop();
  };
  const start = async (count: number): Promise<Host> => {
    const host = await startHost(count, [...objects, OWN]);
    hosts.push(host);
    return host;
  };
  try {
    const churningHost = await start(CHURNING);
    const calmHosts: Host[] = [];
    for (let i = 0; i < HOSTS; i++) calmHosts.push(await start(Math.floor((total - CHURNING + i) / HOSTS)));
    const clusters: Proved[] = [churningHost, ...calmHosts]
      .flatMap((host) => host.urls.map((url, server) => ({ host, url, server })))
      .map((each, i) => ({ ...each, name: `c${i}`, tokens: [`c${i}`], identities: [`c${i}`] }));
    for (const { host, server, name } of clusters)
      await host.ask({ verb: "revise", server, name: `${name}-kept`, canary: `canary.${name}`, replicas: 1 });
    const urls = clusters.map(({ url }) => url);
    const started = await startFleet(main, urls, ["--watchers", "2", "--lease-namespace", OWN_NAMESPACE]);
    fleet = started;
    say(`${total} clusters were served after ${started.coldSeconds.toFixed(1)} s`);
    for (let i = 0; i < real; i++) {
      const plane = await startCluster();
      planes.push(plane);
      await plane.kubectl("create", "namespace", NAMESPACE);
      await writeFile(join(started.folder, `real-${i}`), readFileSync(plane.rolesKubeconfig, "utf8"), { mode: 0o600 });
      await started.dev.line(`ready: cluster real-${i}`, READY_MS_MAX);
    }
    if (real > 0) say(`${real} real control planes are served too`);
    return {
      ...{ fleet: started, clusters, planes, stop },
      ...{ churning: clusters.slice(0, CHURNING), calm: clusters.slice(CHURNING) },
      async startServer() {
        const host = await start(1);
        return { host, server: 0, url: host.urls[0] ?? "" };
      },
      async usageText() {
        const own = Object.entries(started.dev.pids()).filter(([, pid]) => isRunning(pid));
        const memory = own.map(async ([name, pid]) => `${name} ${(await memoryMiB(pid)).rss.toFixed(0)} MiB`);
        return `${(await Promise.all(memory)).join(", ")}; load ${(loadavg()[0] ?? 0).toFixed(1)}`;
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The namespace of the watcher's Lease. */
const OWN: readonly [string, JsonObject] = [
  "namespaces",
  { apiVersion: "v1", kind: "Namespace", metadata: { name: OWN_NAMESPACE, uid: "own", resourceVersion: "1" }, status: { phase: "Active" } },
];
