/** Data losses of real redis-servers (informer §11.7, §11.8). */
import { Redis } from "ioredis";
import { afterEach, describe, expect, it } from "vitest";

import { NotReplicatedError } from "../../../shared/store/redis/durable.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { inspectRedis, UnfitRedisError } from "../../../shared/store/redis/server.ts";
import { createServerClock } from "../../harness/store/server-clock.ts";
import { cachedPod, cachedReplicaSet, put } from "../../support/builders.ts";
import { eventually } from "../../support/eventually.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";
import { testSigner } from "../../support/signer.ts";
import { HOLE_LIMIT_MS, IDENTITY, StoreHarness, type StoreFixture } from "../../harness/store/store.ts";

const reason = ensureRedisServer();
const OPTIONS = { deployment: "loss", cluster: "0123456789ab", identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS };

describe.skipIf(reason)(`data loss in Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  });

  const start = async (...args: readonly string[]): Promise<{ readonly server: RedisServer; readonly client: Redis }> => {
    const server = await startRedis(...args);
    const client = new Redis(server.url);
    client.on("error", () => undefined);
    ends.push(
      () => server.stop(),
      () => client.disconnect(),
    );
    return { server, client };
  };
  const rigOn = (client: Redis, durability: "A" | "B" | "C"): StoreHarness => {
    const clock = createServerClock(1_772_359_200_000);
    const store = createRedisStore(client, { ...OPTIONS, signer: testSigner(OPTIONS.cluster), clock, durability });
    const unused = (): Promise<never> => Promise.reject(new Error("not in these tests"));
    return new StoreHarness({
      store,
      clock,
      beside: unused,
      spoil: unused,
      flush: unused,
      lose: unused,
      kept: unused,
      close: async () => {},
    } satisfies StoreFixture);
  };
  const replicaOf = async (primary: RedisServer): Promise<Redis> => {
    const { client } = await start("--replicaof", "127.0.0.1", String(primary.port));
    await eventually("the replica follows", async () => (await client.info("replication")).includes("master_link_status:up"));
    return client;
  };
  const checkpoint = (harness: StoreHarness, beat: number) =>
    harness.store.checkpoint({ epoch: harness.epoch, fence: harness.fence, sent: { pods: "1" }, beat, answered: beat - 1 });

  it("in class B, acknowledges writes only after a replica has them", async () => {
    const { server, client } = await start();
    const replica = await replicaOf(server);
    const harness = await rigOn(client, "B").synced();
    await harness.deliver("pods", [put(cachedPod({ resourceVersion: "10" }))]);
    await replica.call("REPLICAOF", "NO", "ONE");
    await eventually("the primary has no replica", async () => (await client.info("replication")).includes("connected_slaves:0"));
    await expect(harness.deliver("pods", [put(cachedPod({ resourceVersion: "11" }))])).rejects.toThrow(NotReplicatedError);
    const unread = put(cachedPod({ resourceVersion: "12" }), { unread: true });
    const sequence = harness.nextSequence("pods") + 1; // sequence 11 was committed, but only on this server
    // there is no write to wait for
    expect(await harness.deliver("pods", [unread], { asRead: true, sequence })).toMatchObject({ kind: "retry" });
    const other = put(cachedPod({ name: "other", uid: "uid-other", resourceVersion: "11" }), { unread: true });
    await expect(harness.deliver("pods", [other, unread], { asRead: true, sequence })).rejects.toThrow(NotReplicatedError);
  });

  it.each([
    { durability: "C" as const, gate: { open: false, reason: expect.stringContaining("another primary") } },
    { durability: "A" as const, gate: { open: true } },
  ])("detects the promotion of a replica (class $durability)", async ({ durability, gate }) => {
    const { server, client } = await start();
    const replica = await replicaOf(server);
    const harness = await rigOn(client, durability).synced();
    await client.wait(1, 1_000);
    await replica.call("REPLICAOF", "NO", "ONE");
    const successor = rigOn(replica, durability);
    expect(await successor.store.gate("replicaset")).toEqual(gate);
    expect((await checkpoint(harness, 1)).kind).toBe("ok");
    expect((await checkpoint(successor, 2)).kind).toBe("setBack"); // lost acknowledged writes are reported in both durability classes
  });

  it("WQ2 the key is not leased if a paused server executes a take after its caller has timed out", async () => {
    const { server, client } = await start();
    const harness = await rigOn(client, "C").synced();
    await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
    const impatient = new Redis(server.url, { commandTimeout: 200, maxRetriesPerRequest: 1 }).on("error", () => undefined);
    ends.push(() => impatient.disconnect());
    const stranded = rigOn(impatient, "C");
    await stranded.store.gate("replicaset");
    server.pause();
    await expect(stranded.store.take(stranded.run("replicaset", "shop/web"), { uid: cachedReplicaSet().metadata.uid })).rejects.toThrow(
      /timed out/,
    );
    server.resume();
    await impatient.ping(); // waits for the commands that were sent before
    expect(await harness.store.queued("replicaset")).toEqual([expect.objectContaining({ key: "shop/web", readyAtMs: expect.any(Number) })]);
    expect((await harness.taken("replicaset", "shop/web")).kind).toBe("ok");
  });

  it("IT1 the next command undoes a registration of intents that a paused server executed after its caller had timed out", async () => {
    const { server, client } = await start();
    const harness = await rigOn(client, "C").synced();
    await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    const { uid } = cachedReplicaSet().metadata;
    const impatient = new Redis(server.url, { commandTimeout: 200, maxRetriesPerRequest: 1 }).on("error", () => undefined);
    ends.push(() => impatient.disconnect());
    const stranded = rigOn(impatient, "C");
    await stranded.store.gate("replicaset");
    const run = stranded.run("replicaset", "shop/web");
    await stranded.store.add(harness.epoch, "replicaset", "shop/web", 0);
    await stranded.store.take(run, { uid });
    server.pause();
    await expect(stranded.store.registerIntents(run, uid, [{ id: "c:web-1", verb: "create", name: "web-1" }])).rejects.toThrow(/timed out/);
    const nothing = { resource: "pods", items: [], counts: [], ownerUid: uid, plan: [], gone: [], ownStatus: false } as const;
    const lowered = stranded.store.writeThrough(run, { ...nothing, lower: ["c:web-1"] });
    const ended = stranded.store.done(run, { kind: "retry" });
    await Promise.allSettled([lowered, ended]);
    server.resume();
    await impatient.ping(); // waits for the commands that were sent before
    await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
    expect(await harness.taken("replicaset", "shop/web")).toMatchObject({ kind: "ok", snapshot: { intents: [], failures: 1 } });
  });

  it("SL3 marks the Store as damaged when a lane is missing or keys were evicted", async () => {
    const { server, client } = await start();
    const harness = await rigOn(client, "C").synced();
    expect((await checkpoint(harness, 1)).kind).toBe("ok");
    const [ep = ""] = await client.keys("*:ep");
    const evicted = (await client.hget(ep, "evicted")) ?? "";
    expect(evicted.split("\u001F")).toEqual([expect.stringMatching(/^[0-9a-f]{40}$/), "0"]);
    await client.config("SET", "maxmemory-policy", "allkeys-random");
    await expect(inspectRedis({ url: server.url, cluster: false })).rejects.toThrow(UnfitRedisError);
    await client.set("somebody's", "x".repeat(1_000_000));
    await client.config("SET", "maxmemory", String(Number(/used_memory:(\d+)/.exec(await client.info("memory"))?.[1]) - 500_000));
    await client.set("more", "x").catch(() => undefined);
    await client.config("SET", "maxmemory", "0");
    const answer = await checkpoint(harness, 2);
    expect(["damaged", "noEpoch"]).toContain(answer.kind); // depends on the keys that were lost

    await client.flushall();
    await client.config("SET", "maxmemory-policy", "noeviction");
    await inspectRedis({ url: server.url, cluster: false });
    const whole = await rigOn(client, "C").synced();
    await client.del((await client.keys("*:l:pods:0"))[0] ?? "");
    expect(await whole.openFence("pods", "101")).toEqual({ kind: "damaged", why: "pods: lane 0 is missing" });
    expect(await checkpoint(whole, 1)).toEqual({ kind: "damaged", why: "pods: lane 0 is missing" });
    expect(await whole.store.gate("deployment")).toMatchObject({ open: false });
  });
});
