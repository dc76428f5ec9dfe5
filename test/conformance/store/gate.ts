/** The gate: when keys can be taken, and what happens when a closed gate opens again (informer §11.6, §15). */
import { expect, it as base } from "vitest";

import { LEASE_MS } from "../../../shared/base/times.ts";
import { CACHED_RESOURCES, CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import { cachedDeployment, cachedPod, cachedReplicaSet, effect, put } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { ONE_LANE, rung, type StoreHarness } from "../../harness/store/store.ts";

const RS = "shop/web";
const open1 = { open: true };

export function gateCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("WQ4 [informer T48] stays closed until the first list is complete, and then sends a doorbell for every queued key", async () => {
    const harness = await (await open()).open();
    const rss = ["a", "b"].map((name) => cachedReplicaSet({ name, resourceVersion: "5" }));
    await harness.openGeneration("replicasets");
    await harness.seed(
      "replicasets",
      rss.map((rs) => put(rs, { counted: true, effects: [effect("replicaset", rs, { self: true })] })),
      { kind: "L" },
    );
    expect(await harness.store.take(harness.run("replicaset", "shop/a"), {})).toMatchObject({ kind: "gated" });
    expect(await harness.store.take(harness.run("replicaset", "shop/none"), {})).toMatchObject({ kind: "gated" });
    expect(await harness.dirty("replicaset")).toEqual(["shop/a", "shop/b"]);
    const first = await harness.manifest(
      "replicasets",
      rss.map((rs) => ({ key: `shop/${rs.metadata.name}`, uid: rs.metadata.uid, rv: "5" })),
      "6",
    );
    expect(rung(first)).toEqual([]); // pods are not listed yet
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("pods") });
    const second = await harness.relist("pods", [], "7");
    expect(second.flatMap((answer) => rung(answer))).toEqual(["replicaset shop/a", "replicaset shop/b"]);
    expect(await harness.store.gate("replicaset")).toEqual(open1);
    for (const key of await harness.dirty("replicaset")) {
      await harness.pass(2);
      expect((await harness.taken("replicaset", key)).kind).toBe("ok");
    }
  });

  it("WQ4 depends only on the resources that the controller reads", async () => {
    const harness = await (await open()).open();
    const opened = async () =>
      (await Promise.all(CONTROLLERS.map(async (controller) => ((await harness.store.gate(controller)).open ? [controller] : [])))).flat();
    expect(await opened()).toEqual([]);
    await harness.relist("pods", [], "0");
    await harness.relist("replicationcontrollers", [], "0");
    expect(await opened()).toEqual(["replicationcontroller"]);
    await harness.relist("replicasets", [], "0");
    expect(await opened()).toEqual(["replicaset", "replicationcontroller"]);
    await harness.relist("deployments", [], "0");
    expect(await opened()).toEqual([...CONTROLLERS]);
  });

  it("WQ4 closes if one lane gets no message for more than 60 s, and opens with the lane's next contiguous message", async () => {
    const harness = await (await open({ ...ONE_LANE, pods: 2 })).synced();
    await beat(harness, "replicasets", 0);
    await beat(harness, "pods", 0);
    await harness.fixture.clock.advance(60_000);
    await beat(harness, "pods", 0);
    await beat(harness, "replicasets", 0);
    expect(await harness.store.gate("replicaset")).toEqual(open1);
    await harness.fixture.clock.advance(1);
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringMatching(/pods.*lane 1/u) });
    // A message ahead of the sequence does not show that the messages before it have arrived.
    await harness.seed("pods", [], { kind: "W", lane: 1, watermark: "0", sequence: harness.nextSequence("pods", 1) + 1 });
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
    await harness.seed("pods", [], { kind: "W", lane: 1, watermark: "0", sequence: harness.nextSequence("pods", 1) - 2 });
    expect(await harness.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 stays open during a relist, and SUSPECT closes it until a new list is complete", async ({ harness }) => {
    await harness.openGeneration("pods");
    expect(await harness.store.gate("replicaset")).toEqual(open1);
    await harness.store.markSuspect("pods", "a message arrived in the dead-letter queue");
    expect(await harness.health("pods")).toMatchObject({ state: "SUSPECT" });
    expect(await harness.store.gate("replicaset")).toEqual({
      open: false,
      reason: "pods: SUSPECT (a message arrived in the dead-letter queue)",
    });
    await harness.raiseFence("101");
    await harness.heartbeat();
    await harness.openGeneration("pods");
    expect(await harness.health("pods")).toMatchObject({ state: "SUSPECT", generation: 3 });
    await harness.manifest("pods", [], "9");
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCED", syncedGeneration: 3 });
    expect(await harness.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 a list that began before a resource was marked SUSPECT does not clear the mark", async () => {
    const harness = await (await open({ ...ONE_LANE, pods: 2 })).synced();
    await harness.openGeneration("pods");
    await harness.manifest("pods", [], "9", { lane: 0 });
    await harness.store.markSuspect("pods", "in the middle of a list");
    await harness.manifest("pods", [], "9", { lane: 1 });
    // The list is complete but the resource is still suspect, so the leader lists again.
    expect(await harness.health("pods")).toMatchObject({ state: "SUSPECT", generation: 2, syncedGeneration: 2 });
    expect(await harness.store.gate("replicaset")).toEqual({ open: false, reason: "pods: SUSPECT (in the middle of a list)" });
    await harness.openGeneration("pods");
    await harness.manifest("pods", [], "10", { lane: 0 });
    await harness.store.markSuspect("pods", "once more");
    await harness.manifest("pods", [], "10", { lane: 1 });
    expect(await harness.health("pods")).toMatchObject({ state: "SUSPECT", syncedGeneration: 3 });
    await harness.relist("pods", [], "11");
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCED", syncedGeneration: 4 });
    expect(await harness.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 opens only after a second list if a resource is marked SUSPECT during the first one", async () => {
    const harness = await (await open()).open();
    for (const resource of CACHED_RESOURCES) if (resource !== "pods") await harness.relist(resource, [], "0");
    await harness.openGeneration("pods");
    await harness.store.markSuspect("pods", "too early");
    await harness.manifest("pods", [], "5");
    expect(await harness.health("pods")).toMatchObject({ state: "SUSPECT", generation: 1, syncedGeneration: 1 });
    await harness.relist("pods", [], "6");
    expect(await harness.store.gate("replicaset")).toEqual(open1);
  });

  it("ignores a SUSPECT mark on a resource that was never listed", async () => {
    const harness = await open();
    await harness.store.markSuspect("pods", "no epoch");
    await harness.open();
    await harness.store.markSuspect("pods", "not listed");
    expect(await harness.health("pods")).toMatchObject({ state: "INIT" });
    await harness.relist("pods", [], "0");
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCED" });
  });

  it("WQ4 closes when a message has been missing for longer than the limit, and opens when the message arrives", async ({ harness }) => {
    const first = harness.nextSequence("pods");
    await harness.seed("pods", [], { kind: "W", watermark: "0", sequence: first + 1 });
    await harness.fixture.clock.advance(2_000);
    expect(await harness.store.gate("replicaset")).toEqual(open1);
    await harness.fixture.clock.advance(1);
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
    await harness.seed("pods", [], { kind: "W", watermark: "0", sequence: first });
    expect(await harness.store.gate("replicaset")).toEqual(open1);
    expect((await harness.health("pods"))?.holeForMs).toBeUndefined();
  });

  it("WQ4 restarts the time limit when a missing message arrives and the next one is missing", async ({ harness }) => {
    const first = harness.nextSequence("pods");
    for (const sequence of [first + 1, first + 3]) await harness.seed("pods", [], { kind: "W", watermark: "0", sequence });
    await harness.fixture.clock.advance(1_500);
    await harness.seed("pods", [], { kind: "W", watermark: "0", sequence: first + 4 });
    expect((await harness.health("pods"))?.holeForMs).toBe(1_500);
    await harness.seed("pods", [], { kind: "W", watermark: "0", sequence: first });
    expect((await harness.health("pods"))?.holeForMs).toBe(0);
    await harness.fixture.clock.advance(1_500);
    expect(await harness.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 stays open while a lane is frozen", async ({ harness }) => {
    await harness.openGeneration("pods");
    await harness.manifest("pods", [{ key: "shop/x", uid: "x", rv: "5" }], "9");
    expect(await harness.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 lets a running sync continue while the gate is closed", async ({ harness }) => {
    await harness.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", RS, 0);
    const { run } = await harness.taken("replicaset", RS);
    await harness.store.markSuspect("pods", "test");
    expect(await harness.store.renew(run)).toBe(harness.now() + LEASE_MS);
    expect(await harness.store.registerIntents(run, "uid-rs-web", [{ id: "c:x", verb: "create", name: "x" }])).toBe("ok");
    expect(await harness.writeThrough(run, "pods", [put(cachedPod())], { ownerUid: "uid-rs-web" })).toMatchObject({ kind: "ok" });
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ kind: "done" });
  });

  it("[informer T79] SyncAll enqueues a controller's keys a millisecond apart, within 30 s; a relist alone enqueues nothing", async ({
    harness,
  }) => {
    const rss = ["a", "b", "c", "d"].map((name) => cachedReplicaSet({ name }));
    await harness.seed(
      "replicasets",
      rss.map((rs) => put(rs, { counted: true })),
    );
    await harness.seed("deployments", [put(cachedDeployment(), { counted: true })]);
    await harness.relist("pods", [], "9");
    expect([await harness.dirty("replicaset"), await harness.dirty("deployment")]).toEqual([[], []]);
    await harness.store.markSuspect("pods", "test");
    const answers = await harness.relist("pods", [], "10");
    expect((await harness.store.queued("replicaset")).map((entry) => [entry.key, (entry.readyAtMs ?? 0) - harness.now()])).toEqual([
      ["shop/a", 0],
      ["shop/b", 1],
      ["shop/c", 2],
      ["shop/d", 3],
    ]);
    expect(answers.flatMap((answer) => rung(answer))).toEqual([
      "deployment shop/web",
      "replicaset shop/a",
      "replicaset shop/b",
      "replicaset shop/c",
      "replicaset shop/d",
    ]);
    const bells = answers.flatMap((answer) => (answer.kind === "applied" ? answer.bells : []));
    expect(bells.filter((bell) => bell.controller === "replicaset").map((bell) => bell.delayMs)).toEqual([0, 1, 2, 3]);
  });

  it("SyncAll sends at most 500 doorbells, leaves the rest to the sweeper, and does not delay keys due earlier", async ({ harness }) => {
    const count = 720;
    for (let start = 0; start < count; start += 90) {
      const rss = Array.from({ length: 90 }, (_, index) => cachedReplicaSet({ name: `rs-${String(start + index).padStart(4, "0")}` }));
      await harness.seed(
        "replicasets",
        rss.map((rs) => put(rs, { counted: true })),
        { watermark: "0" },
      );
    }
    await harness.store.add(harness.epoch, "replicaset", "shop/rs-0719", 0);
    await harness.store.markSuspect("replicasets", "test");
    await harness.openGeneration("replicasets");
    const rows = (await harness.store.readLane("replicasets", 0)).rows;
    const answer = await harness.manifest("replicasets", rows, "10");
    expect(answer.kind === "applied" && answer.bells.length).toBe(500);
    expect(await harness.readyIn("replicaset", "shop/rs-0719")).toBe(0);
    expect(await harness.readyIn("replicaset", "shop/rs-0718")).toBe(718);
    await harness.pass(6_000);
    expect(await harness.store.sweep(harness.epoch)).toHaveLength(500);
    expect(await harness.store.sweep(harness.epoch)).toHaveLength(220);
    expect(await harness.store.sweep(harness.epoch)).toHaveLength(0);
  });

  it("SyncAll enqueues a controller's keys when the last resource that it reads is listed", async () => {
    const harness = await (await open()).open();
    const rs = cachedReplicaSet({ resourceVersion: "5" });
    for (const resource of CACHED_RESOURCES) {
      const answers =
        resource === "replicasets"
          ? await harness.relist(resource, [rs], "6", (object) => put(object, { counted: true }))
          : await harness.relist(resource, [], "6");
      const bells = answers.flatMap((answer) => rung(answer));
      expect(bells, resource).toEqual(resource === "pods" ? ["replicaset shop/web"] : []);
    }
  });
}

async function beat(harness: StoreHarness, resource: "pods" | "replicasets", lane: number): Promise<void> {
  await harness.seed(resource, [], { kind: "W", lane, watermark: "0" });
}
