/**
 * The clusters that one function serves: what it has made for each, and for how long.
 *
 * XO1 a cluster's client has the server, CA and credentials of one value, and only that cluster's handler has the client. Its Store and keys
 *     are of the same cluster id.
 * XO2 renewed credentials are used for the next request. A value with another kind of credentials makes the client again; runs in progress
 *     end on the former.
 * XO3 nothing is made for a cluster that is not in the directory, or before one of its messages has a valid signature.
 * XO4 what was not used for IDLE_MS is dropped between invocations, and the least recently used above OPEN_MAX.
 */
import type { Clock, Log } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import { describeError } from "@deltaloop/kube/client";
import { credentialKind, inlineAccess, LISTED_HOST, vettedLookup } from "@deltaloop/kube/clusters";
import type { Allowance, ListedValue } from "@deltaloop/kube/clusters";
import { connectLive } from "../connect-live.ts";
import type { SharedConnections } from "../connect.ts";
import type { LiveConfiguration } from "../live-configuration.ts";
import { wireFunction } from "../wire-function.ts";
import type { Component, WiredFunction } from "../wire-function.ts";
import type { ClusterWiring } from "../wiring.ts";
import type { ClusterValues } from "./cluster-values.ts";
import { liveOf } from "./directory-configuration.ts";

export interface ServedClustersOptions<H> {
  readonly component: Component;
  readonly role: string;
  /** The configuration of the process (NO_CLUSTER). */
  readonly live: LiveConfiguration;
  readonly values: ClusterValues;
  readonly allowed: ReadonlySet<Allowance>;
  readonly shared: SharedConnections;
  readonly create: (wiring: WiredFunction) => H;
  readonly metrics?: Metrics | undefined;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

export interface ServedCluster<H> {
  readonly handler: H;
  readonly wiring: ClusterWiring;
  isPaused: boolean;
}

export interface ServedClusters<H> {
  /** Whether anything is made for the cluster. */
  has(cid: string): boolean;
  /** Returns undefined for a cluster that is not in the directory, or cannot be used. @throws {SecretError} if that is unknown */
  get(cid: string): Promise<ServedCluster<H> | undefined>;
  /** Returns all clusters of the directory. @throws {SecretError} */
  list(): Promise<readonly (ServedCluster<H> & { readonly cid: string })[]>;
  /** Drops unused clusters (XO4). Call it while no run is in progress. */
  drop(): void;
}

export const IDLE_MS = 15 * 60_000;
const OPEN_MAX = 500;

interface Open<H> extends ServedCluster<H> {
  /** The kind of credentials that the client was made for. */
  readonly kind: string;
  /** What its client reads. */
  readonly newest: { value: ListedValue };
  usedMs: number;
}

export function createServedClusters<H>(options: ServedClustersOptions<H>): ServedClusters<H> {
  const { component, role, live, values, allowed, shared, create, metrics, clock, log } = options;
  /** By cluster id, the most recently used last. */
  const opened = new Map<string, Open<H>>();

  function open(value: ListedValue): Open<H> {
    const { cid, name, config, isPaused } = value;
    const own = liveOf(live, value);
    const newest = { value };
    const access = inlineAccess(() => newest.value.config, {
      role,
      component,
      async renew() {
        newest.value = (await values.refused(cid)) ?? newest.value;
      },
    });
    const kube = { ...access, lookup: vettedLookup(allowed), metricsHost: LISTED_HOST, ...(metrics && { metrics }) };
    const named = logOf(log, name);
    const connections = connectLive(own, named, { shared, anyDigestKey: component === "sweep" });
    const wired = wireFunction(component, own, kube, { connections, log: named });
    const wiring = wired.cluster(cid);
    if (wiring === undefined) throw new TypeError("a function serves the cluster that it was wired for");
    const handler = create(wired);
    return { handler, wiring, isPaused, newest, kind: credentialKind(config, role), usedMs: 0 };
  }

  function used(value: ListedValue): Open<H> | undefined {
    const { cid, name, config, isPaused } = value;
    let own = opened.get(cid);
    opened.delete(cid);
    try {
      if (own === undefined || own.kind !== credentialKind(config, role)) own = open(value);
    } catch (error) {
      log.error("cluster cannot be served: correct it with deltaloop cluster add", { cluster: name, cid, error: describeError(error) });
      return undefined;
    }
    own.newest.value = value;
    own.isPaused = isPaused;
    own.usedMs = clock.now();
    opened.set(cid, own);
    return own;
  }

  return {
    has: (cid) => opened.has(cid),
    async get(cid) {
      const value = await values.get(cid);
      if (value) return used(value);
      opened.delete(cid);
      return undefined;
    },
    async list() {
      const listed = await values.list();
      const cids = new Set(listed.map(({ cid }) => cid));
      for (const cid of opened.keys()) if (!cids.has(cid)) opened.delete(cid);
      return listed.flatMap((value) => {
        const own = used(value);
        return own ? [{ handler: own.handler, wiring: { ...own.wiring, name: value.name }, isPaused: own.isPaused, cid: value.cid }] : [];
      });
    },
    drop() {
      const now = clock.now();
      for (const [cid, { usedMs }] of opened) if (now - usedMs >= IDLE_MS || opened.size > OPEN_MAX) opened.delete(cid);
    },
  };
}

/** Adds the cluster's name to each line. */
function logOf(log: Log, cluster: string): Log {
  return {
    debug: (message, fields) => log.debug(message, { cluster, ...fields }),
    info: (message, fields) => log.info(message, { cluster, ...fields }),
    warn: (message, fields) => log.warn(message, { cluster, ...fields }),
    error: (message, fields) => log.error(message, { cluster, ...fields }),
  };
}
