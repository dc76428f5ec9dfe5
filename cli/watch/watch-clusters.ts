/**
 * Runs a watcher for each cluster of a directory.
 *
 * WC1 each cluster has its own session, which is retried with a back-off of its own; no session waits for another.
 * WC2 a session of a cluster begins after its last session, and the removal of its keys, have ended.
 * WC3 the keys of a removed cluster are deleted at once, and again when runs that were in flight have ended.
 */
import type { Clock, Log, Random } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import type { ClusterDirectory, ListedCluster } from "@deltaloop/kube/kubeconfig";
import type { ClusterShares } from "./cluster-shares.ts";

export interface ClusterSupervisorPorts {
  readonly directory: Pick<ClusterDirectory, "follow">;
  readonly log: Log;
  readonly clock: Clock;
  readonly random: Random;
  /** Serves a cluster until `signal` aborts. A rejection, and an earlier end, are retried. */
  readonly serve: (cluster: ListedCluster, signal: AbortSignal) => Promise<void>;
  /** Deletes the cluster's keys in the Store. Stops early if `signal` aborts. */
  readonly forget: (cluster: ListedCluster, signal: AbortSignal) => Promise<void>;
  /** This process's share of the clusters, if several watchers serve them. By default it serves all. */
  readonly shares?: Pick<ClusterShares, "serve" | "failed">;
}

/** A cluster whose credentials were renewed is served within 15 s. */
const [BACKOFF_MS, BACKOFF_MS_MAX] = [1_000, 10_000];
/** A session of this length resets the back-off. */
const SETTLED_MS = 60_000;
/** Longer than the lease of a run. */
const RUNS_END_MS = 40_000;

/** Resolves when `ends` has aborted and all sessions have ended. */
export async function watchClusters(ports: ClusterSupervisorPorts, ends: AbortSignal): Promise<void> {
  const { directory, log, clock, random, serve, forget, shares } = ports;
  /** The present work for each cluster id, and how to end it. */
  const works = new Map<string, { readonly stop: AbortController; readonly ended: Promise<void> }>();

  /** Ends the work for a cluster id, then starts `work` (WC2). */
  function next(cid: string, work?: (signal: AbortSignal) => Promise<void>): void {
    const former = works.get(cid);
    former?.stop.abort(new Error("the cluster's kubeconfig was changed or removed"));
    const stop = new AbortController();
    const signal = AbortSignal.any([ends, stop.signal]);
    const ended = Promise.resolve(former?.ended).then(async () => {
      if (!signal.aborted) await work?.(signal);
    });
    works.set(cid, { stop, ended });
  }

  async function session(cluster: ListedCluster, signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted;) {
      const startedMs = clock.now();
      const error = await serve(cluster, signal).then(
        () => "its watcher ended",
        (reason: unknown) => describeError(reason),
      );
      if (signal.aborted) return;
      shares?.failed(cluster.cid);
      failures = clock.now() - startedMs > SETTLED_MS ? 1 : failures + 1;
      const delayMs = Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** (failures - 1)) * (0.5 + random.next() / 2);
      log.warn("cluster is not served; retrying", { cluster: cluster.name, error, delayMs: Math.round(delayMs) });
      await clock.after(delayMs, signal).catch(() => undefined);
    }
  }

  async function turns(cluster: ListedCluster, signal: AbortSignal): Promise<void> {
    const run = async (turn: AbortSignal): Promise<void> => await session(cluster, turn);
    await (shares ? shares.serve(cluster.cid, signal, run) : run(signal));
  }

  /** Deletes the keys of a removed cluster, twice (WC3). */
  async function removal(cluster: ListedCluster, signal: AbortSignal): Promise<void> {
    for (const delayMs of [0, RUNS_END_MS]) {
      await clock.after(delayMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      await forget(cluster, signal).catch((error: unknown) =>
        log.warn("failed to delete the keys of a removed cluster", { cluster: cluster.name, error: describeError(error) }),
      );
    }
    log.info("deleted the keys of a removed cluster", { cluster: cluster.name });
  }

  directory.follow(({ kind, cluster }) => {
    log.info(`cluster ${kind}${kind === "added" && cluster.isPaused ? ", paused" : ""}`, { cluster: cluster.name, id: cluster.cid });
    if (kind === "removed") next(cluster.cid, async (signal) => await removal(cluster, signal));
    else if (cluster.isPaused) next(cluster.cid);
    else next(cluster.cid, async (signal) => await turns(cluster, signal));
  }, ends);
  await new Promise<void>((resolve) => (ends.aborted ? resolve() : ends.addEventListener("abort", () => resolve(), { once: true })));
  await Promise.all([...works.values()].map(({ ended }) => ended));
}
