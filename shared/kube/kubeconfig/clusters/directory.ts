/**
 * The clusters that one deployment serves.
 *
 * KD1 a cluster is its name, server, CA and name in the certificate, all from the operator's directory and none from the cluster itself,
 *     whose administrator could claim another cluster's. The same name with another server is another cluster.
 * KD2 a listed cluster was vetted, and its kubeconfig never changes to another server or CA; its credentials may change at any time.
 * KD3 a bad entry affects no other cluster. An entry that becomes bad keeps its last good state until it is removed.
 * KD4 of several entries with one server, the one whose cache has an epoch in the Store is served, and without one the first by name. So the
 *     cluster that was served stays served, in every process and after restarts, until its entry is removed.
 */
import { createHash } from "node:crypto";

import type { Kubeconfig } from "../schema.ts";
import { serverKey } from "./vet.ts";

export interface ListedCluster {
  /** A DNS label. */
  readonly name: string;
  /** Cluster id: 32 hex digits, so that an author of kubeconfigs cannot find one with another cluster's id. */
  readonly cid: string;
  /** URL. */
  readonly server: string;
  /** Path of the vetted kubeconfig. */
  readonly kubeconfig?: string;
  /** Returns the vetted kubeconfig of a cluster in Parameter Store, which has no file. */
  readonly inline?: () => Kubeconfig;
  /** A paused cluster keeps its cache; nothing is read from it or written to it. */
  readonly isPaused: boolean;
}

export interface ClusterChange {
  readonly kind: "added" | "removed" | "paused" | "resumed";
  readonly cluster: ListedCluster;
}

export interface ClusterDirectory {
  /** The clusters as last read, by name. */
  list(): readonly ListedCluster[];
  /** Whether the last read failed or rejected an entry, so that a cluster that is not listed may still belong to the directory. */
  hasProblems(): boolean;
  /** Reads the directory now. Returns whether the list changed. Never rejects: what cannot be read is reported, and keeps its state. */
  refresh(): Promise<boolean>;
  /** Calls `onChange` with each cluster as added, and then with each change, until `signal` aborts. */
  follow(onChange: (change: ClusterChange) => void, signal: AbortSignal): void;
}

/** The host in metrics of requests to all clusters of a directory, whose number must not add series. */
export const LISTED_HOST = "clusters";

const NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const CID_DIGITS = 32;

/** Whether `name` is a DNS label. Source: apimachinery pkg/util/validation, IsDNS1123Label. */
export function isClusterName(name: string): boolean {
  return NAME.test(name);
}

/** The id of a vetted kubeconfig (KD1). */
export function clusterId(name: string, config: Kubeconfig): string {
  const [first] = config.clusters;
  if (first === undefined) throw new TypeError("a vetted kubeconfig has a cluster");
  return createHash("sha256")
    .update(JSON.stringify([name, serverKey(first.cluster)]))
    .digest("hex")
    .slice(0, CID_DIGITS);
}

/** Removals come first, so that a name is free before it is used again. */
export function changesBetween(before: readonly ListedCluster[], after: readonly ListedCluster[]): readonly ClusterChange[] {
  const had = new Map(before.map((cluster) => [cluster.cid, cluster]));
  const has = new Set(after.map(({ cid }) => cid));
  return [
    ...before.filter(({ cid }) => !has.has(cid)).map((cluster) => ({ kind: "removed", cluster }) as const),
    ...after.flatMap((cluster): readonly ClusterChange[] => {
      const former = had.get(cluster.cid);
      if (former === undefined) return [{ kind: "added", cluster }];
      if (former.isPaused === cluster.isPaused) return [];
      return [{ kind: cluster.isPaused ? "paused" : "resumed", cluster }];
    }),
  ];
}

/**
 * Returns the entries that are not served because another one has the same server, with that one's name (KD4).
 *
 * @param rankOf the greatest rank is served, and of several the first by name
 */
export function repeatedServers<C extends Pick<ListedCluster, "name" | "server">>(
  clusters: readonly C[],
  rankOf: (cluster: C) => number = () => 0,
): ReadonlyMap<string, string> {
  const first = new Map<string, string>();
  const repeated = new Map<string, string>();
  for (const { name, server } of clusters.toSorted((a, b) => rankOf(b) - rankOf(a) || (a.name < b.name ? -1 : 1))) {
    const href = new URL(server).href;
    const earlier = first.get(href);
    if (earlier === undefined) first.set(href, name);
    else repeated.set(name, earlier);
  }
  return repeated;
}
