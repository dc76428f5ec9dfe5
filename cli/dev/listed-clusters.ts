/** The output of `dev --clusters` for each cluster: when it is ready, and how to check it. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { Log } from "@deltaloop/base";
import { shutGate } from "@deltaloop/controllers/cache";
import { environmentOf } from "@deltaloop/controllers/configuration";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { openCache, shareConnections } from "@deltaloop/controllers/lambda";
import type { ClusterDirectory, ListedCluster } from "@deltaloop/kube/kubeconfig";
import type { Store } from "@deltaloop/store/ports";
import { environmentFile } from "../cluster/environment-file.ts";

export interface ListedClustersOptions {
  readonly directory: ClusterDirectory;
  /** The configuration of all clusters with the Lease's namespace; id and server are replaced. */
  readonly configuration: Configuration;
  /** The folder for environment files, which hold keys. */
  readonly folder: string;
  readonly log: Log;
}

const READY_POLL_MS = 500;

/** Follows the directory until `ends` aborts. Returns the Stores of its clusters. */
export function followListed({ directory, configuration, folder, log }: ListedClustersOptions, ends: AbortSignal): () => readonly Store[] {
  const stores = new Map<string, Store>();
  const shared = shareConnections(configuration, () => undefined); // watcher and functions report a lost connection
  ends.addEventListener("abort", () => shared.close(), { once: true });

  function add(cluster: ListedCluster): void {
    const { name, cid, server, kubeconfig } = cluster;
    const own: Configuration = { ...configuration, cluster: cid, kube: { server } };
    const file = environmentFileOf(cluster);
    writeFileSync(file, environmentFile({ ...environmentOf(own), ...(kubeconfig !== undefined && { KUBECONFIG: kubeconfig }) }), {
      mode: 0o600,
    });
    log.info(`to check ${name}, run: deltaloop doctor --env ${file}`);
    const { store } = openCache(own, shared.makeStore);
    stores.set(cid, store);
    void untilReady(cluster, store);
  }

  function environmentFileOf({ name }: ListedCluster): string {
    return join(folder, `env-${name}`);
  }

  async function untilReady({ cid, name }: ListedCluster, store: Store): Promise<void> {
    while (!ends.aborted && stores.get(cid) === store) {
      const shut = await shutGate(store).catch(() => "the Store does not answer");
      if (shut === undefined) return log.info(`ready: cluster ${name}`);
      await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS).unref());
    }
  }

  function remove(cluster: ListedCluster): void {
    stores.delete(cluster.cid);
    rmSync(environmentFileOf(cluster), { force: true });
  }

  directory.follow(({ kind, cluster }) => {
    if (kind === "added") add(cluster);
    if (kind === "removed") remove(cluster);
  }, ends);
  return () => [...stores.values()];
}
