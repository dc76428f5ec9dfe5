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

/**
 * How long a cluster must be unlisted. Meanwhile this directory is read again, and the other watchers report what they lead: theirs may be
 * newer, and its new cluster have a cache already.
 */
export const UNLISTED_MS = 20_000;
/** As often as other lost work is looked for. */
export const LOOK_AGAIN_MS = 600_000;

/**
 * Looks at the start and LOOK_AGAIN_MS after each look, until `ends` aborts. Deletes nothing while the directory is empty, since it may not be
 * mounted, or has entries that are rejected.
 */
export async function forgetUnlisted(ports: ForgetUnlistedPorts, ends: AbortSignal): Promise<void> {
  while (!ends.aborted) {
    await look(ports, ends);
    await ports.clock.after(LOOK_AGAIN_MS, ends).catch(() => undefined);
  }
}

async function look(ports: ForgetUnlistedPorts, ends: AbortSignal): Promise<void> {
  const { directory, clock, log, ledByOthers, forget } = ports;
  try {
    const before = await unlistedOf(ports, ends);
    if (before.length === 0) return;
    await clock.after(UNLISTED_MS, ends).catch(() => undefined);
    if (ends.aborted) return;
    const still = new Set(await unlistedOf(ports, ends));
    const led = ledByOthers();
    const unlisted = before.filter((cid) => still.has(cid) && led?.has(cid) === false);
    if (unlisted.length === 0) return;
    if (directory.list().length === 0 || directory.hasProblems())
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

/** The clusters of directories that have a cache and are not listed. */
async function unlistedOf({ directory, cached }: ForgetUnlistedPorts, ends: AbortSignal): Promise<readonly string[]> {
  const ids = await cached(ends);
  const listed = new Set(directory.list().map(({ cid }) => cid));
  return ids.filter((cid) => isListedId(cid) && !listed.has(cid));
}
