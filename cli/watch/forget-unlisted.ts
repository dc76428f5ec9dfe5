/** Deletes the caches of clusters that were removed from the directory while no watcher ran, or whose deletion failed. */
import type { Clock, Log } from "@deltaloop/base";
import { isListedId } from "@deltaloop/controllers/configuration";
import { describeError } from "@deltaloop/kube/client";
import type { ClusterDirectory } from "@deltaloop/kube/kubeconfig";

export interface ForgetUnlistedPorts {
  readonly directory: Pick<ClusterDirectory, "list" | "hasProblems">;
  readonly clock: Clock;
  readonly log: Log;
  /** Ids of all clusters with a cache, including those of deployments for one cluster. */
  readonly cached: (signal: AbortSignal) => Promise<readonly string[]>;
  /** Clusters that other watchers lead, whose directory may be newer; undefined if that is unknown. */
  readonly ledByOthers: () => ReadonlySet<string> | undefined;
  readonly forget: (cid: string, signal: AbortSignal) => Promise<void>;
}

/** Until then the other watchers have reported what they lead. */
export const UNLISTED_MS = 20_000;
/** As often as other lost work is looked for. */
export const LOOK_AGAIN_MS = 600_000;

/**
 * Looks UNLISTED_MS after the start and every LOOK_AGAIN_MS, until `ends` aborts. Deletes nothing while the directory is empty, since it may
 * not be mounted, or has entries that are rejected.
 */
export async function forgetUnlisted(ports: ForgetUnlistedPorts, ends: AbortSignal): Promise<void> {
  for (let waitMs = UNLISTED_MS; ; waitMs = LOOK_AGAIN_MS) {
    await ports.clock.after(waitMs, ends).catch(() => undefined);
    if (ends.aborted) return;
    await look(ports, ends);
  }
}

async function look({ directory, log, cached, ledByOthers, forget }: ForgetUnlistedPorts, ends: AbortSignal): Promise<void> {
  try {
    const ids = await cached(ends);
    const led = ledByOthers();
    const listed = new Set(directory.list().map(({ cid }) => cid));
    const unlisted = ids.filter((cid) => isListedId(cid) && !listed.has(cid) && led?.has(cid) === false);
    if (unlisted.length === 0) return;
    if (listed.size === 0 || directory.hasProblems())
      return log.warn("keeping the caches of clusters that are not listed, because the folder is empty or kubeconfigs are rejected", {
        count: unlisted.length,
      });
    for (const cid of unlisted) {
      if (ends.aborted) return;
      await forget(cid, ends);
      log.info("deleted the cache of a cluster that is not listed", { id: cid });
    }
  } catch (error) {
    log.warn("failed to delete the caches of clusters that are not listed", { error: describeError(error) });
  }
}
