/**
 * What a Store tells when it has lost something (shared/ports/store.ts SL1–SL3; informer §11.7). Catches: a loss that only a hole would
 * show, after a minute; a gate that is open on what is left; a key that a run of before holds, who is no more.
 */
import { expect, it } from "vitest";

import { CACHED_RESOURCES, CONTROLLERS } from "../../../shared/api/resources.ts";
import { cachedPod, cachedReplicaSet, put } from "../../support/builders.ts";
import type { OpenRig } from "../store.ts";
import { EPOCH } from "./rig.ts";
import type { Rig } from "./rig.ts";

const RS = "shop/web";
const rs = cachedReplicaSet({ resourceVersion: "5" });
const ALL_SUSPECT = CACHED_RESOURCES.map((resource) => ({ resource, state: "SUSPECT" }));

/** Synced, with one ReplicaSet, whose key is dirty. */
async function synced(open: OpenRig): Promise<Rig> {
  const rig = await (await open()).synced();
  await rig.seed("replicasets", [put(rs, { counted: true })]);
  await rig.store.add(rig.epoch, "replicaset", RS, 0);
  return rig;
}

const beat = (rig: Rig, number: number, answered: number) =>
  rig.store.checkpoint({ epoch: rig.epoch, fence: rig.fence, sent: {}, beat: number, answered });

const states = async (rig: Rig) => {
  const answer = await beat(rig, 1, 0);
  return answer.kind === "ok" ? answer.resources.map(({ resource, state }) => ({ resource, state })) : answer;
};

async function expectAllShut(rig: Rig, why: RegExp): Promise<void> {
  for (const controller of CONTROLLERS)
    expect(await rig.store.gate(controller)).toMatchObject({ open: false, reason: expect.stringMatching(why) });
  expect(await rig.store.take(rig.run("replicaset", RS), {})).toMatchObject({ kind: "gated" });
}

export function lossCases(open: OpenRig): void {
  it("SL1 [informer T51] a Store that holds an older checkpoint than it has answered is set back: every gate shuts in that step", async (context) => {
    const rig = await synced(open);
    if (!rig.fixture.snapshot) return context.skip("the adapter cannot be set back");
    expect(await beat(rig, 1, 0)).toMatchObject({ kind: "ok" });
    const restore = await rig.fixture.snapshot();
    expect(await beat(rig, 2, 1)).toMatchObject({ kind: "ok" });
    await restore();
    expect(await rig.store.gate("replicaset")).toEqual({ open: true });
    expect(await beat(rig, 3, 2)).toEqual({ kind: "setBack", why: "it holds checkpoint 1 and has answered 2" });
    await expectAllShut(rig, /SUSPECT \(it holds checkpoint 1/u);
  });

  it("SL3 a leader that comes after a loss is told so by its fence: opened anew the resource would be listed, and the others not", async () => {
    const rig = await synced(open);
    await rig.fixture.lose("pods");
    expect(await rig.openFence("pods", "101")).toEqual({ kind: "damaged", why: "pods is not there" });
    expect(await rig.store.gate("replicaset")).toMatchObject({ open: false });
    rig.epoch = "e2";
    await rig.store.openEpoch({ ...EPOCH, epoch: "e2" }, "e1");
    expect(await rig.openFence("pods", "101")).toMatchObject({ kind: "open", state: "INIT" });
  });

  it("SL1 a checkpoint whose answer was lost is none: the Store may hold it or not", async () => {
    const rig = await synced(open);
    expect(await beat(rig, 1, 0)).toMatchObject({ kind: "ok" });
    expect(await beat(rig, 3, 1)).toMatchObject({ kind: "ok" }); // 2 never arrived
    expect(await beat(rig, 4, 1)).toMatchObject({ kind: "ok" }); // 3 did, and its answer did not
    expect(await rig.store.gate("replicaset")).toEqual({ open: true });
  });

  it("SL1 a new fence counts its checkpoints from 1", async () => {
    const rig = await synced(open);
    expect(await beat(rig, 7, 0)).toMatchObject({ kind: "ok" });
    await rig.raiseFence("101");
    expect(await beat(rig, 1, 0)).toMatchObject({ kind: "ok" });
    expect(await beat(rig, 2, 1)).toMatchObject({ kind: "ok" });
  });

  it("SL1 [informer T51] no run of before goes on: its key is due at once, and its calls are a stranger's", async (context) => {
    const rig = await synced(open);
    if (!rig.fixture.snapshot) return context.skip("the adapter cannot be set back");
    await beat(rig, 1, 0);
    const { run } = await rig.taken("replicaset", RS);
    const restore = await rig.fixture.snapshot();
    await rig.store.done(run, { kind: "ok" });
    await beat(rig, 2, 1);
    await restore();
    expect(await beat(rig, 3, 2)).toMatchObject({ kind: "setBack" });
    expect(await rig.dirty("replicaset")).toEqual([RS]);
    expect(await rig.store.done(run, { kind: "ok" })).toMatchObject({ kind: "ended", bell: { key: RS } });
    expect(await rig.store.registerIntents(run, rs.metadata.uid, [])).toBe("stolen");
    await rig.raiseFence("101");
    for (const resource of CACHED_RESOURCES) await rig.relist(resource, resource === "replicasets" ? [rs] : [], "6", put);
    expect((await rig.taken("replicaset", RS)).kind).toBe("ok");
  });

  it("SL1 SL2 [informer T51] on another primary every gate is shut, whoever asks, until its fence is opened there and all is listed", async (context) => {
    const rig = await synced(open);
    if (!rig.fixture.failOver) return context.skip("primaries are not told apart");
    await rig.fixture.failOver();
    await expectAllShut(rig, /another primary/u);
    expect(await rig.store.sweep(rig.epoch)).toEqual([]);
    expect(await beat(rig, 1, 0)).toMatchObject({ kind: "setBack", why: expect.stringContaining("another primary") });
    await rig.raiseFence("101");
    expect(await states(rig)).toEqual(ALL_SUSPECT);
    await expectAllShut(rig, /SUSPECT/u);
    for (const resource of CACHED_RESOURCES) await rig.relist(resource, resource === "replicasets" ? [rs] : [], "6", put);
    expect(await rig.store.gate("replicaset")).toEqual({ open: true });
    expect(await rig.dirty("replicaset")).toEqual([RS]);
  });

  it("SL2 [informer T51] a leader that opens its fence on another primary does not go on from where the last one was", async (context) => {
    const rig = await synced(open);
    if (!rig.fixture.failOver) return context.skip("primaries are not told apart");
    await rig.seed("pods", [put(cachedPod({ resourceVersion: "10" }))]);
    await rig.fixture.failOver();
    expect(await rig.openFence("pods", "101")).toMatchObject({ kind: "open", state: "SUSPECT" });
    expect(await rig.openFence("deployments", "101")).toMatchObject({ kind: "open", state: "SUSPECT" });
  });

  it("WQ2 a take that comes twice, its answer having been lost with the connection, is answered twice", async () => {
    const rig = await synced(open);
    const { run } = await rig.taken("replicaset", RS);
    expect(await rig.take(run)).toMatchObject({ kind: "ok" });
    expect(await rig.take(rig.run("replicaset", RS))).toEqual({ kind: "busy" });
    expect(await rig.store.done(run, { kind: "ok" })).toMatchObject({ kind: "done" });
    expect(await rig.take(run)).toEqual({ kind: "empty" });
  });

  it("SL3 [informer T50] a resource that was open and is not there: what is left is suspect", async () => {
    const rig = await (await open()).synced();
    await rig.fixture.lose("pods");
    const answer = await rig.store.checkpoint({ epoch: rig.epoch, fence: rig.fence, sent: { pods: "5" }, beat: 1, answered: 0 });
    expect(answer).toEqual({ kind: "damaged", why: "pods is not there" });
    await expectAllShut(rig, /SUSPECT|INIT/u);
  });
}
