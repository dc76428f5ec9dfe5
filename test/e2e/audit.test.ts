/**
 * On a real control plane and a real Redis: the test deletes rows and entries of the cache while a Deployment rolls out, and an audit every
 * few seconds restores them. The watcher reads with the rights of its own role.
 */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { functionHandlers } from "../../cli/functions/functions.ts";
import { shutGate } from "../../shared/controllers/cache/gates.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createMemoryDeltaQueue } from "../../shared/store/memory/queue/delta-queue.ts";
import { createMemoryDoorbells } from "../../shared/store/memory/queue/doorbells.ts";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import type { Kube } from "../../shared/kube/client/kube.ts";
import { auditResource } from "../../shared/controllers/cache/watcher/audit.ts";
import { cacheIdentity } from "../../shared/controllers/cache/identity.ts";
import { acquireLease } from "../../shared/controllers/cache/watcher/leader-election.ts";
import { runWatcher } from "../../shared/controllers/cache/watcher/watcher.ts";
import { serving } from "../../shared/controllers/lambda/wiring.ts";
import { startFunctionHost } from "../../shared/local/function-host.ts";
import { HOLE_LIMIT_MS, HOLE_RELIST_MS } from "../../shared/base/times.ts";
import { CORE_CACHE } from "../../shared/controllers/registry/registry.ts";
import { eventually, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";
import { testSigner } from "../support/signer.ts";
import { recordingLog } from "../unit/recording-log.ts";

const CACHE = { deployment: "audited", cluster: "0123456789ab" } as const;
/** Audits all resources about every five seconds. */
const UPKEEP = { resyncMs: 3_600_000, resyncSpreadMs: 1_000, auditMs: 6_000, auditSettleMs: 1_000, tickMs: 500 };
const HEALED_MS_MAX = 30_000;
const REPLICAS = 6;
const labels = { app: "web" };

interface Pod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
}

await whereRealPartsAre("an audit on a real control plane", () => {
  describe("rows deleted by hand on a real control plane", () => {
    let cluster: Cluster;
    let server: RedisServer;
    let system: Awaited<ReturnType<typeof startSystem>>;
    beforeAll(async () => {
      cluster = await startCluster();
      server = await startRedis();
      system = await startSystem(cluster, server.url);
    });
    afterAll(async () => {
      await system?.stop();
      await server?.stop();
      await cluster?.stop();
    });

    const pods = async (): Promise<readonly string[]> =>
      (await cluster.list<Pod>("/api/v1/namespaces/shop/pods"))
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
        .map(({ metadata }) => `shop/${metadata.name}`)
        .toSorted();
    const deployment = (image: string): object => ({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web", namespace: "shop" },
      spec: {
        replicas: REPLICAS,
        minReadySeconds: 1,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: "main", image }] } },
      },
    });

    it("[informer T95] are restored, both during a rollout and when idle, and the rollout completes", async () => {
      await cluster.kubectl("create", "namespace", "shop");
      await cluster.apply(deployment("shop:1"));
      await cluster.rolledOut("shop", "web");
      await cluster.apply(deployment("shop:2"));
      const taken = await system.takeAway(3);
      await cluster.rolledOut("shop", "web", 90);
      await eventually("as many pods as asked for", async () => (await pods()).length === REPLICAS);

      // Deletes entries for which no event follows: only the audit can find them.
      const [first = "", second = ""] = await pods();
      await system.remove(first, "row and entry");
      await system.remove(second, "entry");
      const fromMs = performance.now();
      await eventually("both are cached again", async () => (await system.cached()).join() === (await pods()).join(), HEALED_MS_MAX);
      measured(`${taken} rows taken away in a rollout, two afterwards; these were back after ${Math.round(performance.now() - fromMs)} ms`);
      expect(system.found()).toEqual(expect.arrayContaining(["missing", "unbelieved"]));

      await eventually("as many pods as asked for", async () => (await pods()).length === REPLICAS);
      await eventually("nothing differs", async () => (await system.differences()).length === 0, HEALED_MS_MAX);
      expect(system.failed()).toEqual([]);
    });
  });
});

/** Runs watcher and functions in this process, each with its role's token, on Redis; the queues are in memory. */
async function startSystem(cluster: Cluster, redisUrl: string) {
  const redis = new Redis(redisUrl);
  const [clock, random, log] = [createSystemClock(), createSystemRandom(), recordingLog()];
  const digester = createDigester("a key for tests");
  const identity = cacheIdentity(digester);
  const signer = testSigner(CACHE.cluster);
  const store = createRedisStore(redis, { ...CACHE, identity, signer, holeLimitMs: HOLE_LIMIT_MS });
  const queue = createMemoryDeltaQueue({ clock, random });
  const doorbells = createMemoryDoorbells({ clock, random, cluster: CACHE.cluster });
  const kubes = new Map<string, Kube>();
  for (const component of ["watcher", "apply-deltas", "sync-replicaset", "sync-replicationcontroller", "sync-deployment"])
    kubes.set(
      component,
      createKubeHttp(await kubeHttpConfigFrom(cluster.rolesKubeconfig, { component, context: `deltaloop-${component}` })),
    );
  const kube = (component: string): Kube => kubes.get(component) ?? kubes.get("apply-deltas") ?? fail(component);
  const ends = new AbortController();
  const watcher = kube("watcher");
  const lease = { namespace: OWN_NAMESPACE, name: "deltaloop-watcher-audited", identity: "audited" };
  const lead = (signal: AbortSignal): ReturnType<typeof acquireLease> =>
    acquireLease({ reader: watcher, writer: watcher, clock, random, log }, lease, signal);
  const watching = runWatcher(
    { kube: watcher, store, queue, doorbells, clock, random, digester, signer, log, lead },
    {
      cluster: CACHE.cluster,
      clusterUid: "uid",
      identity,
      holeRelistMs: HOLE_RELIST_MS,
      upkeep: { ...UPKEEP, reader: watcher, registry: CORE_CACHE },
    },
    ends.signal,
  );
  const host = startFunctionHost({
    sources: { deltas: queue, doorbells: doorbells.sources },
    handlers: functionHandlers((name) => ({
      clock,
      random,
      log,
      digester,
      ...serving(CACHE.cluster, kube(name), "act", { store, signer, doorbells }),
    })),
    clock,
    log,
  });
  await eventually("the gates are open", async () => (await shutGate(store)) === undefined, HEALED_MS_MAX);

  const hashes = async (part: "v" | "s"): Promise<readonly string[]> => redis.keys(`dl:${CACHE.deployment}:*:${part}:pods:*`);
  const remove = async (key: string, what: "row and entry" | "entry"): Promise<void> => {
    for (const hash of [...(what === "entry" ? [] : await hashes("v")), ...(await hashes("s"))]) await redis.hdel(hash, key);
  };
  const cached = async (): Promise<readonly string[]> =>
    (await Promise.all((await hashes("s")).map((hash) => redis.hkeys(hash)))).flat().toSorted();
  return {
    remove,
    cached,
    /** Deletes values one after the other, half a second apart. */
    async takeAway(count: number) {
      for (let i = 0; i < count; i++) {
        const [key] = await cached();
        if (key !== undefined) await remove(key, "row and entry");
        await clock.after(500);
      }
      return count;
    },
    /** The kinds of differences that the audits have found. */
    found: () =>
      log.lines.filter(({ message }) => message === "the cache differs from the API server").map(({ fields }) => fields["difference"]),
    failed: () =>
      log.lines.filter(({ message }) => message === "upkeep failed, retrying at the next tick").map(({ fields }) => fields["error"]),
    /** The differences that `auditResource` reports in a dry run. */
    differences: async () => (await auditResource({ kube: watcher, store, clock }, "pods", 0, ends.signal)).differences,
    async stop() {
      await host.stop();
      ends.abort(new Error("the test has ended"));
      await watching.catch(() => undefined);
      redis.disconnect();
    },
  };
}

function fail(component: string): never {
  throw new Error(`no client of ${component}`);
}
