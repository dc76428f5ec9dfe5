/** Epochs, fences, checkpoints, and losses and restores of the Store (informer §10.6, §11.7, §14). */
import { EPOCH_GRACE_MS } from "../../../shared/base/times.ts";
import { expect, it as base } from "vitest";

import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { cachedPod, cachedReplicaSet, effect, put } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { EPOCH, FIRST_BEAT, IDENTITY, ONE_LANE, StoreHarness, outcomes, writeOf } from "../../harness/store/store.ts";

const RS = "shop/web";

export function epochCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("intervals of periodic jobs start at an epoch's first query, separately for each job and epoch", async ({ harness }) => {
    const turn = async (afterMs: number, job = "audit", epoch = harness.epoch) =>
      (await harness.store.takeTurns(epoch, [{ job, afterMs }])).length > 0;
    expect(await turn(60_000)).toBe(false);
    await harness.pass(59_999);
    expect(await turn(5)).toBe(false); // does not change the interval
    await harness.pass(1);
    const both = [
      { job: "resync", afterMs: 30_000 },
      { job: "audit", afterMs: 10_000 },
    ];
    expect(await harness.store.takeTurns(harness.epoch, both)).toEqual(["audit"]);
    expect(await turn(10_000)).toBe(false);
    await harness.pass(10_000);
    expect(await turn(10_000)).toBe(true);
    expect(await turn(1, "audit", "e-other")).toBe(false);
    await harness.fixture.clock.advance(1);
    expect(await turn(1, "audit", "e-other")).toBe(false);
  });

  it("removes the data of a replaced epoch after a delay, and no data of the current epoch", async ({ harness }) => {
    await harness.store.openEpoch({ ...EPOCH, epoch: "e2" }, harness.epoch);
    const before = harness.epoch;
    harness.epoch = "e2";
    await harness.synced();
    const kept = await harness.fixture.kept("e2");
    const walk = async (): Promise<void> => {
      for (let call = 0; call < 3; call++) await harness.store.forgetEpochs("e2");
    };
    await walk();
    await harness.fixture.clock.advance(EPOCH_GRACE_MS);
    await walk();
    expect(kept).toBeGreaterThan(0);
    expect([await harness.fixture.kept(before), await harness.fixture.kept("e2")]).toEqual([0, kept]);
  });

  it("opens only one of several concurrent epochs, even when candidates retry", async () => {
    const { store } = await open();
    expect(await store.epoch()).toBeUndefined();
    expect(await store.openEpoch(EPOCH)).toEqual({ kind: "opened" });
    expect(await store.epoch()).toEqual(EPOCH);
    expect(await store.openEpoch({ ...EPOCH, epoch: "e2" })).toEqual({ kind: "exists", record: EPOCH });
    expect(await store.openEpoch({ ...EPOCH, fence: "999" })).toEqual({ kind: "exists", record: EPOCH });
    expect(await store.openEpoch({ ...EPOCH, epoch: "e2" }, "e0")).toEqual({ kind: "exists", record: EPOCH });
    expect(await store.openEpoch({ ...EPOCH, fence: "999" }, "e1")).toEqual({ kind: "exists", record: EPOCH }); // epoch names are never reused
    const next = { ...EPOCH, epoch: "e2", fence: "101" };
    expect(await store.openEpoch(next, "e1")).toEqual({ kind: "opened" });
    expect(await store.openEpoch(next, "e1")).toEqual({ kind: "exists", record: next }); // as after a lost response
    expect(await store.epoch()).toEqual(next);
  });

  it("[informer A1] callers of an older epoch neither read nor write data of the new epoch", async ({ harness }) => {
    await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "900" }))]);
    await harness.store.add(harness.epoch, "replicaset", RS, 0);
    const { run } = await harness.taken("replicaset", RS);
    await harness.store.openEpoch({ ...EPOCH, epoch: "e2", fence: "101" }, "e1");

    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
    expect((await harness.store.readLane("pods", 0)).rows).toEqual([]);
    expect(await harness.store.queued("replicaset")).toEqual([]);
    expect(await harness.deliver("pods", [put(cachedPod())])).toEqual({ kind: "dropped", why: "epoch" });
    expect(await harness.manifest("pods", [], "9")).toEqual({ kind: "dropped", why: "epoch" });
    expect(await harness.openFence("pods", "300")).toEqual({ kind: "noEpoch" });
    expect(await harness.store.openGeneration({ epoch: "e1", fence: "100", resource: "pods" })).toEqual({ kind: "noEpoch" });
    expect(await harness.store.checkpoint({ epoch: "e1", fence: "100", sent: {}, ...FIRST_BEAT })).toEqual({ kind: "noEpoch" });
    expect(await harness.store.take(run, {})).toEqual({ kind: "otherEpoch" });
    expect(await harness.store.renew(run)).toBeUndefined();
    expect(await harness.store.done(run, { kind: "ok" })).toEqual({ kind: "stolen" });
    expect(await harness.store.registerIntents(run, "u", [])).toBe("stolen");
    expect(await harness.store.writeThrough(run, writeOf("pods"))).toEqual({ kind: "otherEpoch" });
    expect(await harness.store.add("e1", "replicaset", RS, 0)).toBeUndefined();
    expect(await harness.store.sweep("e1")).toEqual([]);
    expect(await harness.store.queued("replicaset")).toEqual([]);

    // The new epoch has new keys, so it accepts the lower resourceVersions of the rebuilt cluster.
    harness.epoch = "e2";
    harness.fence = "101";
    for (const resource of CACHED_RESOURCES) await harness.openFence(resource);
    expect(outcomes(await harness.deliver("pods", [put(cachedPod({ resourceVersion: "5" }))], { sequence: 1 }))).toEqual(["changed"]);
  });

  it("[informer T58] opens a greater fence, and opening the same fence again has no effect", async ({ harness }) => {
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "10" }))]);
    const same = await harness.openFence("pods", "100");
    expect(same).toEqual({
      kind: "open",
      state: "SYNCED",
      syncedGeneration: 1,
      lanes: [{ lane: 0, last: 2, watermark: "10", generation: 1, frozen: false }],
    });
    expect(await harness.openFence("pods", "99")).toEqual({ kind: "fenced", fence: "100" });
    expect(await harness.openFence("pods", "101")).toEqual({
      kind: "open",
      state: "SYNCED",
      syncedGeneration: 1,
      lanes: [{ lane: 0, last: 0, watermark: "10", generation: 1, frozen: false }],
    });
    expect(await harness.openFence("pods", "100")).toEqual({ kind: "fenced", fence: "101" });
    expect((await harness.row("pods", "shop/web-1"))?.rv).toBe("10");
  });

  it("[informer T58] a new fence clears gaps and out-of-order sequence numbers of its lanes", async ({ harness }) => {
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "10" }))], { sequence: 7 });
    expect((await harness.health("pods"))?.holeForMs).toBe(0);
    await harness.raiseFence("101");
    expect((await harness.health("pods"))?.holeForMs).toBeUndefined();
    for (let sequence = 1; sequence <= 7; sequence++)
      expect(await harness.deliver("pods", [], { kind: "W", watermark: "0", sequence })).toMatchObject({ kind: "applied" });
    expect(await harness.watermark("pods")).toBe("0");
  });

  it("[informer T58] a frozen lane stays frozen under a new fence", async ({ harness }) => {
    await harness.openGeneration("pods");
    await harness.manifest("pods", [{ key: "shop/x", uid: "x", rv: "5" }], "9");
    expect(await harness.openFence("pods", "101")).toMatchObject({ lanes: [{ frozen: true }] });
  });

  it("[informer T55] orders fences like resourceVersions, which keep increasing when the Lease is recreated", async () => {
    const harness = await open();
    harness.fence = "9";
    await harness.open();
    expect(await harness.openFence("pods", "10")).toMatchObject({ kind: "open" });
    expect(await harness.openFence("pods", "9")).toEqual({ kind: "fenced", fence: "10" });
    expect(await harness.openFence("pods", "9007199254740993")).toMatchObject({ kind: "open" });
    expect(await harness.openFence("pods", "9007199254740992")).toEqual({ kind: "fenced", fence: "9007199254740993" });
  });

  it("keeps the number of lanes of an epoch", async ({ harness }) => {
    const other = (fence: string) => harness.store.openFence({ epoch: harness.epoch, fence, resource: "pods", lanes: 2 });
    expect(await other("101")).toEqual({ kind: "otherLanes", lanes: 1 });
    expect(await other("1")).toMatchObject({ kind: "fenced" });
    expect(await harness.openFence("pods")).toMatchObject({ kind: "open" });
  });

  it("[informer T54] rejects a new list and a checkpoint of a replaced leader, and a checkpoint with a fence not opened yet", async ({
    harness,
  }) => {
    await harness.openFence("pods", "200");
    const sent = { pods: "77" };
    for (const fence of ["100", "99"]) {
      expect(await harness.store.openGeneration({ epoch: harness.epoch, fence, resource: "pods" })).toEqual({
        kind: "fenced",
        fence: "200",
      });
      expect(await harness.store.checkpoint({ epoch: harness.epoch, fence, sent, ...FIRST_BEAT })).toEqual({
        kind: "fenced",
        fence: "200",
      });
    }
    // The Store was rolled back to an older fence: the leader sees that the fence is smaller than its own (SL1).
    expect(await harness.store.openGeneration({ epoch: harness.epoch, fence: "300", resource: "pods" })).toEqual({
      kind: "fenced",
      fence: "200",
    });
    expect(await harness.store.checkpoint({ epoch: harness.epoch, fence: "300", sent, ...FIRST_BEAT })).toMatchObject({ kind: "setBack" });
    expect(await harness.openGeneration("replicasets")).toBe("0");
  });

  it("rejects a checkpoint before any fence", async () => {
    const { store } = await open();
    await store.openEpoch(EPOCH);
    expect(await store.checkpoint({ epoch: "e1", fence: "100", sent: { pods: "1" }, ...FIRST_BEAT })).toMatchObject({ kind: "damaged" });
    expect(await store.openGeneration({ epoch: "e1", fence: "100", resource: "pods" })).toEqual({ kind: "fenced", fence: "0" });
  });

  it("a checkpoint returns the repairs that are due, one resource at a time", async () => {
    const harness = await (await open({ ...ONE_LANE, pods: 2 })).synced();
    const answer = await harness.store.checkpoint({ epoch: harness.epoch, fence: harness.fence, sent: { pods: "5" }, ...FIRST_BEAT });
    const healthy = { state: "SYNCED", syncedGeneration: 1, generation: 1, frozenLanes: [], needed: [], watermarks: ["0"], applied: [1] };
    const ofPods = { watermarks: ["0", "0"], applied: [1, 1] };
    expect(answer).toEqual({
      kind: "ok",
      resources: CACHED_RESOURCES.map((resource) => ({ ...healthy, resource, ...(resource === "pods" ? ofPods : { rows: 0 }) })),
    });
  });

  it("[informer T46] closes the gate for a build of another identity with the reason, until a new epoch of that identity opens", async ({
    harness,
  }) => {
    await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", RS, 0);
    await harness.pass(5_001); // from now on a sweep of our own build would send a doorbell for it
    for (const differs of [{ projection: 2 }, { digestPrefix: "k2.f1" }, { hashLayout: "v1.37" }]) {
      const other = await harness.fixture.beside({ identity: { ...IDENTITY, ...differs } });
      const gate = await other.gate("replicaset");
      expect(gate).toMatchObject({ open: false, reason: expect.stringContaining(Object.keys(differs)[0] ?? "") });
      expect(await other.take(harness.run("replicaset", RS), {})).toMatchObject({ kind: "gated" });
      expect(await other.sweep(harness.epoch)).toEqual([]);
      await other.close();
    }
    const comparesNone = await harness.fixture.beside({ identity: { ...IDENTITY, digestPrefix: "" } });
    for (const store of [harness.store, comparesNone]) expect(await store.gate("replicaset")).toEqual({ open: true });
    await comparesNone.close();
    const young = new StoreHarness({
      ...harness.fixture,
      store: await harness.fixture.beside({ identity: { ...IDENTITY, projection: 2 } }),
    });
    await harness.store.openEpoch({ ...EPOCH, epoch: "e2", projection: 2 }, "e1");
    young.epoch = "e2";
    for (const resource of CACHED_RESOURCES) await young.openFence(resource);
    for (const resource of CACHED_RESOURCES) await young.relist(resource, [], "0");
    expect(await young.store.gate("replicaset")).toEqual({ open: true });
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
    await young.store.close();
  });

  it("[informer A16] a build with another projection applies no pack and no manifest, and the message stays for a build that can", async ({
    harness,
  }) => {
    const pod = (rv: string) => cachedPod({ name: "web-1", resourceVersion: rv });
    const foreign = await harness.fixture.beside({ identity: { ...IDENTITY, projection: 2 } });
    const other = new StoreHarness({ ...harness.fixture, store: foreign });
    [other.epoch, other.fence] = [harness.epoch, harness.fence];
    expect(await other.deliver("pods", [put(pod("10"))])).toEqual({ kind: "otherProjection" });
    expect(await harness.deliver("pods", [put(pod("10"))])).toMatchObject({ kind: "applied", outcomes: ["changed"] });
    await harness.openGeneration("pods");
    other.nextSequence("pods"); // the pack above was applied by the other build
    expect(await other.manifest("pods", [], "20")).toEqual({ kind: "otherProjection" });
    expect(await harness.row("pods", "shop/web-1")).toBeDefined();
    expect(await harness.manifest("pods", [], "20")).toMatchObject({ kind: "applied" });
    await foreign.close();
  });

  it("publishes the cluster's release, and closes the gate for callers that do not support it", async ({ harness }) => {
    await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    const { store, epoch, fence } = harness;
    const acting = await harness.fixture.beside({ releases: ["1.36", "1.37"] });
    const publish = (release: string | undefined, beat: number): ReturnType<typeof store.checkpoint> =>
      store.checkpoint({ epoch, fence, sent: {}, beat, answered: beat - 1, ...(release !== undefined && { release }) });
    const take = async (): Promise<unknown> => {
      await store.add(epoch, "replicaset", RS, 0);
      const run = harness.run("replicaset", RS);
      const { uid } = cachedReplicaSet().metadata;
      const answer = await acting.take(run, { uid });
      if (answer.kind === "ok") await store.done(run, { kind: "ok" });
      return answer.kind === "ok" ? answer.release : answer;
    };
    expect(await take()).toBeUndefined();
    await publish("1.36", 1);
    expect(await take()).toBe("1.36");
    await publish(undefined, 2);
    expect(await take()).toBe("1.36");
    await publish("1.37", 3);
    expect([await take(), (await store.epoch())?.release]).toEqual(["1.37", "1.37"]);
    await publish("1.3", 4);
    const reason = "the cluster runs Kubernetes 1.3, and this build supports only 1.36, 1.37";
    expect(await take()).toEqual({ kind: "gated", reason });
    expect(await acting.gate("replicaset")).toEqual({ open: false, reason });
    expect(await store.gate("replicaset")).toEqual({ open: true });
    await acting.close();
  });

  it("opens an epoch with the cluster's release", async () => {
    const { store } = await open();
    await store.openEpoch({ ...EPOCH, release: "1.37" });
    expect(await store.epoch()).toEqual({ ...EPOCH, release: "1.37" });
  });

  it("[replicaset P11] [informer T50] closes the gate and writes nothing after a flush, until a new epoch has listed everything", async ({
    harness,
  }) => {
    await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", RS, 0);
    const { run } = await harness.taken("replicaset", RS);
    await harness.fixture.flush();
    expect(await harness.store.epoch()).toBeUndefined();
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
    expect(await harness.deliver("pods", [put(cachedPod())])).toEqual({ kind: "noEpoch" });
    expect(await harness.manifest("pods", [], "9")).toEqual({ kind: "noEpoch" });
    expect(await harness.store.checkpoint({ epoch: harness.epoch, fence: harness.fence, sent: {}, ...FIRST_BEAT })).toEqual({
      kind: "noEpoch",
    });
    expect(await harness.store.take(run, {})).toMatchObject({ kind: "gated" });
    expect(await harness.store.done(run, { kind: "ok" })).toEqual({ kind: "stolen" });
    expect(await harness.store.writeThrough(run, writeOf("pods"))).toEqual({ kind: "otherEpoch" });
    expect(await harness.store.add(harness.epoch, "replicaset", RS, 0)).toBeUndefined();
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    expect((await harness.store.readLane("pods", 0)).rows).toEqual([]);

    const young = new StoreHarness(harness.fixture);
    young.epoch = "e2";
    await young.synced();
    expect(await young.store.gate("replicaset")).toEqual({ open: true });
  });

  it("[informer T51] a rollback of the Store leaves a gap at the next message, which a raised fence and a new list repair", async ({
    harness,
    skip,
  }) => {
    if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
    const rs = cachedReplicaSet({ resourceVersion: "5" });
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const restore = await harness.fixture.snapshot();
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "10" }))]);
    await restore();
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
    await harness.seed("pods", [], { kind: "W", watermark: "11" });
    expect(await harness.health("pods")).toMatchObject({ holeForMs: 0, watermarks: ["0"] });
    await harness.store.markSuspect("pods", "set back");
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("set back") });
    await harness.raiseFence("101");
    await harness.heartbeat();
    await harness.relist("pods", [cachedPod({ resourceVersion: "10" })], "12", put);
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    expect(await harness.dirty("replicaset")).toEqual([RS]);
    expect((await harness.row("pods", "shop/web-1"))?.rv).toBe("10");
  });

  it("SL1 does not reuse the number of a list that a rollback of the Store has lost, so that a new list ends SUSPECT", async ({
    harness,
    skip,
  }) => {
    if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
    const restore = await harness.fixture.snapshot();
    await harness.openGeneration("pods");
    await restore();
    await harness.manifest("pods", [], "9");
    await harness.store.markSuspect("pods", "set back");
    await harness.raiseFence("101");
    await harness.heartbeat();
    await harness.relist("pods", [], "10");
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCED", generation: 3, syncedGeneration: 3 });
  });

  it("[informer T53] a permanently lost message stops the watermark and closes the gate after 2 s; a raised fence and a list repair it", async ({
    harness,
  }) => {
    await harness.seed("pods", [put(cachedPod({ name: "a", resourceVersion: "10" }))]);
    const lost = harness.nextSequence("pods");
    await harness.seed("pods", [put(cachedPod({ name: "c", resourceVersion: "12" }))], { sequence: lost + 1 });
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    await harness.pass(2_000);
    expect(await harness.health("pods")).toMatchObject({ holeForMs: 2_000, watermarks: ["10"] });
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    await harness.pass(1);
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringMatching(/pods.*hole/u) });
    expect(await harness.store.gate("replicationcontroller")).toMatchObject({ open: false });
    await harness.raiseFence("101");
    await harness.relist(
      "pods",
      [cachedPod({ name: "b", resourceVersion: "11" }), cachedPod({ name: "c", resourceVersion: "12" })],
      "13",
      put,
    );
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    expect((await harness.store.readLane("pods", 0)).rows.map((row) => row.key)).toEqual(["shop/b", "shop/c"]);
    expect(await harness.watermark("pods")).toBe("13");
  });

  it("keeps the last 1,000 quarantined items, oldest first", async () => {
    const harness = await (await open()).open();
    expect(await harness.store.quarantined()).toEqual([]);
    const entry = (index: number) => ({ what: `pods shop/p${index}`, where: "lane 3, sequence 9", why: "no uid", atMs: index });
    for (let index = 0; index < 1_003; index++) await harness.store.quarantine(entry(index));
    const kept = await harness.store.quarantined();
    expect(kept).toHaveLength(1_000);
    expect([kept[0], kept.at(-1)]).toEqual([entry(3), entry(1_002)]);
  });

  it("an event for the primary of an older epoch enqueues no key", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.store.openEpoch({ ...EPOCH, epoch: "e2" }, "e1");
    harness.epoch = "e2";
    for (const resource of CACHED_RESOURCES) await harness.openFence(resource);
    await harness.seed("pods", [put(cachedPod(), { effects: [effect("replicaset", rs)] })], { sequence: 1 });
    expect(await harness.dirty("replicaset")).toEqual([]);
  });
}
