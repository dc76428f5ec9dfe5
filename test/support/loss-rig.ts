/**
 * Three rollouts with a fault in the middle, on a real control plane and a real Redis, each behind a fixed address; and
 * the check of the outcome (informer §11.7, §20).
 */
import { readFile, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { Redis } from "ioredis";
import { expect } from "vitest";

import { DEV_SECRETS, isSame, storeOfDev } from "./cache-compared.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, startCluster } from "./e2e.ts";
import type { AuditEntry, Cluster, ClusterOptions, Running } from "./e2e.ts";
import { momentsOf, most, podsCreated, recordHistory } from "./history.ts";
import { startBehind } from "./redis-faults.ts";
import type { Behind } from "./redis-faults.ts";
import { startTcpFront } from "./tcp-front.ts";
import type { TcpFront } from "./tcp-front.ts";
import { watchGates } from "./watch-gates.ts";
import type { Closed } from "./watch-gates.ts";

const REPLICAS = 6;
/** Maximum of the desired replicas during a rollout: 6 plus a surge of 25 %, rounded up. */
const ASKED_MAX = 8;
const NAMES = ["web-0", "web-1", "web-2"] as const;
const NAMESPACE = "loss";
/**
 * From the end of the fault: the time until the gates stay open, and the longest time without one of our writes in any rollout.
 * The case "nothing at all" measures the machine's own delay.
 */
const SETTLED_MS_MAX = 15_000;
/** Time for which a run that took its key before the gate closed may continue (§11.6). */
const BEGUN_RUN_MS = 2_000;

const labels = (name: string) => ({ app: name });
const deployment = (name: string) => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name, namespace: NAMESPACE },
  spec: {
    replicas: REPLICAS,
    minReadySeconds: 1,
    selector: { matchLabels: labels(name) },
    template: { metadata: { labels: labels(name) }, spec: { containers: [{ name: "main", image: "shop:0" }] } },
  },
});

/** The environment of a fault. */
export interface LossRig {
  readonly cluster: Cluster;
  readonly dev: Running;
  readonly redis: Behind;
  /** The proxy between the watcher and the API server; no other client uses it. */
  readonly road: TcpFront;
  /**
   * Rolls the three Deployments, injects the fault in the middle, and waits for the rollouts and for a cache that
   * equals the API server. @throws when there was a surplus pod, a write while the gate was closed, or a duration above
   * `limits`
   */
  settles(name: string, strike: (rig: LossRig) => Promise<void>, limits?: Limits): Promise<void>;
  stop(): Promise<void>;
}

export interface Limits {
  /** From the end of the fault: the longest time without one of our writes for any rollout. Default 15 s. */
  readonly pauseMsMax?: number;
  /** From the end of the fault until the gates stay open. Default 15 s. */
  readonly settledMsMax?: number;
  /** The fault also breaks the watches of the recorded history, so the changes in between are unknown. */
  readonly breaksTheWatch?: true;
}

export async function startLossRig(options: ClusterOptions = {}): Promise<LossRig> {
  const [cluster, redis] = await Promise.all([startCluster(options), startBehind()]);
  const road = await startTcpFront(Number(new URL(cluster.plane.url).port));
  const kubeconfig = `${cluster.rolesKubeconfig}.road`;
  await writeFile(kubeconfig, watcherTakes(road, await readFile(cluster.rolesKubeconfig, "utf8")), { mode: 0o600 });
  const dev = deltaloop(
    ["dev", "--act", "--kubeconfig", kubeconfig, "--lease-namespace", OWN_NAMESPACE, "--redis", redis.url],
    DEV_SECRETS,
  );
  await dev.line("ready:", 120_000);
  const own = new Redis(redis.url, { commandTimeout: 500, maxRetriesPerRequest: 1, retryStrategy: () => 50 }).on("error", () => undefined);
  const store = storeOfDev(own, dev.output());
  await cluster.kubectl("create", "namespace", NAMESPACE);
  await cluster.apply(...NAMES.map(deployment));
  for (const name of NAMES) await cluster.rolledOut(NAMESPACE, name);

  let images = 0;
  const rig: LossRig = {
    cluster,
    dev,
    redis,
    road,
    async settles(name, strike, { pauseMsMax = SETTLED_MS_MAX, settledMsMax = SETTLED_MS_MAX, breaksTheWatch } = {}) {
      const history = await recordHistory(cluster.client, NAMESPACE);
      const before = history.changes().length;
      const image = `main=shop:${++images}`;
      await Promise.all(NAMES.map((each) => cluster.kubectl("set", "image", `deployment/${each}`, image, "-n", NAMESPACE)));
      await eventually("the rollouts are on their way", () => podsAdded(history.changes().slice(before)) >= 3);

      const gates = watchGates(store);
      await strike(rig);
      const usableAtMs = Date.now();
      for (const each of NAMES) await cluster.rolledOut(NAMESPACE, each, 120);
      const rolledMs = Date.now() - usableAtMs;
      await eventually("the cache is what the API server has", () => isSame(store, cluster), 120_000);
      const closed = await gates.stop();
      const closedMs = closed.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
      const openMs = Math.max(0, ...closed.map(({ toMs }) => toMs - usableAtMs));
      const pausesMs = await longestPausesMs(cluster, usableAtMs);
      measured(
        `${name}: open after ${seconds(openMs)}, longest pauses ${pausesMs.map(seconds).join(", ")}, rolled out after ${seconds(rolledMs)}; gate shut for ${seconds(closedMs)}${closed.map(({ fromMs, why }) => ` [${seconds(fromMs - usableAtMs)} ${why}]`).join("")}`,
      );

      await sleep(1_000); // the caller may add actions
      await history.stop();
      const changes = history.changes();
      for (const each of NAMES) {
        const moments = momentsOf(changes, each);
        expect(most(moments, ({ asked }) => asked)).toBeLessThanOrEqual(ASKED_MAX);
        if (breaksTheWatch === undefined) expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
      }
      expect(Object.values(podsCreated(changes)).every((count) => count <= REPLICAS)).toBe(true);
      expect(await writesDuring(cluster, closed)).toEqual([]);
      expect(openMs).toBeLessThanOrEqual(settledMsMax);
      expect(Math.max(...pausesMs)).toBeLessThanOrEqual(pauseMsMax);
    },
    async stop() {
      own.disconnect();
      await dev.stop();
      await road.stop();
      await cluster.stop();
      await redis.stop();
    },
  };
  return rig;
}

interface Kubeconfig {
  readonly clusters: readonly { readonly name: string; readonly cluster: { readonly server: string } }[];
  readonly contexts: readonly { readonly name: string; readonly context: { readonly cluster: string; readonly user: string } }[];
}

/** The kubeconfig of the roles; the watcher's context uses the proxy. */
function watcherTakes(road: TcpFront, text: string): string {
  const config = JSON.parse(text) as Kubeconfig; // written by e2e.ts
  const byRoad = config.clusters.map(({ cluster }) => ({
    name: "road",
    cluster: { ...cluster, server: `https://127.0.0.1:${road.port}` },
  }));
  const contexts = config.contexts.map(({ name, context }) => ({
    name,
    context: name === "deltaloop-watcher" ? { ...context, cluster: "road" } : context,
  }));
  return JSON.stringify({ ...config, clusters: [...config.clusters, ...byRoad], contexts });
}

function podsAdded(changes: readonly { readonly kind: string; readonly type: string }[]): number {
  return changes.filter(({ kind, type }) => kind === "Pod" && type === "ADDED").length;
}

/** Our functions' writes to the API server, without Events. */
async function ownWrites(cluster: Cluster): Promise<readonly AuditEntry[]> {
  return (await cluster.audit()).filter(
    ({ userAgent, verb, objectRef }) =>
      userAgent?.startsWith("deltaloop/") === true &&
      ["create", "patch", "delete"].includes(verb) &&
      objectRef?.namespace === NAMESPACE &&
      objectRef.resource !== "events",
  );
}

/** For each rollout: the longest time between two writes, or between `fromMs` and the first one. */
async function longestPausesMs(cluster: Cluster, fromMs: number): Promise<readonly number[]> {
  const writes = await ownWrites(cluster);
  return NAMES.map((name) => {
    const at = writes
      .filter(({ objectRef, requestObject }) => (objectRef?.name ?? requestObject?.metadata?.name ?? "").startsWith(name))
      .map(({ stageTimestamp }) => Date.parse(stageTimestamp))
      .filter((atMs) => atMs >= fromMs)
      .toSorted((a, b) => a - b);
    return at.reduce((longest, atMs, index) => Math.max(longest, atMs - (at[index - 1] ?? fromMs)), 0);
  });
}

/** Returns our functions' writes while the gates were closed, except those of runs that had started before. */
async function writesDuring(cluster: Cluster, closed: readonly Closed[]): Promise<readonly string[]> {
  return (await ownWrites(cluster))
    .filter(({ stageTimestamp }) => {
      const atMs = Date.parse(stageTimestamp);
      return closed.some(({ fromMs, toMs }) => atMs > fromMs + BEGUN_RUN_MS && atMs < toMs);
    })
    .map(({ verb, requestURI }) => `${verb} ${requestURI}`);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
