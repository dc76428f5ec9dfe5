/** When keys are handed out, and what happens at the moment when they are again (informer §11.6, §15). */
import { expect, it } from "vitest";

import { LEASE_MS } from "../../../shared/ports/times.ts";
import { CACHED_RESOURCES, CONTROLLERS } from "../../../shared/api/resources.ts";
import { cachedDeployment, cachedPod, cachedReplicaSet, effect, put } from "../../support/builders.ts";
import type { OpenRig } from "../store.ts";
import { ONE_LANE, rung } from "./rig.ts";
import type { Rig } from "./rig.ts";

const RS = "shop/web";
const open1 = { open: true };

export function gateCases(open: OpenRig): void {
  it("WQ4 [informer T48] doorbells before the sync find a shut gate; when it opens every dirty key is rung and runs", async () => {
    const rig = await (await open()).open();
    const rss = ["a", "b"].map((name) => cachedReplicaSet({ name, resourceVersion: "5" }));
    await rig.openGeneration("replicasets");
    await rig.seed(
      "replicasets",
      rss.map((rs) => put(rs, { counted: true, effects: [effect("replicaset", rs, { self: true })] })),
      { kind: "L" },
    );
    expect(await rig.store.take(rig.run("replicaset", "shop/a"), {})).toMatchObject({ kind: "gated" });
    expect(await rig.store.take(rig.run("replicaset", "shop/none"), {})).toMatchObject({ kind: "gated" });
    expect(await rig.dirty("replicaset")).toEqual(["shop/a", "shop/b"]);
    const first = await rig.manifest(
      "replicasets",
      rss.map((rs) => ({ key: `shop/${rs.metadata.name}`, uid: rs.metadata.uid, rv: "5" })),
      "6",
    );
    expect(rung(first)).toEqual([]); // pods are missing yet
    expect(await rig.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("pods") });
    const second = await rig.relist("pods", [], "7");
    expect(second.flatMap((answer) => rung(answer))).toEqual(["replicaset shop/a", "replicaset shop/b"]);
    expect(await rig.store.gate("replicaset")).toEqual(open1);
    for (const key of await rig.dirty("replicaset")) {
      await rig.pass(2);
      expect((await rig.taken("replicaset", key)).kind).toBe("ok");
    }
  });

  it("WQ4 needs exactly the resources that the controller reads", async () => {
    const rig = await (await open()).open();
    const opened = async () =>
      (await Promise.all(CONTROLLERS.map(async (controller) => ((await rig.store.gate(controller)).open ? [controller] : [])))).flat();
    expect(await opened()).toEqual([]);
    await rig.relist("pods", [], "0");
    await rig.relist("replicationcontrollers", [], "0");
    expect(await opened()).toEqual(["replicationcontroller"]);
    await rig.relist("replicasets", [], "0");
    expect(await opened()).toEqual(["replicaset", "replicationcontroller"]);
    await rig.relist("deployments", [], "0");
    expect(await opened()).toEqual([...CONTROLLERS]);
  });

  it("WQ4 shuts when one lane has been silent for more than 60 s, and opens with any message in its turn", async () => {
    const rig = await (await open({ ...ONE_LANE, pods: 2 })).synced();
    await beat(rig, "replicasets", 0);
    await beat(rig, "pods", 0);
    await rig.fixture.clock.advance(60_000);
    await beat(rig, "pods", 0);
    await beat(rig, "replicasets", 0);
    expect(await rig.store.gate("replicaset")).toEqual(open1);
    await rig.fixture.clock.advance(1);
    expect(await rig.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringMatching(/pods.*lane 1/u) });
    // A message before its turn tells nothing of what came before it.
    await rig.seed("pods", [], { kind: "W", lane: 1, watermark: "0", sequence: rig.nextSequence("pods", 1) + 1 });
    expect(await rig.store.gate("replicaset")).toMatchObject({ open: false });
    await rig.seed("pods", [], { kind: "W", lane: 1, watermark: "0", sequence: rig.nextSequence("pods", 1) - 2 });
    expect(await rig.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 a relist keeps it open; SUSPECT shuts it until the manifests of a new generation", async () => {
    const rig = await (await open()).synced();
    await rig.openGeneration("pods");
    expect(await rig.store.gate("replicaset")).toEqual(open1);
    await rig.store.markSuspect("pods", "a message arrived in the dead-letter queue");
    expect(await rig.health("pods")).toMatchObject({ state: "SUSPECT" });
    expect(await rig.store.gate("replicaset")).toEqual({
      open: false,
      reason: "pods: SUSPECT (a message arrived in the dead-letter queue)",
    });
    await rig.raiseFence("101");
    await rig.heartbeat();
    await rig.openGeneration("pods");
    expect(await rig.health("pods")).toMatchObject({ state: "SUSPECT", generation: 3 });
    await rig.manifest("pods", [], "9");
    expect(await rig.health("pods")).toMatchObject({ state: "SYNCED", syncedGeneration: 3 });
    expect(await rig.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 a mark outlives the generation that stood open when it came: what was lost may be newer than that list", async () => {
    const rig = await (await open({ ...ONE_LANE, pods: 2 })).synced();
    await rig.openGeneration("pods");
    await rig.manifest("pods", [], "9", { lane: 0 });
    await rig.store.markSuspect("pods", "in the middle of a list");
    await rig.manifest("pods", [], "9", { lane: 1 });
    // Listed to the end and still suspect: this is what makes the leader list again.
    expect(await rig.health("pods")).toMatchObject({ state: "SUSPECT", generation: 2, syncedGeneration: 2 });
    expect(await rig.store.gate("replicaset")).toEqual({ open: false, reason: "pods: SUSPECT (in the middle of a list)" });
    await rig.openGeneration("pods");
    await rig.manifest("pods", [], "10", { lane: 0 });
    await rig.store.markSuspect("pods", "once more");
    await rig.manifest("pods", [], "10", { lane: 1 });
    expect(await rig.health("pods")).toMatchObject({ state: "SUSPECT", syncedGeneration: 3 });
    await rig.relist("pods", [], "11");
    expect(await rig.health("pods")).toMatchObject({ state: "SYNCED", syncedGeneration: 4 });
    expect(await rig.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 a mark during the first list leads to a second one", async () => {
    const rig = await (await open()).open();
    for (const resource of CACHED_RESOURCES) if (resource !== "pods") await rig.relist(resource, [], "0");
    await rig.openGeneration("pods");
    await rig.store.markSuspect("pods", "too early");
    await rig.manifest("pods", [], "5");
    expect(await rig.health("pods")).toMatchObject({ state: "SUSPECT", generation: 1, syncedGeneration: 1 });
    await rig.relist("pods", [], "6");
    expect(await rig.store.gate("replicaset")).toEqual(open1);
  });

  it("marking what was never listed changes nothing", async () => {
    const rig = await open();
    await rig.store.markSuspect("pods", "no epoch");
    await rig.open();
    await rig.store.markSuspect("pods", "not listed");
    expect(await rig.health("pods")).toMatchObject({ state: "INIT" });
    await rig.relist("pods", [], "0");
    expect(await rig.health("pods")).toMatchObject({ state: "SYNCED" });
  });

  it("WQ4 a hole shuts it after the limit, and the message that fills it opens it", async () => {
    const rig = await (await open()).synced();
    const first = rig.nextSequence("pods");
    await rig.seed("pods", [], { kind: "W", watermark: "0", sequence: first + 1 });
    await rig.fixture.clock.advance(2_000);
    expect(await rig.store.gate("replicaset")).toEqual(open1);
    await rig.fixture.clock.advance(1);
    expect(await rig.store.gate("replicaset")).toMatchObject({ open: false });
    await rig.seed("pods", [], { kind: "W", watermark: "0", sequence: first });
    expect(await rig.store.gate("replicaset")).toEqual(open1);
    expect((await rig.health("pods"))?.holeForMs).toBeUndefined();
  });

  it("WQ4 a lane that moves on behind a hole starts its time anew", async () => {
    const rig = await (await open()).synced();
    const first = rig.nextSequence("pods");
    for (const sequence of [first + 1, first + 3]) await rig.seed("pods", [], { kind: "W", watermark: "0", sequence });
    await rig.fixture.clock.advance(1_500);
    await rig.seed("pods", [], { kind: "W", watermark: "0", sequence: first + 4 });
    expect((await rig.health("pods"))?.holeForMs).toBe(1_500);
    await rig.seed("pods", [], { kind: "W", watermark: "0", sequence: first });
    expect((await rig.health("pods"))?.holeForMs).toBe(0);
    await rig.fixture.clock.advance(1_500);
    expect(await rig.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 a frozen lane does not shut it: absence is what it does not know", async () => {
    const rig = await (await open()).synced();
    await rig.openGeneration("pods");
    await rig.manifest("pods", [{ key: "shop/x", uid: "x", rv: "5" }], "9");
    expect(await rig.store.gate("replicaset")).toEqual(open1);
  });

  it("WQ4 what is running goes on while the gate is shut", async () => {
    const rig = await (await open()).synced();
    await rig.seed("replicasets", [put(cachedReplicaSet(), { counted: true })]);
    await rig.store.add(rig.epoch, "replicaset", RS, 0);
    const { run } = await rig.taken("replicaset", RS);
    await rig.store.markSuspect("pods", "test");
    expect(await rig.store.renew(run)).toBe(rig.now() + LEASE_MS);
    expect(await rig.store.registerIntents(run, "uid-rs-web", [{ id: "c:x", verb: "create", name: "x" }])).toBe("ok");
    expect(await rig.writeThrough(run, "pods", [put(cachedPod())], { ownerUid: "uid-rs-web" })).toMatchObject({ kind: "ok" });
    expect(await rig.store.done(run, { kind: "ok" })).toMatchObject({ kind: "done" });
  });

  it("[informer T79] SyncAll spreads a controller's keys over a millisecond each, at most 30 s; a plain relist queues nobody", async () => {
    const rig = await (await open()).synced();
    const rss = ["a", "b", "c", "d"].map((name) => cachedReplicaSet({ name }));
    await rig.seed(
      "replicasets",
      rss.map((rs) => put(rs, { counted: true })),
    );
    await rig.seed("deployments", [put(cachedDeployment(), { counted: true })]);
    await rig.relist("pods", [], "9");
    expect([await rig.dirty("replicaset"), await rig.dirty("deployment")]).toEqual([[], []]);
    await rig.store.markSuspect("pods", "test");
    const answers = await rig.relist("pods", [], "10");
    expect((await rig.store.queued("replicaset")).map((entry) => [entry.key, (entry.readyAtMs ?? 0) - rig.now()])).toEqual([
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

  it("SyncAll rings at most 500 and leaves the rest to the sweeper; it brings nothing that is earlier back", async () => {
    const rig = await (await open()).synced();
    const count = 720;
    for (let start = 0; start < count; start += 90) {
      const rss = Array.from({ length: 90 }, (_, index) => cachedReplicaSet({ name: `rs-${String(start + index).padStart(4, "0")}` }));
      await rig.seed(
        "replicasets",
        rss.map((rs) => put(rs, { counted: true })),
        { watermark: "0" },
      );
    }
    await rig.store.add(rig.epoch, "replicaset", "shop/rs-0719", 0);
    await rig.store.markSuspect("replicasets", "test");
    await rig.openGeneration("replicasets");
    const rows = (await rig.store.readLane("replicasets", 0)).rows;
    const answer = await rig.manifest("replicasets", rows, "10");
    expect(answer.kind === "applied" && answer.bells.length).toBe(500);
    expect(await rig.readyIn("replicaset", "shop/rs-0719")).toBe(0);
    expect(await rig.readyIn("replicaset", "shop/rs-0718")).toBe(718);
    await rig.pass(6_000);
    expect(await rig.store.sweep(rig.epoch)).toHaveLength(500);
    expect(await rig.store.sweep(rig.epoch)).toHaveLength(220);
    expect(await rig.store.sweep(rig.epoch)).toHaveLength(0);
  });

  it("SyncAll comes with each resource that a controller reads, so the last one to be synced opens it", async () => {
    const rig = await (await open()).open();
    const rs = cachedReplicaSet({ resourceVersion: "5" });
    for (const resource of CACHED_RESOURCES) {
      const answers =
        resource === "replicasets"
          ? await rig.relist(resource, [rs], "6", (object) => put(object, { counted: true }))
          : await rig.relist(resource, [], "6");
      const bells = answers.flatMap((answer) => rung(answer));
      expect(bells, resource).toEqual(resource === "pods" ? ["replicaset shop/web"] : []);
    }
  });
}

async function beat(rig: Rig, resource: "pods" | "replicasets", lane: number): Promise<void> {
  await rig.seed(resource, [], { kind: "W", lane, watermark: "0" });
}
