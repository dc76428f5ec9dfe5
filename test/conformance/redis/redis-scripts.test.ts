/** Properties that the port's suite cannot test: loading of the scripts, the keys that they leave, and their cost. */
import { testSigner } from "../../support/signer.ts";
import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { LANES, laneOf } from "../../../shared/store/lane.ts";
import { CACHED_RESOURCES, CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import type { ItemChange, Store } from "../../../shared/store/ports/store.ts";
import {
  asOwner,
  cachedPod,
  cachedReplicaSet,
  effect,
  expectation,
  keyOf,
  ownedBy,
  put,
  remove,
  replicaSetOwner,
} from "../../support/builders.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import type { RedisServer } from "../../support/redis.ts";
import { EPOCH, FIRST_BEAT, HOLE_LIMIT_MS, IDENTITY, ONE_LANE, outcomes, StoreHarness, writeOf } from "../../harness/store/store.ts";
import type { Lanes } from "../../harness/store/store.ts";
import { redisFixture, suiteRedis } from "./fixtures.ts";

const reason = ensureRedisServer();
const SCRIPTS_DIRECTORY = new URL("../../../shared/store/redis/scripts/", import.meta.url);
const rs = cachedReplicaSet({ name: "web", resourceVersion: "10" });
const rsKey = keyOf(rs);
const pod = (name: string, rv: string) => cachedPod({ name, resourceVersion: rv, owner: ownedBy("ReplicaSet", rs) });

it("scripts are read only by expressions that the build can inline", () => {
  const source = readFileSync(new URL("load.ts", SCRIPTS_DIRECTORY), "utf8");
  const reads = source.match(/readFileSync\(new URL\("\.\/[a-z/-]+\.lua", import\.meta\.url\), "utf8"\)/g) ?? [];
  const code = source.replace(/\/\*\*[\s\S]*?\*\//g, "");
  expect(reads.length).toBeGreaterThan(20);
  expect(code.match(/readFileSync\(/g)).toHaveLength(reads.length);
});

describe.skipIf(reason)(`Redis scripts${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const redis = suiteRedis();

  const open = async (lanes: Lanes = ONE_LANE): Promise<StoreHarness> => {
    const fixture = await redisFixture(() => new Redis(redis.server.url))({
      deployment: "scripts",
      cluster: "0123456789ab",
      identity: IDENTITY,
      holeLimitMs: HOLE_LIMIT_MS,
    });
    return new StoreHarness(fixture, lanes).synced();
  };
  const seedOwner = async (harness: StoreHarness): Promise<void> => {
    await harness.deliver("replicasets", [put(rs, { effects: [effect("replicaset", rs, { self: true })], counted: true })]);
  };

  it("SCRIPT FLUSH between and during calls has no effect (NOSCRIPT)", async () => {
    const harness = await open();
    await seedOwner(harness);
    for (let rv = 20; rv < 40; rv++) {
      const [answer] = await Promise.all([
        harness.deliver("pods", [put(pod("p", `${rv}`))]),
        redis.client.script("FLUSH"),
        harness.store.add(harness.epoch, "replicaset", rsKey, 0),
      ]);
      expect(outcomes(answer)).toEqual(["changed"]);
    }
    await redis.client.script("FLUSH");
    expect((await harness.taken("replicaset", rsKey)).snapshot.dependents).toHaveLength(1);
    await harness.fixture.close();
  });

  it("uses the server's time when no clock is given", async () => {
    await redis.client.flushall();
    const store = createRedisStore(redis.client, {
      deployment: "scripts",
      cluster: "0123456789ab",
      identity: IDENTITY,
      signer: testSigner("0123456789ab"),
      holeLimitMs: HOLE_LIMIT_MS,
    });
    await store.openEpoch(EPOCH);
    const [seconds, micros] = (await redis.client.time()).map(Number);
    await store.add(EPOCH.epoch, "replicaset", rsKey, 1_000);
    const [queued] = await store.queued("replicaset");
    const ahead = (queued?.readyAtMs ?? 0) - ((seconds ?? 0) * 1_000 + Math.floor((micros ?? 0) / 1_000));
    expect(ahead).toBeGreaterThanOrEqual(1_000);
    expect(ahead).toBeLessThan(3_000);
  });

  it("[informer T50] FLUSHALL under load writes nothing into the lost epoch, closes the gate, and a new epoch restores everything", async () => {
    const harness = await open();
    await seedOwner(harness);
    const { run } = await harness.taken("replicaset", rsKey);
    const kinds = new Set<string>();
    let stop = false;
    const load = async (name: string): Promise<void> => {
      for (let rv = 100; !stop; rv++) {
        const header = { ...harness.header("pods", { lane: 0, sequence: rv }), kind: "D" as const };
        kinds.add((await harness.store.applyPack(header, [put(pod(name, `${rv}`))], { counts: [] })).kind);
      }
    };
    const loads = Promise.all([load("a"), load("b"), load("c")]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await harness.fixture.flush();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await redis.client.dbsize()).toBe(0);
    stop = true;
    await loads;
    expect([...kinds].sort()).toEqual(["applied", "noEpoch", "retry"]);

    const verbs = everyVerb(harness.store, run.token);
    for (const [name, verb] of Object.entries(verbs)) {
      await verb();
      expect(await redis.client.dbsize(), name).toBe(0);
    }
    expect(await harness.take(harness.run("replicaset", rsKey))).toMatchObject({ kind: "gated" });
    expect(await harness.store.epoch()).toBeUndefined();

    const again = new StoreHarness(harness.fixture);
    again.epoch = "e2";
    await again.synced();
    for (const [name, verb] of Object.entries(verbs)) {
      if (CURRENT_EPOCH_VERBS.has(name)) continue;
      const before = await everything(redis.client);
      await verb();
      expect(await everything(redis.client), `${name} of the lost epoch`).toEqual(before);
    }
    expect((await harness.store.take(run, {})).kind).toBe("otherEpoch");
    await seedOwner(again);
    await again.deliver("pods", [put(pod("a", "500"))]);
    expect((await again.taken("replicaset", rsKey)).snapshot.dependents.map((row) => row.key)).toEqual(["shop/a"]);
    await harness.fixture.close();
  });

  it(
    "[informer T45] a reader always finds each row in exactly its own slice while 10,000 changes are applied",
    { timeout: 60_000 },
    async () => {
      const harness = await open();
      const owners = ["u1", "u2", "u3", "u4"];
      const prefix = "dl:scripts:{0123456789ab}:e1:";
      // Reads all keys in one atomic step on the server.
      const look = `local out = {} for i, key in ipairs(KEYS) do out[i] = redis.call("HGETALL", key) end return out`;
      const keys = [`${prefix}v:pods:0`, ...owners.map((uid) => `${prefix}s:pods:${replicaSetOwner(uid)}`), `${prefix}s:pods:-shop`];
      let applying = true;
      const reader = async (): Promise<number> => {
        let looks = 0;
        for (; applying; looks++) {
          const [rows = [], ...slices] = (await redis.client.eval(look, keys.length, ...keys)) as string[][]; // HGETALL returns lists
          const inRows = pairs(rows).map(([key, row]) => `${key} ${row.split("\x1f").slice(0, 3).join(" ")}`);
          const inSlices = slices.flatMap((slice, i) =>
            pairs(slice).map(
              ([key, entry]) =>
                `${key} ${entry.split("\x1f").slice(1, 3).join(" ")} ${owners[i] === undefined ? "" : replicaSetOwner(owners[i])}`,
            ),
          );
          expect(inSlices.toSorted()).toEqual(inRows.toSorted());
        }
        return looks;
      };
      let rv = 1;
      const apply = async (): Promise<void> => {
        for (let applied = 0; applied < 10_000;) {
          const items = Array.from({ length: 50 }, (_, n): ItemChange => {
            const owner = owners[(rv * 7 + n) % 5];
            const object = cachedPod({
              name: `p${(rv + n) % 120}`,
              resourceVersion: `${++rv}`,
              ...(owner !== undefined && { owner: { kind: "ReplicaSet", name: owner, uid: owner } }),
            });
            return n % 7 === 0 ? remove(object, `${rv}`) : put(object);
          });
          const distinct = new Map(items.map((item) => [item.key, item]));
          const view = await harness.store.readIndex({ rows: [...distinct.keys()].map((key) => ({ resource: "pods", key })) });
          const rows = new Map(view.rows.map(({ row }) => [row.key, row]));
          const prepared = [...distinct.values()].map((item) => {
            const row = rows.get(item.key);
            return row ? { ...item, expected: expectation(row) } : item;
          });
          applied += outcomes(await harness.deliver("pods", prepared, { asRead: true })).length;
        }
        applying = false;
      };
      const [looks] = await Promise.all([reader(), apply().finally(() => (applying = false))]);
      expect(looks).toBeGreaterThan(50);
      await harness.fixture.close();
    },
  );

  describe("counting laws (design.md, Speed)", () => {
    it("a sync without writes needs 2 commands; registerIntents, write-through and a read of slices need 1 each, a look-up 2", async () => {
      const harness = await open();
      await seedOwner(harness);
      await harness.deliver("pods", [put(pod("a", "20"), { effects: [effect("replicaset", rs)] })]);
      const ids = { uid: rs.metadata.uid };
      const run = harness.run("replicaset", rsKey);
      const count = counter(redis.client, redis.server);
      expect(await count(async () => void (await harness.store.take(run, ids)))).toBe(1);
      expect(
        await count(
          async () => void (await harness.store.registerIntents(run, rs.metadata.uid, [{ id: "c:b", verb: "create", name: "b" }])),
        ),
      ).toBe(1);
      const answers = Array.from({ length: 250 }, (_, n) => put(pod(`b${n}`, `${30 + n}`)));
      expect(
        await count(
          async () =>
            void (await harness.store.writeThrough(run, { ...writeOf("pods"), items: answers, ownerUid: rs.metadata.uid, lower: ["c:b"] })),
        ),
      ).toBe(1);
      expect(
        await count(
          async () =>
            void (await harness.store.readSlices([
              { resource: "pods", owner: "x" },
              { resource: "pods", orphansOf: "shop" },
            ])),
        ),
      ).toBe(1);
      expect(
        await count(
          async () =>
            void (await harness.store.readIndex({
              rows: [{ resource: "pods", key: "shop/a" }],
              primaries: [{ resource: "replicasets", namespace: "shop" }],
            })),
        ),
      ).toBe(2);
      // The responses to our own writes are in the cache before the stream reports them, so the objects are not read again.
      expect(await count(async () => void (await harness.store.readIndex({ rows: [{ resource: "pods", key: "shop/a", put: "1" }] })))).toBe(
        1,
      );
      expect(
        await count(async () => void (await harness.store.readIndex({ counts: [{ resource: "replicasets", namespace: "shop" }] }))),
      ).toBe(1);
      expect(await count(async () => void (await harness.store.done(run, { kind: "ok" })))).toBe(1);
      await harness.fixture.close();
    });

    it("a fresh process needs no additional commands with the usual number of lanes", async () => {
      const harness = await open(LANES);
      await seedOwner(harness);
      const client = redis.client.duplicate();
      onTestFinished(() => client.disconnect());
      await client.ping(); // connecting takes commands of its own
      const fresh = createRedisStore(client, {
        deployment: "scripts",
        cluster: "0123456789ab",
        identity: IDENTITY,
        signer: testSigner("0123456789ab"),
        holeLimitMs: HOLE_LIMIT_MS,
        clock: harness.fixture.clock,
      });
      const count = counter(redis.client, redis.server);
      const run = harness.run("replicaset", rsKey);
      const ids = { uid: rs.metadata.uid };
      // INFO is an additional command in the same socket write.
      expect(await count(async () => expect((await fresh.take(run, ids)).kind).toBe("ok"))).toBe(2);
      const answer = put(pod("z", "50"));
      expect(
        await count(async () =>
          expect((await fresh.writeThrough(run, { ...writeOf("pods"), items: [answer], ownerUid: rs.metadata.uid })).kind).toBe("ok"),
        ),
      ).toBe(1);
      expect(await count(async () => void (await fresh.done(run, { kind: "ok" })))).toBe(1);
      await harness.fixture.close();
    });

    it("Redis keeps a pod in 750 bytes, and a snapshot reads at most 450 for it", async () => {
      const harness = await open(LANES);
      await seedOwner(harness);
      const count = 3_000;
      const before = await memory(redis.client);
      const items = Array.from({ length: count }, (_, n) => put(realisticPod(n)));
      for (const [lane, ofLane] of Map.groupBy(items, (item) => laneOf(item.key, LANES.pods))) {
        for (let at = 0; at < ofLane.length; at += 100) await harness.deliver("pods", ofLane.slice(at, at + 100), { lane, asRead: true });
      }
      expect(((await memory(redis.client)) - before) / count).toBeLessThanOrEqual(750);

      await harness.store.add(harness.epoch, "replicaset", rsKey, 0);
      const run = harness.run("replicaset", rsKey);
      const out = await sent(redis.client);
      const taken = await harness.store.take(run, { uid: rs.metadata.uid });
      const bytes = (await sent(redis.client)) - out;
      expect(taken.kind === "ok" && taken.snapshot.dependents.length).toBe(count);
      expect(bytes).toBeLessThanOrEqual(4_096 + 450 * count);
      await harness.fixture.close();
    });
  });

  it("compares a namespace's object count only at the start of a call, before the call's own changes", async () => {
    const harness = await open();
    const other = cachedReplicaSet({ name: "other", resourceVersion: "12" });
    const both = [put(rs, { counted: true }), put(other, { counted: true })];
    expect(
      outcomes(await harness.deliver("replicasets", both, { counts: [{ resource: "replicasets", namespace: "shop", count: 0 }] })),
    ).toEqual(["changed", "changed"]);
    await harness.fixture.close();
  });

  it("identifies the primary to enqueue by its whole uid, not by a prefix", async () => {
    const harness = await open();
    await seedOwner(harness);
    await harness.taken("replicaset", rsKey);
    const near = { ...effect("replicaset", rs), uid: rs.metadata.uid.slice(0, -1) };
    await harness.deliver("pods", [put(pod("a", "20"), { effects: [near] })]);
    expect(await harness.dirty("replicaset")).toEqual([]);
    await harness.fixture.close();
  });

  it("IT4 [informer T43] the deletion of an object leaves no empty slice, set member, intent or queue field", async () => {
    const harness = await open();
    const fields = async (): Promise<Readonly<Record<string, number>>> => {
      const keys = (await redis.client.keys("*")).filter((key) => !/:(l|m|n):|:(ep|tally|opened)$/.test(key)).sort();
      return Object.fromEntries(await Promise.all(keys.map(async (key) => [key, await redis.client.hlen(key)] as const)));
    };
    const empty = await fields();
    await harness.deliver("replicasets", [put(rs, { effects: [effect("replicaset", rs, { self: true })], counted: true })]);
    const { run } = await harness.taken("replicaset", rsKey);
    const lower = { owner: asOwner("replicaset", rs), op: "c:a" };
    await harness.store.registerIntents(run, rs.metadata.uid, [
      { id: "c:a", verb: "create", name: "a" },
      { id: "c:b", verb: "create", name: "b" },
      { id: "c:c", verb: "create", name: "c" },
    ]);
    await harness.deliver("pods", [put(pod("a", "20"), { lowers: [lower] })]);
    await harness.writeThrough(run, "pods", [put(pod("b", "21"))], {
      ownerUid: rs.metadata.uid,
      lower: ["c:b"],
      plan: [{ id: "c:c", mayLand: false }],
    });
    expect((await redis.client.hkeys(`dl:scripts:{0123456789ab}:e1:i:${asOwner("replicaset", rs)}`)).sort()).toEqual(["c:c"]);
    await harness.deliver("pods", [put(pod("c", "22"), { lowers: [{ ...lower, op: "c:c" }] })]);
    expect(await redis.client.exists(`dl:scripts:{0123456789ab}:e1:i:${asOwner("replicaset", rs)}`)).toBe(0);
    await harness.store.registerIntents(run, rs.metadata.uid, [{ id: "c:d", verb: "create", name: "d" }]);
    await harness.store.done(run, { kind: "requeueAfter", delayMs: 0 });
    for (const name of ["a", "b", "c"]) await harness.deliver("pods", [remove(pod(name, "30"), "30")]);
    const self = { effects: [effect("replicaset", rs, { self: true })], counted: true };
    await harness.deliver("replicasets", [remove(rs, "40", self)]);
    const last = await harness.taken("replicaset", rsKey);
    expect(last.snapshot.primary).toBeUndefined();
    await harness.store.done(last.run, { kind: "ok" });
    expect(await fields()).toEqual(empty);
    await harness.fixture.close();
  });

  it("flags a deleted pod as gone even if its owner has changed meanwhile", async () => {
    const harness = await open();
    await seedOwner(harness);
    const { run } = await harness.taken("replicaset", rsKey);
    const moved = cachedPod({ name: "a", resourceVersion: "20", owner: { kind: "ReplicaSet", name: "else", uid: "else" } });
    await harness.deliver("pods", [put(moved)]);
    const answer = await harness.writeThrough(run, "pods", [], { ownerUid: rs.metadata.uid, gone: [{ key: "shop/a", uid: moved.uid }] });
    expect(answer.kind).toBe("ok");
    expect((await harness.row("pods", "shop/a"))?.gone).toBe(true);
    expect((await harness.store.readLane("pods", 0)).rows[0]?.gone).toBe(true);
    await harness.fixture.close();
  });

  it("verifies a lane of 5,000 rows and deletes those that are not listed in one step", { timeout: 60_000 }, async () => {
    const harness = await open();
    const pods = Array.from({ length: 5_000 }, (_, n) => cachedPod({ name: `p${n}`, resourceVersion: `${n + 1}` }));
    for (let at = 0; at < pods.length; at += 100)
      await harness.deliver(
        "pods",
        pods.slice(at, at + 100).map((object) => put(object)),
        { asRead: true },
      );
    await harness.openGeneration("pods");
    const kept = pods.filter((_, n) => n % 2 === 0);
    expect(
      (
        await harness.manifest(
          "pods",
          kept.map((object) => ({ key: keyOf(object), uid: object.uid, rv: object.resourceVersion })),
          "6000",
        )
      ).kind,
    ).toBe("applied");
    expect((await harness.store.readLane("pods", 0)).rows).toHaveLength(kept.length);
    const [orphans] = await harness.store.readSlices([{ resource: "pods", orphansOf: "shop" }]);
    expect(orphans).toHaveLength(kept.length);
    await harness.fixture.close();
  });
});

/** Verbs that look up the current epoch themselves, so that they write into the new one, which is correct. */
const CURRENT_EPOCH_VERBS = new Set(["markSuspect", "quarantine"]);

/** Returns every writing verb, called with the replaced epoch. */
function everyVerb(store: Store, token: string): Readonly<Record<string, () => Promise<unknown>>> {
  const run = { epoch: "e1", controller: "replicaset", key: rsKey, token } as const;
  const header = { epoch: "e1", fence: EPOCH.fence, generation: 1, resource: "pods", lane: 0, sequence: 9_000 } as const;
  const row = { rv: "10", uid: rs.metadata.uid };
  return {
    openFence: () => store.openFence({ epoch: "e1", fence: "999", resource: "pods", lanes: 1 }),
    openGeneration: () => store.openGeneration({ epoch: "e1", fence: EPOCH.fence, resource: "pods" }),
    checkpoint: () => store.checkpoint({ epoch: "e1", fence: EPOCH.fence, sent: { pods: "5" }, ...FIRST_BEAT }),
    markSuspect: () => store.markSuspect("pods", "test"),
    quarantine: () => store.quarantine({ what: "x", where: "y", why: "z", atMs: 0 }),
    applyPack: () =>
      store.applyPack({ ...header, kind: "D" }, [put(pod("x", "900"), { effects: [effect("replicaset", rs)] })], {
        counts: [],
        commit: { watermark: "900" },
      }),
    applyPackW: () => store.applyPack({ ...header, kind: "W" }, [], { counts: [], commit: { watermark: "900" } }),
    stashManifest: () => store.stashManifest(header, [{ key: "shop/x", uid: "x", rv: "1" }]),
    applyManifest: () =>
      store.applyManifest(header, { listRV: "900", rows: [{ key: "shop/x", uid: "x", rv: "1" }], sweep: [], counts: [] }),
    add: () => store.add("e1", "replicaset", rsKey, 0),
    take: () => store.take(run, {}),
    renew: () => store.renew(run),
    done: () => store.done(run, { kind: "retry" }),
    sweep: () => store.sweep("e1"),
    registerIntents: () => store.registerIntents(run, rs.metadata.uid, [{ id: "c:x", verb: "create", name: "x" }]),
    writeThrough: () =>
      store.writeThrough(run, {
        ...writeOf("replicasets"),
        items: [{ ...put(rs), expected: expectation({ ...row, key: rsKey, gone: false }) }],
        ownerUid: rs.metadata.uid,
        lower: ["c:x"],
      }),
    reads: async () => {
      await store.readIndex({ rows: [{ resource: "pods", key: "shop/x" }] });
      await Promise.all(CACHED_RESOURCES.map((resource) => store.readLane(resource, 0)));
      await Promise.all(CONTROLLERS.map((controller) => store.queued(controller)));
      await store.readManifest(header);
    },
  };
}

/** Returns all keys of epochs and all inputs of decisions; omits the item counters, which survive an epoch (TY1). */
async function everything(client: Redis): Promise<Readonly<Record<string, string>>> {
  const keys = (await client.keys("*")).filter((key) => !key.endsWith(":tally")).sort();
  return Object.fromEntries(await Promise.all(keys.map(async (key) => [key, (await client.dumpBuffer(key)).toString("latin1")] as const)));
}

function pairs(flat: readonly string[]): readonly (readonly [string, string])[] {
  return flat.flatMap((field, i) => (i % 2 === 0 ? [[field, flat[i + 1] ?? ""] as const] : []));
}

/** Counts with MONITOR the commands that clients send during `action`, without commands inside scripts. */
function counter(client: Redis, server: RedisServer): (action: () => Promise<void>) => Promise<number> {
  return async (action) => {
    // Starts MONITOR before other commands: output during the setup would reach ioredis before it is in monitor mode.
    const monitor = await new Redis(server.url, { lazyConnect: true }).monitor();
    const seen: string[] = [];
    let marker = 0;
    const settle = async (): Promise<void> => {
      const mark = `mark-${++marker}`;
      const arrived = new Promise<void>((resolve) => {
        monitor.on("monitor", (_time: string, args: readonly string[]) => {
          if (args[1] === mark) resolve();
        });
      });
      await client.echo(mark);
      await arrived;
    };
    monitor.on("monitor", (_time: string, args: readonly string[], source: string) => {
      if (source !== "lua" && args[0]?.toLowerCase() !== "echo") seen.push(args[0] ?? "");
    });
    await settle();
    seen.length = 0;
    await action();
    await settle();
    monitor.disconnect();
    return seen.length;
  };
}

async function memory(client: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await client.info("memory"))?.[1]);
}

async function sent(client: Redis): Promise<number> {
  return Number(/total_net_output_bytes:(\d+)/.exec(await client.info("stats"))?.[1]);
}

/** A pod with names, uids and labels of typical length, because short ones would make the results too favourable. */
function realisticPod(n: number) {
  const hex = n.toString(16).padStart(12, "0");
  return cachedPod({
    namespace: "shop",
    name: `web-frontend-7f8fb6d5c9-${hex.slice(-5)}`,
    uid: `9d3b7c52-1f4e-4a6b-8c0d-${hex}`,
    resourceVersion: String(812_345_678 + n),
    labels: { app: "web-frontend", "pod-template-hash": "7f8fb6d5c9" },
    owner: ownedBy("ReplicaSet", rs),
    nodeName: "ip-10-0-13-17.eu-central-1.compute.internal",
    phase: "Running",
    ready: { status: "True", since: "2026-03-01T10:00:02Z" },
  });
}
