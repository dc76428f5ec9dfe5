/** Stores of several clusters on one connection. Catches: a connection for each cluster, a cluster that reads or ends another's. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { openCache, shareConnections } from "../../../shared/controllers/lambda/connect.ts";
import { CONTROLLERS, tableOf } from "../../../shared/kube/objects/resources.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";

const missing = ensureRedisServer();
describe.skipIf(missing !== undefined)(`shared connections${missing === undefined ? "" : ` (${missing})`}`, () => {
  let [server, admin]: [RedisServer?, Redis?] = [];
  beforeAll(async () => {
    server = await startRedis();
    admin = new Redis(server.url);
  });
  afterAll(async () => {
    admin?.disconnect();
    await server?.stop();
  });

  it("serve 20 clusters with one connection, each with its own epoch, also after another's Store is closed", async () => {
    const queue = "http://127.0.0.1:9/q";
    const errors: Error[] = [];
    const shared = shareConnections(
      { redis: { url: server?.url ?? "", cluster: false }, queues: { deltas: queue, doorbells: tableOf(CONTROLLERS, () => queue) } },
      (error) => errors.push(error),
    );
    const caches = Array.from({ length: 20 }, (_, i) =>
      openCache({ deployment: "test", cluster: String(i).padStart(32, "0"), digestKey: "a key", macKeys: ["a mac key"] }, shared.makeStore),
    );
    for (const [i, { store, identity }] of caches.entries())
      await store.openEpoch({ epoch: `epoch-${i}`, clusterUid: "a clone", fence: "1", ...identity }, undefined);
    await caches[0]?.store.close();
    const epochs = await Promise.all(caches.map(async ({ store }) => (await store.epoch())?.epoch));
    expect(epochs).toEqual(caches.map((_, i) => `epoch-${i}`));
    expect((await clients()).length).toBe(2); // with the test's own
    shared.close();
    await expect.poll(async () => (await clients()).length).toBe(1);
    expect(errors).toEqual([]);
  });

  const clients = async (): Promise<readonly string[]> =>
    String(await admin?.client("LIST"))
      .trim()
      .split("\n");
});
