/** The work queue (informer §12; WQ1–WQ5). */
import { expect, it as base } from "vitest";

import { LEASE_MS } from "../../../shared/base/times.ts";
import { asOwner, cachedDeployment, cachedPod, cachedReplicaSet, effect, ownedBy, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { rung, type StoreHarness } from "../../harness/store/store.ts";

const KEY = "shop/web";
const C = "replicaset";
/** Time in ms longer than the back-off after the first failure. */
const BACKOFF_MS = 10;
const rs = cachedReplicaSet();

export function workQueueCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await ready());
  const ready = async (): Promise<StoreHarness> => {
    const harness = await (await open()).synced();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    return harness;
  };
  const add = (harness: StoreHarness, delayMs = 0, key = KEY) => harness.store.add(harness.epoch, C, key, delayMs);

  it("a take returns one consistent snapshot of the primary, its dependents and the namespace's orphans", async ({ harness }) => {
    const [own, orphan] = [cachedPod({ name: "own", owner: ownedBy("ReplicaSet", rs) }), cachedPod({ name: "orphan" })];
    const foreign = [
      cachedPod({ name: "foreign", owner: { kind: "ReplicaSet", name: "x", uid: "x" } }),
      cachedPod({ name: "far", namespace: "other" }),
    ];
    await harness.seed(
      "pods",
      [own, orphan, ...foreign].map((pod) => put(pod)),
    );
    await add(harness);
    const run = harness.run(C, KEY);
    expect(await harness.take(run)).toEqual({
      kind: "ok",
      leaseUntilMs: harness.now() + LEASE_MS,
      lineage: expect.objectContaining({ fence: harness.fence, marks: 0 }),
      snapshot: {
        primary: { key: KEY, uid: rs.metadata.uid, rv: "1", gone: false, object: rs },
        dependents: [{ key: "shop/own", uid: own.uid, rv: "1", owner: asOwner("replicaset", rs), gone: false, object: own }],
        orphans: [{ key: "shop/orphan", uid: orphan.uid, rv: "1", gone: false, object: orphan }],
        intents: [],
        failures: 0,
        pods: { fence: harness.fence, suspects: 0, watermark: "1", atMs: harness.now() },
      },
    });
  });

  it("returns ReplicaSets as dependents of a Deployment", async () => {
    const harness = await (await open()).synced();
    const deployment = cachedDeployment();
    const [owned, orphan] = [
      cachedReplicaSet({ name: "owned", owner: ownedBy("Deployment", deployment) }),
      cachedReplicaSet({ name: "orphan" }),
    ];
    await harness.seed("deployments", [put(deployment, { counted: true })]);
    await harness.seed("replicasets", [put(owned, { counted: true }), put(orphan, { counted: true })]);
    await harness.store.add(harness.epoch, "deployment", KEY, 0);
    const { snapshot } = await harness.taken("deployment", KEY);
    expect([snapshot.dependents, snapshot.orphans].map((rows) => rows.map((row) => row.key))).toEqual([["shop/owned"], ["shop/orphan"]]);
  });

  it("WQ1 [informer T61] collapses 100 adds before a take into one run and one doorbell", async ({ harness }) => {
    const bells = [];
    for (let count = 0; count < 100; count++) bells.push(await add(harness));
    expect(bells.filter((bell) => bell !== undefined)).toEqual([
      { controller: C, key: KEY, uid: rs.metadata.uid, epoch: harness.epoch, delayMs: 0 },
    ]);
    const { run } = await harness.taken(C, KEY);
    expect(await harness.store.done(run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
    expect(await harness.store.take(harness.run(C, KEY), {})).toEqual({ kind: "empty" });
  });

  it("WQ1 [replicaset P16] collapses ten thousand changes of an owner's pods into one run and one doorbell", async ({ harness }) => {
    const bells: string[] = [];
    for (let time = 1; time <= 100; time++) {
      const versions = Array.from({ length: 100 }, (_, i) =>
        cachedPod({ name: `p${i}`, resourceVersion: `${time * 100 + i}`, owner: ownedBy("ReplicaSet", rs) }),
      );
      bells.push(
        ...rung(
          await harness.deliver(
            "pods",
            versions.map((pod) => put(pod, { effects: [effect(C, rs, { urgency: "status" })] })),
          ),
        ),
      );
    }
    expect(bells).toEqual([`${C} ${KEY}`]);
    const { run, snapshot } = await harness.taken(C, KEY);
    expect(snapshot.dependents.map(({ rv }) => Number(rv))).toEqual(expect.arrayContaining([10_000, 10_099]));
    expect(await harness.store.done(run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
    expect(await harness.store.queued(C)).toEqual([]);
  });

  it("WQ1 [informer T62] adds during a run lead to exactly one more run, whose doorbell `done` returns", async ({ harness }) => {
    await add(harness);
    const { run } = await harness.taken(C, KEY);
    await add(harness);
    await add(harness);
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ kind: "done", bell: { key: KEY, delayMs: 0 } });
    const again = await harness.taken(C, KEY);
    expect(await harness.store.done(again.run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
    expect(await harness.store.queued(C)).toEqual([]);
  });

  it("WQ3 [informer T63] keeps the earliest time of several adds, and sends a doorbell only when it becomes earlier", async ({
    harness,
  }) => {
    expect(await add(harness, 10_000)).toMatchObject({ delayMs: 10_000 });
    expect(await add(harness, 1_000)).toMatchObject({ delayMs: 1_000 });
    expect(await add(harness, 20_000)).toBeUndefined();
    expect(await harness.readyIn(C, KEY)).toBe(1_000);
    await harness.pass(400);
    expect(await harness.take(harness.run(C, KEY))).toMatchObject({ kind: "notYet", delayMs: 600, bell: { key: KEY, delayMs: 600 } });
    await harness.pass(600);
    expect((await harness.taken(C, KEY)).kind).toBe("ok");
  });

  it("WQ3 [informer T64] a change during a long back-off runs the key immediately, and keeps its failures until a success", async ({
    harness,
  }) => {
    for (let failure = 1; failure <= 12; failure++) await fail(harness, KEY, failure);
    expect(await harness.readyIn(C, KEY)).toBe(5 * 2 ** 11);
    expect(rung(await harness.deliver("pods", [put(cachedPod({ resourceVersion: "9" }), { effects: [effect(C, rs)] })]))).toEqual([
      `${C} ${KEY}`,
    ]);
    const { run, snapshot } = await harness.taken(C, KEY);
    expect(snapshot.failures).toBe(12);
    expect(await harness.store.done(run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
    await add(harness);
    expect((await harness.taken(C, KEY)).snapshot.failures).toBe(0);
  });

  it("[informer T65] backs off from 5 ms to 1,000 s, doubling with each failure, and resets with a success", async ({ harness }) => {
    const delays = [];
    for (let failure = 1; failure <= 20; failure++) {
      await fail(harness, KEY, failure);
      delays.push(await harness.readyIn(C, KEY));
      await harness.pass(delays.at(-1) ?? 0);
    }
    expect(delays).toEqual([...Array.from({ length: 18 }, (_, index) => 5 * 2 ** index), 1_000_000, 1_000_000]);
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    await fail(harness, KEY, 1);
    expect(await harness.readyIn(C, KEY)).toBe(5);
  });

  it("WQ3 [replicaset 125] an availability check runs on time despite a back-off, which keeps doubling", async ({ harness }) => {
    for (let failure = 1; failure <= 12; failure++) await fail(harness, KEY, failure);
    const end = async (withinMs: number): Promise<number | undefined> => {
      await harness.store.add(harness.epoch, C, KEY, 0);
      await harness.store.done((await harness.taken(C, KEY)).run, { kind: "retry", withinMs });
      return await harness.readyIn(C, KEY);
    };
    expect([await end(701), await end(0), await end(1_000_000)]).toEqual([701, 0, 5 * 2 ** 14]);
    await harness.pass(5 * 2 ** 14);
    expect((await harness.taken(C, KEY)).snapshot.failures).toBe(15);
  });

  it("a success that requeues the key resets its failures (Forget, then AddAfter)", async ({ harness }) => {
    for (let failure = 1; failure <= 3; failure++) {
      await fail(harness, KEY, failure);
      await harness.pass(5 * 2 ** failure);
    }
    const { run } = await harness.taken(C, KEY);
    expect(await harness.store.done(run, { kind: "requeueAfter", delayMs: 50 })).toMatchObject({ failures: 0, bell: { delayMs: 50 } });
    await harness.pass(50);
    const again = await harness.taken(C, KEY);
    expect(again.snapshot.failures).toBe(0);
    expect(await harness.store.done(again.run, { kind: "retry" })).toMatchObject({ failures: 1, bell: { delayMs: 5 } });
  });

  const dropped = async (harness: StoreHarness, failures: number): Promise<void> => {
    for (let failure = 1; failure < failures; failure++) {
      await fail(harness, KEY, failure);
      await harness.pass(5 * 2 ** failure);
    }
    if (failures === 1) await add(harness);
    expect(await harness.store.done((await harness.taken(C, KEY)).run, { kind: "drop" })).toEqual({ kind: "done", failures: 0 });
  };

  it("WQ6 [informer T90] a dropped key is parked with its time and number of failures, and does not run again by itself", async ({
    harness,
  }) => {
    await harness.seed("replicasets", [put(cachedReplicaSet({ name: "aside", resourceVersion: "2" }), { counted: true })]);
    await add(harness, 0, "shop/aside");
    await harness.store.done((await harness.taken(C, "shop/aside")).run, { kind: "ok" }); // a key that is not parked
    await dropped(harness, 3);
    const sinceMs = harness.now();
    await harness.pass(600_000);
    expect(await harness.store.queued(C)).toEqual([]);
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    expect(await harness.store.parked(C)).toEqual([{ key: KEY, sinceMs, failures: 3 }]);
    expect(await harness.store.parked("deployment")).toEqual([]);
  });

  it("WQ6 [informer T90] any add unparks a key immediately and resets its failures (Forget)", async ({ harness }) => {
    await dropped(harness, 2);
    const event = put(cachedPod({ resourceVersion: "9" }), { effects: [effect(C, rs, { urgency: "status" })] });
    expect(rung(await harness.deliver("pods", [event]))).toEqual([`${C} ${KEY}`]);
    expect(await harness.store.parked(C)).toEqual([]);
    const { run, snapshot } = await harness.taken(C, KEY);
    expect(snapshot.failures).toBe(0);
    expect(await harness.store.parked(C)).toEqual([]); // the key is running
    expect(await harness.store.done(run, { kind: "retry" })).toMatchObject({ failures: 1, bell: { delayMs: 5 } });
    await harness.pass(5);
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    expect(await harness.store.parked(C)).toEqual([]);
  });

  it("WQ6 [informer T90] does not park the key of a deleted primary, or a key that is due again", async ({ harness }) => {
    await dropped(harness, 1);
    await harness.seed("replicasets", [remove(rs, "9", { effects: [effect(C, rs)], counted: true })]);
    expect(await harness.store.parked(C)).toEqual([]);
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "10" }), { counted: true })]);
    expect(await harness.store.parked(C)).toEqual([]);
    await add(harness);
    const { run } = await harness.taken(C, KEY);
    await add(harness);
    expect(await harness.store.done(run, { kind: "drop" })).toMatchObject({ bell: { key: KEY } });
    expect(await harness.store.parked(C)).toEqual([]);
    await add(harness, 0, "shop/nobody");
    await harness.store.done((await harness.taken(C, "shop/nobody")).run, { kind: "drop" });
    expect(await harness.store.parked(C)).toEqual([]);
  });

  it("WQ7 [informer T79] a resync adds each primary once, evenly distributed over its duration, and re-adds parked keys", async ({
    harness,
  }) => {
    const names = Array.from({ length: 10 }, (_, index) => `rs-${index}`);
    const seeded = names.map((name) => put(cachedReplicaSet({ name, resourceVersion: "2" }), { counted: true }));
    await harness.seed("replicasets", seeded);
    await harness.seed("replicasets", [remove(rs, "3", { counted: true })]);
    await add(harness, 0, "shop/rs-3");
    await harness.store.done((await harness.taken(C, "shop/rs-3")).run, { kind: "drop" });
    const bells = await harness.store.resync(harness.epoch, C, 1_000);
    expect(bells.map(({ key, delayMs }) => [key, delayMs])).toEqual(names.map((name, index) => [`shop/${name}`, index * 100]));
    expect(await harness.store.parked(C)).toEqual([]);
    expect(await harness.store.resync(harness.epoch, C, 1_000)).toEqual([]); // all keys are already queued
    expect(await harness.store.resync(harness.epoch, "deployment", 1_000)).toEqual([]);
    expect(await harness.store.resync("e-other", C, 1_000)).toEqual([]);
  });

  it("WQ7 a resync neither shortens a key's back-off nor delays a due key", async ({ harness }) => {
    const other = cachedReplicaSet({ name: "zoo", resourceVersion: "2" });
    await harness.seed("replicasets", [put(other, { counted: true })]);
    for (let failure = 1; failure <= 12; failure++) await fail(harness, KEY, failure);
    await add(harness, 200, "shop/zoo");
    expect(await harness.store.resync(harness.epoch, C, 1_000)).toEqual([]);
    expect([await harness.readyIn(C, KEY), await harness.readyIn(C, "shop/zoo")]).toEqual([5 * 2 ** 11, 200]);
    await harness.store.add(harness.epoch, C, "shop/zoo", 0);
    await harness.store.done((await harness.taken(C, "shop/zoo")).run, { kind: "requeueAfter", delayMs: 3_600_000 });
    await harness.store.resync(harness.epoch, C, 1_000);
    expect(await harness.readyIn(C, "shop/zoo")).toBe(500); // the key was delayed, without a back-off
  });

  it("[informer T66] delays the first 100 of 150 simultaneous retries only by their own back-off, and spaces the others 100 ms apart", async ({
    harness,
  }) => {
    const rss = Array.from({ length: 150 }, (_, index) => cachedReplicaSet({ name: `rs-${index}`, resourceVersion: "2" }));
    for (const part of [rss.slice(0, 75), rss.slice(75)])
      await harness.seed(
        "replicasets",
        part.map((each) => put(each, { counted: true })),
        { watermark: "0" },
      );
    for (const each of rss) await fail(harness, `shop/${each.metadata.name}`, 1);
    const delays = await Promise.all(rss.map((each) => harness.readyIn(C, `shop/${each.metadata.name}`)));
    expect(delays.slice(0, 100)).toEqual(Array.from({ length: 100 }, () => 5));
    expect(delays.slice(100)).toEqual(Array.from({ length: 50 }, (_, index) => (index + 1) * 100));
    await harness.seed("deployments", [put(cachedDeployment(), { counted: true })]);
    await harness.store.add(harness.epoch, "deployment", KEY, 0);
    await harness.store.done((await harness.taken("deployment", KEY)).run, { kind: "retry" });
    expect(await harness.readyIn("deployment", KEY)).toBe(5);
  });

  it("[informer T66] the token bucket for retries fills again up to its burst of 100", async ({ harness }) => {
    const delayOf = async () => {
      await add(harness, 0, "shop/bucket");
      await harness.store.done((await harness.taken(C, "shop/bucket")).run, { kind: "drop" });
      await add(harness, 0, "shop/bucket");
      await harness.store.done((await harness.taken(C, "shop/bucket")).run, { kind: "retry" });
      const delay = await harness.readyIn(C, "shop/bucket");
      await add(harness, 0, "shop/bucket");
      await harness.store.done((await harness.taken(C, "shop/bucket")).run, { kind: "drop" });
      return delay;
    };
    const delays = async (count: number) => {
      const all = [];
      for (let index = 0; index < count; index++) all.push(await delayOf());
      return all;
    };
    expect((await delays(102)).slice(99)).toEqual([5, 100, 200]);
    await harness.pass(500);
    expect(await delays(4)).toEqual([5, 5, 5, 100]);
    await harness.pass(3_600_000);
    expect((await delays(101)).slice(98)).toEqual([5, 5, 100]);
  });

  it("dueIn is the time until the earliest key is due, and 0 during a run, whose end may make any key due", async ({ harness }) => {
    const dueIn = () => harness.store.dueIn(harness.epoch);
    expect(await harness.store.dueIn("other")).toBeUndefined();
    await add(harness, 0);
    const { run } = await harness.taken(C, KEY);
    expect(await dueIn()).toBe(0);
    await harness.store.done(run, { kind: "ok" });
    expect(await dueIn()).toBeUndefined();
    await add(harness, 90_000, "shop/later");
    await add(harness, 30_000);
    expect(await dueIn()).toBe(30_000);
    await harness.pass(10_000);
    expect(await dueIn()).toBe(20_000);
    await harness.pass(25_000);
    expect(await dueIn()).toBe(0);
  });

  it("WQ5 [informer T67] a lost doorbell is replaced within 7 s, by a redelivery or by the sweeper", async ({ harness }) => {
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "9" }), { effects: [effect(C, rs)] })]); // the applier is then killed
    await harness.pass(5_000);
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    await harness.pass(1);
    expect(await harness.store.sweep(harness.epoch)).toEqual([
      { controller: C, key: KEY, uid: rs.metadata.uid, epoch: harness.epoch, delayMs: 0 },
    ]);
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    expect((await harness.taken(C, KEY)).kind).toBe("ok");
  });

  it("WQ5 [informer T67] an add after a consumed doorbell sends another one immediately, whatever the doorbell's take returned", async ({
    harness,
  }) => {
    await add(harness);
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    await harness.pass(1_000);
    expect(await add(harness)).toMatchObject({ delayMs: 0 }); // after the last take succeeded
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    expect(await harness.store.take(harness.run(C, KEY), {})).toEqual({ kind: "empty" });
    expect(await add(harness)).toMatchObject({ delayMs: 0 }); // after the last take found no key
    await harness.store.markSuspect("pods", "test");
    expect(await harness.store.take(harness.run(C, KEY), {})).toMatchObject({ kind: "gated" });
    await harness.relist("pods", [], "9");
    await harness.taken(C, KEY);
    expect(await harness.store.take(harness.run(C, KEY), {})).toEqual({ kind: "busy" });
    await harness.pass(LEASE_MS);
    expect(await add(harness)).toMatchObject({ delayMs: 0 }); // after the last take was busy and that run's lease expired
  });

  it("WQ5 [informer T97] an add during a run sends no doorbell, because the end of the run sends one", async ({ harness }) => {
    await add(harness);
    const { run } = await harness.taken(C, KEY);
    expect(await add(harness)).toBeUndefined();
    expect(rung(await harness.deliver("pods", [put(cachedPod({ resourceVersion: "9" }), { effects: [effect(C, rs)] })]))).toEqual([]);
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ bell: { key: KEY, delayMs: 0 } });
    expect(await add(harness)).toBeUndefined(); // a recent doorbell is still pending
  });

  it("WQ5 an add needs no further doorbell if the sweeper has just sent one for the key's abandoned run", async ({ harness }) => {
    for (const [age, rings] of [
      [4_999, false],
      [5_000, true],
    ] as const) {
      await add(harness);
      await harness.taken(C, KEY);
      await add(harness, 100_000);
      await harness.pass(LEASE_MS);
      // the key is due because of the abandoned run, although it becomes ready much later
      expect(await harness.store.sweep(harness.epoch)).toHaveLength(1);
      await harness.pass(age);
      expect((await add(harness, 100)) !== undefined, `${age} ms`).toBe(rings);
      const { run } = await harness.taken(C, KEY);
      await harness.store.done(run, { kind: "ok" });
    }
  });

  it("WQ5 an add sends a doorbell if it is due earlier than the last one sent", async ({ harness }) => {
    expect(await add(harness, 4_000)).toBeDefined();
    await harness.pass(1_000);
    expect(await add(harness, 2_000)).toMatchObject({ delayMs: 2_000 });
    await harness.pass(1_900);
    expect(await harness.take(harness.run(C, KEY))).toMatchObject({ kind: "notYet", delayMs: 100 });
    // NOTYET counts as a new doorbell, due in 100 ms, so it does not cover an earlier time.
    expect(await add(harness, 0)).toMatchObject({ delayMs: 0 });
  });

  it("WQ5 the sweeper doubles its interval after each doorbell for a key, up to 300 s", async ({ harness }) => {
    await add(harness);
    const rings: number[] = [];
    const start = harness.now();
    for (let second = 1; second <= 1_400; second++) {
      await harness.pass(1_000);
      if ((await harness.store.sweep(harness.epoch)).length > 0) rings.push((harness.now() - start) / 1_000);
    }
    expect(rings).toEqual([6, 16, 36, 76, 156, 316, 616, 916, 1_216]);
  });

  it("WQ5 a take at a closed gate consumes the doorbell, and restarts the sweeper's interval for the key", async ({ harness }) => {
    await add(harness);
    let rings = 0;
    for (let second = 1; second <= 37; second++) {
      await harness.pass(1_000);
      rings += (await harness.store.sweep(harness.epoch)).length;
    }
    expect(rings).toBe(3); // the next doorbell would follow at 76 s
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    const missing = harness.nextSequence("pods");
    await harness.seed("pods", [], { kind: "W", watermark: "0", sequence: missing + 1 });
    await harness.fixture.clock.advance(2_001);
    expect(await harness.store.take(harness.run(C, KEY), {})).toMatchObject({ kind: "gated" });
    await harness.seed("pods", [], { kind: "W", watermark: "0", sequence: missing });
    expect(await harness.store.sweep(harness.epoch)).toHaveLength(1);
  });

  it("WQ5 the sweeper ignores live runs, future keys and closed gates, and finds abandoned runs", async ({ harness }) => {
    await add(harness);
    await add(harness, 60_000, "shop/future");
    const { run } = await harness.taken(C, KEY);
    await add(harness);
    await harness.pass(LEASE_MS - 1_000);
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    await harness.pass(1_000);
    await harness.store.markSuspect("pods", "test");
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    await harness.relist("pods", [], "9");
    await harness.pass(6_000);
    expect((await harness.store.sweep(harness.epoch)).map((bell) => bell.key)).toContain(KEY);
    // the lease has expired, but no other run has taken the key
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ kind: "done" });
  });

  it("WQ2 [informer T68] 50 doorbells and 10 workers lead to one run", async ({ harness }) => {
    await add(harness);
    const ids = { uid: rs.metadata.uid };
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, index) => harness.store.take(harness.run(C, KEY, `worker-${index % 10}-${index}`), ids)),
    );
    expect(results.map((result) => result.kind).filter((kind) => kind !== "busy")).toEqual(["ok"]);
  });

  it("WQ2 [informer T69] another worker takes over a killed worker's key when the lease ends, without another add", async ({ harness }) => {
    await add(harness);
    const first = await harness.taken(C, KEY);
    await harness.pass(LEASE_MS - 1);
    expect(await harness.store.take(harness.run(C, KEY), {})).toEqual({ kind: "busy" });
    await harness.pass(1);
    const second = await harness.taken(C, KEY);
    expect(second.run.token).not.toBe(first.run.token);
    expect(await harness.store.take(harness.run(C, KEY), {})).toEqual({ kind: "busy" });
  });

  it("[informer T69b] counts runs of a key that never ended, but not renewals or repeated takes, until one ends", async ({ harness }) => {
    const unended = async (): Promise<number | undefined> => (await harness.taken(C, KEY)).snapshot.unended;
    for (const outcome of [{ kind: "ok" }, { kind: "retry" }, { kind: "requeueAfter", delayMs: 0 }, { kind: "drop" }] as const) {
      await add(harness);
      await harness.pass(BACKOFF_MS);
      expect(await unended()).toBeUndefined();
      await harness.pass(LEASE_MS);
      expect(await unended()).toBe(1);
      await harness.pass(LEASE_MS);
      const third = await harness.taken(C, KEY);
      expect(third.snapshot.unended).toBe(2);
      expect(await harness.take(third.run)).toMatchObject({ kind: "ok", snapshot: { unended: 2 } });
      await harness.store.renew(third.run);
      await harness.pass(LEASE_MS);
      const fourth = await harness.taken(C, KEY);
      expect(fourth.snapshot.unended).toBe(3);
      await harness.store.done(fourth.run, outcome);
    }
    await add(harness);
    await harness.pass(BACKOFF_MS);
    expect(await unended()).toBeUndefined();
  });

  it("WQ2 a renewal extends the lease to its full duration, unless the key was taken over", async ({ harness }) => {
    await add(harness);
    const first = await harness.taken(C, KEY);
    await harness.pass(10_000);
    expect(await harness.store.renew(first.run)).toBe(harness.now() + LEASE_MS);
    await harness.pass(LEASE_MS - 1);
    expect(await harness.store.take(harness.run(C, KEY), {})).toEqual({ kind: "busy" });
    await harness.pass(10_000);
    // the lease has expired, but no other run has taken the key
    expect(await harness.store.renew(first.run)).toBe(harness.now() + LEASE_MS);
    await harness.pass(LEASE_MS);
    await harness.taken(C, KEY);
    expect(await harness.store.renew(first.run)).toBeUndefined();
  });

  it("WQ2 [informer T70] a suspended worker has no effect after it lost its key", async ({ harness }) => {
    await add(harness);
    const frozen = await harness.taken(C, KEY);
    await harness.pass(2 * LEASE_MS);
    const holder = await harness.taken(C, KEY);
    const before = await harness.store.queued(C);
    for (const outcome of [{ kind: "ok" }, { kind: "retry" }, { kind: "requeueAfter", delayMs: 5 }, { kind: "drop" }] as const)
      expect(await harness.store.done(frozen.run, outcome)).toEqual({ kind: "stolen" });
    expect(await harness.store.renew(frozen.run)).toBeUndefined();
    expect(await harness.store.registerIntents(frozen.run, rs.metadata.uid, [{ id: "c:x", verb: "create", name: "x" }])).toBe("stolen");
    expect(await harness.store.queued(C)).toEqual(before);
    expect(await harness.store.done(holder.run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
  });

  it.each([
    { outcome: { kind: "ok" }, delayMs: undefined },
    { outcome: { kind: "retry" }, delayMs: 5 },
    { outcome: { kind: "requeueAfter", delayMs: 0 }, delayMs: 0 },
    { outcome: { kind: "drop" }, delayMs: undefined },
  ] as const)(
    "WQ2 [informer T124] `done` returns the same doorbell when it is repeated after a lost response: $outcome.kind",
    async (ended) => {
      const { outcome, delayMs } = ended;
      const harness = await ready();
      await add(harness);
      const { run } = await harness.taken(C, KEY);
      await harness.store.done(run, outcome);
      const before = [await harness.store.queued(C), await harness.store.parked(C)];
      const again = await harness.store.done(run, outcome);
      expect(again).toEqual({ kind: "ended", ...(delayMs !== undefined && { bell: expect.objectContaining({ key: KEY, delayMs }) }) });
      expect([await harness.store.queued(C), await harness.store.parked(C)]).toEqual(before);
      await add(harness);
      const heir = await harness.taken(C, KEY);
      expect(await harness.store.done(run, outcome)).toEqual({ kind: "stolen" });
      expect(await harness.store.done(heir.run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
    },
  );

  it("[informer T71] a wake-up message (doorbell) that arrives before its key is due is sent again with the remaining delay", async ({
    harness,
  }) => {
    expect(await add(harness, 1_000_000)).toMatchObject({ delayMs: 1_000_000 });
    await harness.pass(900_000);
    expect(await harness.take(harness.run(C, KEY))).toMatchObject({ kind: "notYet", delayMs: 100_000, bell: { delayMs: 100_000 } });
    await harness.pass(100_000);
    expect((await harness.taken(C, KEY)).kind).toBe("ok");
  });

  it("[informer A10] a take with an outdated uid or owner returns the current ones, so that the caller takes again", async ({
    harness,
  }) => {
    const owned = cachedReplicaSet({ name: "owned", resourceVersion: "8", owner: ownedBy("Deployment", cachedDeployment()) });
    await harness.seed("replicasets", [put(owned, { counted: true })]);
    await add(harness, 0, "shop/owned");
    const run = harness.run(C, "shop/owned");
    const ids = { uid: owned.metadata.uid, owner: asOwner("deployment", cachedDeployment()) };
    for (const wrong of [{}, { uid: ids.uid }, { ...ids, uid: "old" }, { ...ids, owner: "old" }])
      expect(await harness.store.take(run, wrong)).toEqual({ kind: "moved", ...ids });
    expect(await harness.dirty(C)).toEqual(["shop/owned"]);
    expect(await harness.store.take(run, ids)).toMatchObject({ kind: "ok" });
  });

  it("a deleted primary is reported as moved, then as an empty snapshot; `done` removes its queue state", async ({ harness }) => {
    await fail(harness, KEY, 1);
    await harness.seed("replicasets", [remove(rs, "9", { counted: true, effects: [effect(C, rs, { self: true })] })]);
    const run = harness.run(C, KEY);
    expect(await harness.store.take(run, { uid: rs.metadata.uid })).toEqual({ kind: "moved" });
    expect(await harness.store.take(run, {})).toEqual({
      kind: "ok",
      leaseUntilMs: harness.now() + LEASE_MS,
      lineage: expect.objectContaining({ fence: harness.fence, marks: 0 }),
      snapshot: { dependents: [], orphans: [], intents: [], failures: 0 },
    });
    expect(await harness.store.done(run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
    expect(await harness.store.queued(C)).toEqual([]);
  });

  it("delays status changes of dependents by 1 ms per dependent after the last run", async ({ harness }) => {
    const pods = Array.from({ length: 40 }, (_, index) => cachedPod({ name: `p${index}`, owner: ownedBy("ReplicaSet", rs) }));
    await harness.seed(
      "pods",
      pods.map((pod) => put(pod)),
    );
    let rv = 100;
    const change = () =>
      harness.deliver("pods", [
        put(cachedPod({ ...pods[0], resourceVersion: `${++rv}` }), { effects: [effect(C, rs, { urgency: "status" })] }),
      ]);
    // The key has never run: the doorbell is immediate.
    expect(await change()).toMatchObject({ bells: [{ delayMs: 0 }] });
    const { run } = await harness.taken(C, KEY);
    // The key is running: the delay counts from now.
    await change();
    expect(await harness.readyIn(C, KEY)).toBe(40);
    await harness.pass(30);
    await change();
    expect(await harness.readyIn(C, KEY)).toBe(10);
    await harness.pass(10);
    await harness.store.done(run, { kind: "ok" });
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    // The last run ended 15 ms ago.
    await harness.pass(15);
    expect(await change()).toMatchObject({ bells: [{ delayMs: 25 }] });
    expect(rung(await change())).toEqual([]);
    // An `act` effect replaces the delay.
    const act = await harness.deliver("pods", [remove(pods[1] ?? cachedPod(), "300", { effects: [effect(C, rs)] })]);
    expect(act).toMatchObject({ bells: [{ delayMs: 0 }] });
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    await harness.pass(60_000);
    rv = 300;
    expect(await change()).toMatchObject({ bells: [{ delayMs: 0 }] });
  });

  it("the run of a deleted primary does not delay status changes of the recreated one", async ({ harness }) => {
    const pods = Array.from({ length: 40 }, (_, index) => cachedPod({ name: `p${index}`, owner: ownedBy("ReplicaSet", rs) }));
    await harness.seed(
      "pods",
      pods.map((pod) => put(pod)),
    );
    await add(harness);
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    await harness.seed("replicasets", [remove(rs, "9", { counted: true })]);
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "10" }), { counted: true })]);
    const answer = await harness.deliver("pods", [
      put(cachedPod({ ...pods[0], resourceVersion: "20" }), { effects: [effect(C, rs, { urgency: "status" })] }),
    ]);
    expect(answer).toMatchObject({ bells: [{ delayMs: 0 }] });
  });

  it("delays status changes of more than 1,000 dependents by at most a second", async ({ harness }) => {
    for (let part = 0; part < 12; part++) {
      const pods = Array.from({ length: 90 }, (_, index) => cachedPod({ name: `p${part}-${index}`, owner: ownedBy("ReplicaSet", rs) }));
      await harness.seed(
        "pods",
        pods.map((pod) => put(pod)),
        { watermark: "0" },
      );
    }
    await add(harness);
    await harness.store.done((await harness.taken(C, KEY)).run, { kind: "ok" });
    const status = put(cachedPod({ name: "p0-0", owner: ownedBy("ReplicaSet", rs), resourceVersion: "9" }), {
      effects: [effect(C, rs, { urgency: "status" })],
    });
    expect(await harness.deliver("pods", [status])).toMatchObject({ bells: [{ delayMs: 1_000 }] });
  });

  it("[informer T79] a later add of a queued key neither duplicates nor delays it", async ({ harness }) => {
    await add(harness, 0, "shop/early");
    for (const key of ["shop/early", "shop/late"]) await add(harness, 5_000, key);
    expect((await harness.store.queued(C)).map((entry) => [entry.key, (entry.readyAtMs ?? 0) - harness.now()])).toEqual([
      ["shop/early", 0],
      ["shop/late", 5_000],
    ]);
  });

  it("keeps the queues of controllers separate", async ({ harness }) => {
    await add(harness);
    expect(await harness.dirty("deployment")).toEqual([]);
    expect(await harness.store.take(harness.run("deployment", KEY), {})).toEqual({ kind: "empty" });
    expect((await harness.taken(C, KEY)).kind).toBe("ok");
  });

  it("lists queued and running keys", async ({ harness }) => {
    await add(harness, 700, "shop/b");
    await add(harness);
    await harness.taken(C, KEY);
    await add(harness);
    const now = harness.now();
    expect(await harness.store.queued(C)).toEqual([
      { key: "shop/b", readyAtMs: now + 700, failures: 0 },
      { key: KEY, readyAtMs: now, leaseUntilMs: now + LEASE_MS, failures: 0 },
    ]);
  });
}

/** Runs the key once with a failure, the nth one in a row. */
async function fail(harness: StoreHarness, key: string, nth: number): Promise<void> {
  await harness.store.add(harness.epoch, C, key, 0);
  const { run } = await harness.taken(C, key);
  const answer = await harness.store.done(run, { kind: "retry" });
  expect(answer).toMatchObject({ kind: "done", failures: nth });
}
