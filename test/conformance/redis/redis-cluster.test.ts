/** The Store on a real 3-node cluster. */
import type { Cluster } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { redisClient } from "../../../shared/store/redis/client.ts";
import { laneOf } from "../../../shared/store/lane.ts";
import { asOwner, cachedPod, cachedReplicaSet, effect, expectation, keyOf, ownedBy, put } from "../../support/builders.ts";
import { ensureRedisServer, startRedisCluster, type RedisCluster } from "../../support/redis.ts";
import { storeConformance } from "../store.ts";
import { HOLE_LIMIT_MS, IDENTITY, ONE_LANE, outcomes, StoreHarness } from "../../harness/store/store.ts";
import { clusterFixture } from "./fixtures.ts";

const reason = ensureRedisServer();
const LANES = { ...ONE_LANE, pods: 4 };
const PODS = 200;

describe.skipIf(reason)(`Redis cluster${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster(3);
  });
  afterAll(() => cluster.stop());
  // With `cluster: true`, redisClient returns a Cluster.
  const connect = (): Cluster => redisClient({ url: cluster.nodes[0]?.url ?? "", cluster: true }) as Cluster;

  storeConformance("a Redis cluster", clusterFixture(connect));

  it("[informer T47] loses nothing and fails no call while a slot moves between nodes under load", { timeout: 60_000 }, async () => {
    const cid = "0123456789ab";
    const client = connect();
    const fixture = await clusterFixture(() => client)({
      deployment: "moving",
      cluster: cid,
      identity: IDENTITY,
      holeLimitMs: HOLE_LIMIT_MS,
    });
    const harness = await new StoreHarness(fixture, LANES).synced();
    const rs = cachedReplicaSet({ name: "web", resourceVersion: "10" });
    await harness.deliver("replicasets", [put(rs, { effects: [effect("replicaset", rs, { self: true })], counted: true })]);
    const podOf = (n: number, rv: number) => cachedPod({ name: `p${n}`, resourceVersion: `${rv}`, owner: ownedBy("ReplicaSet", rs) });
    const [slot] =
      (await client
        .nodes("master")[0]
        ?.cluster("KEYSLOT", `{${cid}}`)
        .then((answer) => [answer])) ?? [];
    if (slot === undefined) throw new Error("no slot");

    let moving = true;
    const versions = new Map<string, string>();
    let version = 100;
    const apply = async (lane: number): Promise<number> => {
      let calls = 0;
      const here = Array.from({ length: PODS }, (_, n) => n).filter((n) => laneOf(keyOf(podOf(n, 1)), LANES.pods) === lane);
      while (moving || calls < 3) {
        const items = here
          .slice(0, 1 + (calls % here.length))
          .map((n) => put(podOf(n, ++version), { effects: [effect("replicaset", rs)] }));
        expect(outcomes(await harness.deliver("pods", items, { lane })).every((outcome) => outcome === "changed")).toBe(true);
        for (const item of items) versions.set(item.key, item.rv);
        calls++;
      }
      return calls;
    };
    const sync = async (): Promise<number> => {
      let syncs = 0;
      while (moving || syncs < 3) {
        await harness.store.add(harness.epoch, "replicaset", keyOf(rs), 0);
        const { run, snapshot } = await harness.taken("replicaset", keyOf(rs));
        expect(snapshot.primary?.uid).toBe(rs.metadata.uid);
        const [first] = snapshot.dependents;
        if (first) expect((await harness.row("pods", first.key))?.uid).toBe(first.uid);
        const answer = put(cachedReplicaSet({ name: "web", resourceVersion: `${++version}` }));
        const row = await harness.row("replicasets", keyOf(rs));
        const write = await harness.writeThrough(run, "replicasets", [], {
          items: [{ ...answer, ...(row && { expected: expectation(row) }) }],
          ownerUid: rs.metadata.uid,
        });
        expect(write.kind).toBe("ok");
        expect((await harness.store.done(run, { kind: "ok" })).kind).toBe("done");
        syncs++;
      }
      return syncs;
    };
    const load = Promise.all([...Array.from({ length: LANES.pods }, (_, lane) => apply(lane)), sync()]);
    const move = async (): Promise<number> => {
      let moved = 0;
      for (let round = 0; round < 4; round++) {
        const from = await cluster.ownerOf(slot);
        moved += await cluster.moveSlot(slot, from, (from + 1) % 3, { batch: 3, pauseMs: 5 });
        await new Promise((resolve) => setTimeout(resolve, 200)); // calls wait while the slot's keys are on both nodes
      }
      moving = false;
      return moved;
    };
    const [work, moved] = await Promise.all([load, move().finally(() => (moving = false))]);
    expect(moved).toBeGreaterThan(80);
    expect(Math.min(...work)).toBeGreaterThan(10);
    const rows = (await Promise.all(Array.from({ length: LANES.pods }, (_, lane) => harness.store.readLane("pods", lane)))).flatMap(
      (each) => each.rows,
    );
    expect(new Map(rows.map((row) => [row.key, row.rv]))).toEqual(versions);
    const [slice] = await harness.store.readSlices([{ resource: "pods", owner: asOwner("replicaset", rs) }]);
    expect(new Map(slice?.map((row) => [row.key, row.rv]))).toEqual(versions);
    await fixture.close();
  });
});
