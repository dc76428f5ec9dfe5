/** The data that `doctor` reads from Redis, compared with the Store that wrote it. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createRedisProbe, type RedisProbe } from "../../../shared/store/redis/inspect/probe.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { lanesOf } from "../../../shared/store/lane.ts";
import { cachedReplicaSet, put } from "../../support/builders.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";
import { testSigner } from "../../support/signer.ts";
import { createServerClock } from "../../harness/store/server-clock.ts";
import { HOLE_LIMIT_MS, IDENTITY, StoreHarness } from "../../harness/store/store.ts";

const reason = ensureRedisServer();
const CACHE = { deployment: "probed", cluster: "0123456789ab" };
const START_MS = 1_772_359_200_000;

describe.skipIf(reason)(`inspecting Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  let [server, client, probe]: [RedisServer?, Redis?, RedisProbe?] = [];
  let harness: StoreHarness;
  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.url);
    probe = createRedisProbe({ url: server.url, cluster: false }, CACHE);
    const clock = createServerClock(START_MS);
    const signer = testSigner(CACHE.cluster);
    const store = createRedisStore(client, { ...CACHE, identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS, signer, clock });
    const unused = (): Promise<never> => Promise.reject(new Error("not in these tests"));
    harness = new StoreHarness({
      store,
      clock,
      beside: unused,
      spoil: unused,
      flush: unused,
      lose: unused,
      kept: unused,
      close: async () => {},
    });
    await harness.synced();
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "140" }), { counted: true })]);
  });
  afterAll(async () => {
    probe?.close();
    client?.disconnect();
    await server?.stop();
  });

  it("reports its version and time", async () => {
    const before = Date.now();
    const { timeMs, ...facts } = (await probe?.server()) ?? never();
    expect(timeMs).toBeGreaterThanOrEqual(before - 1_000);
    expect(timeMs).toBeLessThanOrEqual(Date.now() + 1_000);
    expect(facts).toMatchObject({ version: expect.stringMatching(/^\d+\.\d+/), role: "master", policy: "noeviction", loading: false });
  });

  it("shows each stream: fence, state, sent version, and its lanes", async () => {
    const beat = { beat: 1, answered: 0 };
    await harness.store.checkpoint({ epoch: harness.epoch, fence: harness.fence, sent: { replicasets: "141" }, ...beat });
    await harness.deliver("pods", [], { kind: "W", watermark: "150", sequence: harness.nextSequence("pods") + 1 });
    const streams = (await probe?.streams(harness.epoch)) ?? [];
    expect(streams.map(({ resource, state, fence }) => ({ resource, state, fence }))).toEqual(
      Object.keys({ deployments: 0, replicasets: 0, replicationcontrollers: 0, pods: 0 }).map((resource) => ({
        resource,
        state: "SYNCED",
        fence: harness.fence,
      })),
    );
    const of = (name: string) => streams.find(({ resource }) => resource === name);
    expect(of("replicasets")).toMatchObject({ sentRV: "141", lanes: [{ watermark: "140", frozen: false, appliedAtMs: START_MS }] });
    expect(of("replicasets")?.lanes[0]).not.toHaveProperty("holeSinceMs");
    expect(of("pods")).not.toHaveProperty("sentRV");
    expect(of("pods")?.lanes).toEqual([expect.objectContaining({ holeSinceMs: START_MS })]);
  });

  it("shows an epoch without writes", async () => {
    const streams = (await probe?.streams("another")) ?? [];
    expect(streams.map(({ state, lanes }) => [state, lanes.length])).toEqual(streams.map(({ resource }) => ["INIT", lanesOf(resource)]));
    expect(streams[0]?.lanes[0]).toEqual({ watermark: "0", frozen: false });
  });

  it("shows the intents of the first owners, and the number of owners", async () => {
    await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
    const { run } = await harness.taken("replicaset", "shop/web");
    await harness.store.registerIntents(run, cachedReplicaSet().metadata.uid, [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    const one = { controller: "replicaset", key: "shop/web", intents: [expect.objectContaining({ id: "c:web-1", state: "pending" })] };
    expect(await probe?.intents(harness.epoch, 10)).toEqual({ owners: 1, found: [one] });
    expect(await probe?.intents(harness.epoch, 0)).toEqual({ owners: 1, found: [] });
  });

  it("reports a failed connection", async () => {
    const nowhere = createRedisProbe({ url: "redis://127.0.0.1:1", cluster: false }, CACHE);
    await expect(nowhere.server()).rejects.toThrow();
    expect(nowhere.lastError()?.message).toMatch(/ECONNREFUSED/);
    nowhere.close();
  });
});

function never(): never {
  throw new Error("the server was started");
}
