/** One cluster of a directory, in the process that watches all of them. */
import { unlessAborted } from "@deltaloop/base";
import type { Log } from "@deltaloop/base";
import type { Configuration, LiveConfiguration } from "@deltaloop/controllers/configuration";
import type { SharedConnections } from "@deltaloop/controllers/lambda";
import type { ListedCluster } from "@deltaloop/kube/kubeconfig";
import { forgetCluster } from "@deltaloop/store/redis";
import { liveOf } from "@deltaloop/controllers/clusters";
import { accessTo } from "../clusters/open-clusters.ts";
import type { ClustersFlags } from "../clusters/options.ts";
import type { StartupFlags } from "../cluster/startup.ts";
import type { Role } from "./nominate.ts";
import { openWatcher } from "./open-watcher.ts";
import type { Together } from "./open-watcher.ts";

interface Options extends StartupFlags, Pick<Partial<ClustersFlags>, "allow"> {
  readonly leaseNamespace?: string;
  readonly batchingWindow?: number;
  readonly shared: SharedConnections;
  readonly onRole?: (role: Role) => void;
  readonly together?: Together;
  /** The configuration of the process. */
  readonly live: LiveConfiguration;
  readonly log: (level: "debug" | "info" | "warn" | "error") => Log;
}

/**
 * Runs the watcher of a listed cluster until `signal` aborts.
 * @throws the errors of openWatcher, and {SharedCacheError}
 */
export async function watchListed(cluster: ListedCluster, options: Options, signal: AbortSignal): Promise<void> {
  const { leaseNamespace, batchingWindow: batchingWindowMs, startupTimeout, shared, together, onRole } = options;
  const live = liveOf(options.live, cluster);
  const access = await accessTo(cluster, options, "deltaloop-watcher", "watcher");
  const log = options.log(live.current.logLevel);
  const watched = { live, access, log, shared, leaseNamespace, batchingWindowMs, startupTimeout };
  const opening = openWatcher({ ...watched, idOf: "directory", ...(together && { together }), ...(onRole && { onRole }) });
  const opened = await unlessAborted(opening, signal).catch((error: unknown) => {
    if (signal.aborted) opening.then((late) => late.close()).catch(() => undefined);
    throw error;
  });
  const ended = new AbortController();
  try {
    await opened.run(AbortSignal.any([signal, ended.signal]));
  } finally {
    ended.abort(new Error("the watcher of this cluster has ended"));
    await opened.close();
  }
}

export async function forgetListed(
  { redis, deployment }: Pick<Configuration, "redis" | "deployment">,
  { cid }: Pick<ListedCluster, "cid">,
  signal: AbortSignal,
): Promise<void> {
  await forgetCluster(redis, deployment, cid, signal);
}
