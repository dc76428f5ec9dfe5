/**
 * On two real control planes: an etcd backup of production is restored elsewhere, and its watcher and functions start with the same cluster
 * id, keys and Redis. Catches: a copy that replaces the epoch, pods that are created or deleted because of the copy, and a copy that stops
 * without logging the reason.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { deltaloop, eventually, kubeconfigOfRoles, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { DEV_SECRETS } from "../support/cache-compared.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";

const REPLICAS = 3;
const NAMES = ["a", "b", "c", "d", "e"];
const PODS = "/api/v1/namespaces/shop/pods";
/** Delay in ms after the etcd snapshot, so that the clone's Lease holds a smaller term count than the last one that the Store confirmed. */
const OLDER_MS = 6_000;
const WATCHED_MS = 45_000;

await whereRealPartsAre("a cloned cluster on real control planes", () => {
  describe("a clone with lower resourceVersions", () => {
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
      for (const each of running) await each.stop();
      await production?.stop();
      await clone?.stop();
      await redis?.stop();
    });

    const start = (kubeconfig: string): Running => {
      const flags = ["--kubeconfig", kubeconfig, "--lease-namespace", OWN_NAMESPACE, "--redis", redis.url, "--nodes", "2", "--bind-pods"];
      const dev = deltaloop(["dev", "--act", ...flags], DEV_SECRETS);
      running.push(dev);
      return dev;
    };
    const epoch = async (): Promise<string | null> => client.hget((await client.keys("dl:*:ep"))[0] ?? "", "epoch");
    const names = async (cluster: Cluster): Promise<readonly string[]> =>
      (await cluster.list<{ readonly metadata: { readonly name: string } }>(PODS)).map(({ metadata }) => metadata.name).toSorted();

    it("changes nothing in production's cache, creates no pod, and reports the reason", async () => {
      await production.kubectl("create", "namespace", "shop");
      await start(production.rolesKubeconfig).line("ready:");
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
      const all = NAMES.length * REPLICAS;
      await eventually("production has its pods", async () => (await names(production)).length === all);
      const snapshot = await production.plane.snapshotEtcd();
      await after(OLDER_MS);

      await clone.plane.restoreEtcd(snapshot, { bumpRevision: 0 });
      await clone.kubectl("delete", "pods", "--all", "-n", "shop", "--force", "--grace-period=0"); // its list contains no pod
      const before = { epoch: await epoch(), pods: await names(production) };
      const kubeconfig = join(snapshot.replace(/[^/]*$/, ""), "clone.kubeconfig");
      await writeFile(kubeconfig, await kubeconfigOfRoles(clone.plane), { mode: 0o600 });
      const copy = start(kubeconfig);
      let most = 0;
      for (const from = performance.now(); performance.now() - from < WATCHED_MS; await after(250))
        most = Math.max(most, (await names(production)).length);
      measured(`${all} pods wanted, ${most} at most in ${WATCHED_MS / 1000} s beside the clone`);
      expect({ most, epoch: await epoch(), pods: await names(production) }).toEqual({ most: all, ...before });
      expect(copy.output()).toContain("two clusters share this cache");
      expect(await names(clone)).toEqual([]);

      const [gone = ""] = before.pods;
      await production.kubectl("delete", "pod", gone, "-n", "shop", "--force", "--grace-period=0");
      const settled = async (): Promise<boolean> => {
        const now = await names(production);
        return now.length === all && !now.includes(gone);
      };
      await eventually("production replaces a pod beside the clone", settled);
    });
  });
});
