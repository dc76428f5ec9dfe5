/**
 * Tests of one clone on two real control planes: an etcd backup of production is restored elsewhere, and its watcher and functions start
 * with the same cluster id, keys and Redis. They catch a copy that replaces the epoch, pods that are created or deleted because of the copy,
 * and a copy that stops without logging the reason.
 */
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { readEnvironmentFile } from "../../cli/cluster/environment-file.ts";
import { DEV_SECRETS } from "./cache-compared.ts";
import { deltaloop, eventually, kubeconfigOfRoles, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "./e2e.ts";
import type { Cluster, Running } from "./e2e.ts";
import { startRedis, type RedisServer } from "./redis.ts";

const REPLICAS = 3;
const NAMES = ["a", "b", "c", "d", "e"];
const ALL = NAMES.length * REPLICAS;
const PODS = "/api/v1/namespaces/shop/pods";
/** Delay in ms after the etcd snapshot, so that the clone's Lease holds a smaller term count than the last one that the Store confirmed. */
const OLDER_MS = 6_000;
const WATCHED_MS = 45_000;
/** A busy machine takes longer to start the clone's processes. */
const REPORTED_MS_MAX = 180_000;
const REPORT = "two clusters share this cache";
/** Pods that are deleted one after the other, so that the clone's functions also get messages about them. */
const DELETED = 10;
const REFUSED = "cannot verify from the watcher's Lease that this cluster's watcher owns the cache";

export interface Clone {
  /** Added to the clone's resourceVersions, which otherwise continue from the snapshot and are then lower than production's. */
  readonly bumpRevision: number;
  /** The clone's watcher and functions use production's queues, not ones of their own: its functions get production's messages. */
  readonly sharesQueues: boolean;
}

export async function clonedCluster({ bumpRevision, sharesQueues }: Clone): Promise<void> {
  const title = `a clone with ${bumpRevision > 0 ? "higher" : "lower"} resourceVersions ${sharesQueues ? "that shares the queues" : "with queues of its own"}`;
  await whereRealPartsAre(`${title}, on real control planes`, () => {
    describe(title, () => {
      let production: Cluster;
      let clone: Cluster;
      let redis: RedisServer;
      let client: Redis;
      const running: Running[] = [];
      beforeAll(async () => {
        const options = { machines: false, garbageCollection: false } as const;
        [production, clone, redis] = await Promise.all([startCluster(options), startCluster(options), startRedis()]);
        client = new Redis(redis.url);
      });
      afterAll(async () => {
        client?.disconnect();
        for (const each of running.toReversed()) await each.stop();
        await production?.stop();
        await clone?.stop();
        await redis?.stop();
      });

      const start = (args: readonly string[], environment: Readonly<Record<string, string>> = DEV_SECRETS): Running => {
        const command = deltaloop(args, environment);
        running.push(command);
        return command;
      };
      const startDev = (kubeconfig: string): Running => {
        const flags = ["--kubeconfig", kubeconfig, "--lease-namespace", OWN_NAMESPACE, "--redis", redis.url, "--nodes", "2", "--bind-pods"];
        return start(["dev", "--act", ...flags]);
      };
      /** Starts the clone's watcher, and its functions beside those of `dev`. */
      const startBeside = (dev: Running, kubeconfig: string): readonly Running[] => {
        const [, file = ""] = /doctor --env (\S+)/.exec(dev.output()) ?? [];
        const environment = Object.fromEntries(Object.entries(readEnvironmentFile(file)).map(([name, value = ""]) => [name, value]));
        const functions = ["host", "--kubeconfig", kubeconfig, "--invocations", join(dirname(file), "invocations")];
        return [functions, ["watch", "--kubeconfig", kubeconfig, "--guard"]].map((args) => start(args, environment));
      };
      const epoch = async (): Promise<string | null> => client.hget((await client.keys("dl:*:ep"))[0] ?? "", "epoch");
      const names = async (cluster: Cluster): Promise<readonly string[]> =>
        (await cluster.list<{ readonly metadata: { readonly name: string } }>(PODS)).map(({ metadata }) => metadata.name).toSorted();

      it("changes nothing in production's cache, creates no pod, and reports the reason", async () => {
        await production.kubectl("create", "namespace", "shop");
        const dev = startDev(production.rolesKubeconfig);
        await dev.line("ready:");
        for (const name of NAMES)
          await production.apply({
            apiVersion: "apps/v1",
            kind: "ReplicaSet",
            metadata: { name, namespace: "shop" },
            spec: {
              replicas: REPLICAS,
              selector: { matchLabels: { app: name } },
              template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: "main", image: "shop:1" }] } },
            },
          });
        await eventually("production has its pods", async () => (await names(production)).length === ALL);
        const snapshot = await production.plane.snapshotEtcd();
        await after(OLDER_MS);

        await clone.plane.restoreEtcd(snapshot, { bumpRevision });
        await clone.kubectl("delete", "pods", "--all", "-n", "shop", "--force", "--grace-period=0"); // its list contains no pod
        const before = { epoch: await epoch(), pods: await names(production) };
        const kubeconfig = join(dirname(snapshot), "clone.kubeconfig");
        await writeFile(kubeconfig, await kubeconfigOfRoles(clone.plane), { mode: 0o600 });
        const copy = sharesQueues ? startBeside(dev, kubeconfig) : [startDev(kubeconfig)];
        const said = (): string => copy.map((each) => each.output()).join("");
        let most = 0;
        const from = performance.now();
        const watchedMs = (): number => performance.now() - from;
        for (; watchedMs() < WATCHED_MS || (watchedMs() < REPORTED_MS_MAX && !said().includes(REPORT)); await after(250))
          most = Math.max(most, (await names(production)).length);
        measured(`${title}: ${ALL} pods wanted, ${most} at most in ${(watchedMs() / 1_000).toFixed(0)} s beside it`);
        expect({ most, epoch: await epoch(), pods: await names(production) }).toEqual({ most: ALL, ...before });
        expect(said()).toContain(REPORT);
        expect(await names(clone)).toEqual([]);

        const seconds: number[] = [];
        for (let i = 0; i < (sharesQueues ? DELETED : 1); i++) {
          const deletedAt = performance.now();
          const [gone = ""] = await names(production);
          await production.kubectl("delete", "pod", gone, "-n", "shop", "--force", "--grace-period=0");
          await eventually("production replaces a pod beside the clone", async () => {
            const now = await names(production);
            return now.length === ALL && !now.includes(gone);
          });
          seconds.push((performance.now() - deletedAt) / 1_000);
        }
        measured(`${title}: production replaced a pod after ${seconds.map((each) => each.toFixed(1)).join(", ")} s`);
        if (sharesQueues) expect(said()).toContain(REFUSED);
        expect(await names(clone)).toEqual([]);
      });
    });
  });
}
