/** Scripts with user-chosen names of controllers and resources: hyphens, dots, and one name within another. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createContext, gateArgs } from "../../../shared/store/redis/context.ts";
import type { Context } from "../../../shared/store/redis/context.ts";
import { changeArgs } from "../../../shared/store/redis/changes.ts";
import { tallyPlace } from "../../../shared/store/redis/tally-store.ts";
import { asOwner, cachedPod, cachedReplicaSet, effect, keyOf, ownedBy, put } from "../../support/builders.ts";
import { HOLE_LIMIT_MS, IDENTITY, StoreHarness } from "../../harness/store/store.ts";
import { testSigner } from "../../support/signer.ts";
import { ensureRedisServer, startRedis } from "../../support/redis.ts";
import type { RedisServer } from "../../support/redis.ts";
import { redisFixture } from "./fixtures.ts";

const reason = ensureRedisServer();
const OPTIONS = { deployment: "names", cluster: "0123456789ab", identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS };
const rs = cachedReplicaSet({ name: "web", resourceVersion: "10" });
const KEY = keyOf(rs);

describe.skipIf(reason)(`names in Redis scripts${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  let server: RedisServer;
  let client: Redis;
  let harness: StoreHarness;
  let context: Context;
  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.url);
    harness = await new StoreHarness(await redisFixture(() => new Redis(server.url))(OPTIONS)).synced();
    await harness.seed("replicasets", [put(rs, { effects: [effect("replicaset", rs, { self: true })], counted: true })]);
    context = createContext(client, { ...OPTIONS, signer: testSigner(OPTIONS.cluster), clock: harness.fixture.clock });
  });
  afterAll(async () => {
    await harness.fixture.close();
    client.disconnect();
    await server.stop();
  });

  it("a create observed for a controller named team-guard enqueues a key of that controller, not of a controller named guard", async () => {
    const names = context.names.of(harness.epoch);
    const owner = asOwner("replicaset", rs);
    const { run } = await harness.taken("replicaset", KEY);
    await harness.store.registerIntents(run, rs.metadata.uid, [{ id: "c:a", verb: "create", name: "a" }]);
    await harness.store.done(run, { kind: "ok" });
    const intent = (await client.hget(names.intents(owner), "c:a")) ?? "";
    await client.hset(names.intents(owner), "c:a", intent.replace("\x1freplicaset\x1f", "\x1fteam-guard\x1f"));
    const header = harness.header("pods", { lane: 0 });
    const table = context.keys("applyPack", { lane: names.lane("pods", 0), tally: context.names.tally, meta: names.meta("pods") });
    const item = put(cachedPod({ name: "a", resourceVersion: "20", owner: ownedBy("ReplicaSet", rs) }), { lowers: [{ owner, op: "c:a" }] });
    const changes = changeArgs(names, table, {
      catalog: context.catalog,
      seal: context.seal(harness.epoch),
      resource: "pods",
      laneOf: () => 0,
      items: [item],
      counts: [],
    });
    const call = table.call(harness.epoch, {
      fence: header.fence,
      projection: String(IDENTITY.projection),
      kind: header.kind,
      sequence: header.sequence,
      mark: "20",
      listRV: "",
      historyLostReason: "",
      place: tallyPlace("pods", 0),
      leavesOut: false,
      part: "",
      after: "",
      ...changes,
      loweredQueues: `guard:${table.block(names.queue("deployment"))},team-guard:${table.block(names.queue("replicaset"))}`,
      metas: [],
    });
    expect(await context.run(call)).toMatchObject(["applied", expect.anything(), "c"]);
    expect(await client.hexists(names.intents(owner), "c:a")).toBe(0);
    expect(await client.zrange(names.queue("replicaset")[0], "0", "-1")).toEqual([KEY]);
    expect(await client.zcard(names.queue("deployment")[0])).toBe(0);
  });

  it("closing the gate for a resource does not close it for a resource with a longer name of the same prefix", async () => {
    const names = context.names.of(harness.epoch);
    await harness.store.add(harness.epoch, "replicaset", KEY, 0);
    await harness.pass(10_000);
    await harness.store.markSuspect("deployments", "test");
    const sweep = async (resources: string): Promise<unknown> => {
      const table = context.keys("sweep", {});
      const gate = gateArgs(context, names, table, ["deployments", "replicasets"]);
      const [closed, synced] = gate.gate;
      if (!closed || !synced) throw new Error("no gate");
      return context.run(
        table.call(harness.epoch, {
          ...gate,
          gate: [
            { ...closed, lanes: 1 },
            { ...synced, lanes: 1, resource: "deployments.apps.example.com" },
          ],
          readers: [{ queueBase: table.block(names.queue("replicaset")), resources }],
        }),
      );
    };
    expect(await sweep("pods,deployments")).toEqual(["ok", []]);
    expect(await sweep("deployments.apps.example.com,pods")).toEqual([
      "ok",
      [expect.anything(), KEY, expect.anything(), expect.anything()],
    ]);
  });
});
