/** How a Store reports that it has lost data (shared/store/ports/store.ts SL1–SL3; informer §11.7). */
import { expect, it as base } from "vitest";

import { CACHED_RESOURCES, CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import { cachedPod, cachedReplicaSet, effect, put } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { EPOCH, type StoreHarness } from "../../harness/store/store.ts";

const RS = "shop/web";
const rs = cachedReplicaSet({ resourceVersion: "5" });
const ALL_SUSPECT = CACHED_RESOURCES.map((resource) => ({ resource, state: "SUSPECT" }));

/** A synced Store with one ReplicaSet, whose key is queued. */
async function synced(open: OpenStore): Promise<StoreHarness> {
  const harness = await (await open()).synced();
  await harness.seed("replicasets", [put(rs, { counted: true })]);
  await harness.store.add(harness.epoch, "replicaset", RS, 0);
  return harness;
}

const beat = (harness: StoreHarness, number: number, answered: number) =>
  harness.store.checkpoint({ epoch: harness.epoch, fence: harness.fence, sent: {}, beat: number, answered });

const states = async (harness: StoreHarness) => {
  const answer = await beat(harness, 1, 0);
  return answer.kind === "ok" ? answer.resources.map(({ resource, state }) => ({ resource, state })) : answer;
};

async function expectAllShut(harness: StoreHarness, why: RegExp): Promise<void> {
  for (const controller of CONTROLLERS)
    expect(await harness.store.gate(controller)).toMatchObject({ open: false, reason: expect.stringMatching(why) });
  expect(await harness.store.take(harness.run("replicaset", RS), {})).toMatchObject({ kind: "gated" });
}

export function lossCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await synced(open));
  it("SL1 [informer T51] a checkpoint older than the last confirmed one shows a rollback of the Store, and closes every gate at once", async ({
    harness,
    skip,
  }) => {
    if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
    expect(await beat(harness, 1, 0)).toMatchObject({ kind: "ok" });
    const restore = await harness.fixture.snapshot();
    expect(await beat(harness, 2, 1)).toMatchObject({ kind: "ok" });
    await restore();
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    expect(await beat(harness, 3, 2)).toEqual({ kind: "setBack", why: "it has checkpoint 1 but has acknowledged 2" });
    await expectAllShut(harness, /SUSPECT \(it has checkpoint 1/u);
  });

  it("SL3 a leader detects a lost resource when it opens its fence, and needs a new epoch", async ({ harness }) => {
    await harness.fixture.lose("pods");
    expect(await harness.openFence("pods", "101")).toEqual({ kind: "damaged", why: "pods is missing" });
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
    harness.epoch = "e2";
    await harness.store.openEpoch({ ...EPOCH, epoch: "e2" }, "e1");
    expect(await harness.openFence("pods", "101")).toMatchObject({ kind: "open", state: "INIT" });
  });

  it("SL1 accepts the next checkpoint whether or not the Store has received an unanswered one", async ({ harness }) => {
    expect(await beat(harness, 1, 0)).toMatchObject({ kind: "ok" });
    expect(await beat(harness, 3, 1)).toMatchObject({ kind: "ok" }); // checkpoint 2 was lost
    expect(await beat(harness, 4, 1)).toMatchObject({ kind: "ok" }); // checkpoint 3 arrived, but its response was lost
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
  });

  it("SL1 a new fence starts counting its checkpoints at 1", async ({ harness }) => {
    expect(await beat(harness, 7, 0)).toMatchObject({ kind: "ok" });
    await harness.raiseFence("101");
    expect(await beat(harness, 1, 0)).toMatchObject({ kind: "ok" });
    expect(await beat(harness, 2, 1)).toMatchObject({ kind: "ok" });
  });

  it("SL1 [informer T51] after a rollback, rejects calls of every earlier run and makes its key due immediately", async ({
    harness,
    skip,
  }) => {
    if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
    await beat(harness, 1, 0);
    const { run } = await harness.taken("replicaset", RS);
    const restore = await harness.fixture.snapshot();
    await harness.store.done(run, { kind: "ok" });
    await beat(harness, 2, 1);
    await restore();
    expect(await beat(harness, 3, 2)).toMatchObject({ kind: "setBack" });
    expect(await harness.dirty("replicaset")).toEqual([RS]);
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ kind: "ended", bell: { key: RS } });
    expect(await harness.store.registerIntents(run, rs.metadata.uid, [])).toBe("stolen");
    await harness.raiseFence("101");
    for (const resource of CACHED_RESOURCES) await harness.relist(resource, resource === "replicasets" ? [rs] : [], "6", put);
    expect((await harness.taken("replicaset", RS)).kind).toBe("ok");
  });

  it("SL1 SL2 [informer T51] after a failover, gates stay closed until the fence is opened on the new primary and everything is listed", async ({
    harness,
    skip,
  }) => {
    if (!harness.fixture.failOver) return skip("primaries are not told apart");
    await harness.fixture.failOver();
    await expectAllShut(harness, /another primary/u);
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    expect(await beat(harness, 1, 0)).toMatchObject({ kind: "setBack", why: expect.stringContaining("another primary") });
    await harness.raiseFence("101");
    expect(await states(harness)).toEqual(ALL_SUSPECT);
    await expectAllShut(harness, /SUSPECT/u);
    for (const resource of CACHED_RESOURCES) await harness.relist(resource, resource === "replicasets" ? [rs] : [], "6", put);
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    expect(await harness.dirty("replicaset")).toEqual([RS]);
  });

  it("SL2 [informer T51] a leader that opens its fence on a new primary does not resume from the last watermark", async ({
    harness,
    skip,
  }) => {
    if (!harness.fixture.failOver) return skip("primaries are not told apart");
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "10" }))]);
    await harness.fixture.failOver();
    expect(await harness.openFence("pods", "101")).toMatchObject({ kind: "open", state: "SUSPECT" });
    expect(await harness.openFence("deployments", "101")).toMatchObject({ kind: "open", state: "SUSPECT" });
  });

  /** A run of a key that no longer exists in the Store, which is set back to a time when the key was not queued. */
  const forgotten = async (harness: StoreHarness, snapshot: NonNullable<StoreHarness["fixture"]["snapshot"]>) => {
    await harness.store.done((await harness.taken("replicaset", RS)).run, { kind: "ok" });
    const restore = await snapshot();
    await harness.store.add(harness.epoch, "replicaset", RS, 0);
    const { run } = await harness.taken("replicaset", RS);
    await restore();
    return run;
  };

  it.each([
    { outcome: { kind: "requeueAfter", delayMs: 5_000 }, delayMs: 5_000 },
    { outcome: { kind: "retry" }, delayMs: 0 },
    { outcome: { kind: "ok" }, delayMs: undefined },
    { outcome: { kind: "drop" }, delayMs: undefined },
  ] as const)("WQ9 a run that a set-back Store does not know queues its key unless its outcome is final: $outcome.kind", async (each) => {
    const harness = await synced(open);
    if (!harness.fixture.snapshot) return;
    const run = await forgotten(harness, harness.fixture.snapshot);
    const bell = each.delayMs !== undefined && { bell: expect.objectContaining({ key: RS, delayMs: each.delayMs }) as object };
    expect(await harness.store.done(run, each.outcome)).toEqual({ kind: "ended", ...bell });
    expect(await harness.dirty("replicaset")).toEqual(bell ? [RS] : []);
  });

  it("WQ9 a status write of a run that a set-back Store does not know queues its key", async ({ harness, skip }) => {
    if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
    const run = await forgotten(harness, harness.fixture.snapshot);
    const status = { ...rs, metadata: { ...rs.metadata, resourceVersion: "7" } };
    const items = [put(status, { effects: [effect("replicaset", rs)] })];
    await harness.writeThrough(run, "replicasets", items, { ownerUid: rs.metadata.uid, ownStatus: true });
    expect(await harness.dirty("replicaset")).toEqual([RS]);
  });

  it("WQ2 a take that is repeated after a lost response returns the same result", async ({ harness }) => {
    const { run } = await harness.taken("replicaset", RS);
    expect(await harness.take(run)).toMatchObject({ kind: "ok" });
    expect(await harness.take(harness.run("replicaset", RS))).toEqual({ kind: "busy" });
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ kind: "done" });
    expect(await harness.take(run)).toEqual({ kind: "empty" });
  });

  it("SL3 [informer T50] marks all other resources SUSPECT if the data of one resource is missing", async () => {
    const harness = await (await open()).synced();
    await harness.fixture.lose("pods");
    const answer = await harness.store.checkpoint({
      epoch: harness.epoch,
      fence: harness.fence,
      sent: { pods: "5" },
      beat: 1,
      answered: 0,
    });
    expect(answer).toEqual({ kind: "damaged", why: "pods is missing" });
    await expectAllShut(harness, /SUSPECT|INIT/u);
  });
}
