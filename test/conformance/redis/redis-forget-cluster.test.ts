/** The keys of a removed cluster on a real redis-server. Catches deleted keys of another cluster or deployment. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";

import { cachedAmong, cachedClusters, forgetCluster } from "../../../shared/store/redis/forget-cluster.ts";
import { startRedis } from "../../support/redis.ts";
import type { RedisServer } from "../../support/redis.ts";

const [GONE, KEPT] = ["a".repeat(32), "b".repeat(32)];
/** More keys than one step of SCAN returns. */
const KEYS = 2_500;

let server: RedisServer;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

async function fill(): Promise<readonly string[]> {
  await redis.flushall();
  await redis.mset(...Array.from({ length: KEYS }, (_, i) => [`dl:dev:{${GONE}}:e1:v:pods:${i}`, "1"]).flat(), `dl:dev:{${GONE}}:ep`, "1");
  const kept = [`dl:dev:{${KEPT}}:ep`, `dl:prod:{${GONE}}:ep`, `dl:dev-shadow:{${GONE}}:ep`, `dl:dev:${GONE}:ep`, "other"];
  await redis.mset(...kept.flatMap((key) => [key, "1"]));
  return kept;
}

it("deletes all keys of the cluster and no others", async () => {
  const kept = await fill();
  await forgetCluster({ url: server.url, cluster: false }, "dev", GONE, new AbortController().signal);
  expect((await redis.keys("*")).toSorted()).toEqual(kept.toSorted());
});

it("deletes only the epoch if it is aborted, so that a new one is opened later", async () => {
  await fill();
  await forgetCluster({ url: server.url, cluster: false }, "dev", GONE, AbortSignal.abort());
  expect(await redis.exists(`dl:dev:{${GONE}}:ep`)).toBe(0);
  expect(await redis.keys(`dl:dev:{${GONE}}:*`)).toHaveLength(KEYS);
});

it("finds the clusters of the deployment that have a cache", async () => {
  await fill();
  const found = await cachedClusters({ url: server.url, cluster: false }, "dev", new AbortController().signal);
  expect(found.toSorted()).toEqual([GONE, KEPT]);
});

it("finds which of some clusters have a cache in the deployment, and rejects without an answer", async () => {
  await fill();
  await redis.del(`dl:dev:{${GONE}}:ep`);
  expect([...(await cachedAmong({ url: server.url, cluster: false }, "dev", [GONE, KEPT]))]).toEqual([KEPT]);
  expect([...(await cachedAmong({ url: server.url, cluster: false }, "another", [GONE, KEPT]))]).toEqual([]);
  await expect(cachedAmong({ url: "redis://127.0.0.1:1", cluster: false }, "dev", [KEPT])).rejects.toThrow();
});
