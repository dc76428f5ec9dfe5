/** Write-through to the cache: responses to own writes, and live reads (informer §13 layer 2). */
import { expect, it as base } from "vitest";

import type { Taken } from "../../../shared/store/ports/store.ts";
import { LEASE_MS } from "../../../shared/base/times.ts";
import { asOwner, cachedDeployment, cachedPod, cachedReplicaSet, effect, ownedBy, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { outcomes, rung, writeOf, type StoreHarness } from "../../harness/store/store.ts";

const KEY = "shop/web";
const C = "replicaset";
const deployment = cachedDeployment();
const rs = cachedReplicaSet({ resourceVersion: "5", owner: ownedBy("Deployment", deployment) });
const UID = rs.metadata.uid;
const OWNER = asOwner("replicaset", rs);
const owned = (resourceVersion: string, name = "web-1") => cachedPod({ name, resourceVersion, owner: ownedBy("ReplicaSet", rs) });

export function writeThroughCases(open: OpenStore): void {
  const it = base
    .extend("started", async () => await running())
    .extend("harness", ({ started }) => started.harness)
    .extend("run", ({ started }) => started.run);
  const running = async (): Promise<{ readonly harness: StoreHarness; readonly run: Taken }> => {
    const harness = await (await open()).synced();
    await harness.seed("deployments", [put(deployment, { counted: true })]);
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.store.add(harness.epoch, C, KEY, 0);
    const { run } = await harness.taken(C, KEY);
    return { harness, run };
  };

  it("a changed row enqueues the key being synced, whose doorbell `done` returns", async ({ harness, run }) => {
    expect(rung(await harness.writeThrough(run, "pods", [put(owned("10"))], { ownerUid: UID }))).toEqual([]);
    expect(await harness.row("pods", "shop/web-1")).toMatchObject({ rv: "10", owner: OWNER });
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ bell: { key: KEY, delayMs: 0 } });
  });

  it("[informer A4] a response that the stream has already delivered enqueues nothing", async ({ harness, run }) => {
    await harness.seed("pods", [put(owned("10"))]);
    const effects = [effect("deployment", deployment), effect(C, rs)];
    expect(await harness.writeThrough(run, "pods", [put(owned("10"), { effects })], { ownerUid: UID })).toEqual({
      kind: "ok",
      bells: [],
      outcomes: ["same"],
    });
    expect([await harness.dirty(C), await harness.dirty("deployment")]).toEqual([[], []]);
  });

  it("[replicaset 88] keeps the newest of several responses for one object, in any order", async ({ harness, run }) => {
    for (const version of ["5", "10", "8"]) await harness.writeThrough(run, "pods", [put(owned(version))], { ownerUid: UID });
    const status = { ...rs, metadata: { ...rs.metadata, resourceVersion: "6" } };
    await harness.writeThrough(run, "replicasets", [put(status)], { ownerUid: UID, ownStatus: true });
    expect([await harness.row("pods", "shop/web-1"), await harness.row("replicasets", KEY)]).toMatchObject([{ rv: "10" }, { rv: "6" }]);
  });

  it("[replicaset 89] [replicaset 90] the next run reads the responses to earlier writes, even if their watch events are late", async ({
    harness,
    run,
  }) => {
    const seen = async () => {
      await harness.store.add(harness.epoch, C, KEY, 0);
      const taken = await harness.taken(C, KEY);
      await harness.store.done(taken.run, { kind: "ok" });
      return [taken.snapshot.primary?.rv, ...taken.snapshot.dependents.map(({ rv }) => rv)];
    };
    await harness.writeThrough(run, "pods", [put(owned("10"))], { ownerUid: UID });
    await harness.writeThrough(run, "replicasets", [put({ ...rs, metadata: { ...rs.metadata, resourceVersion: "100" } })], {
      ownerUid: UID,
    });
    await harness.store.done(run, { kind: "ok" });
    expect(await seen()).toEqual(["100", "10"]);
    await harness.deliver("pods", [put(owned("5"))]);
    await harness.deliver("replicasets", [put({ ...rs, metadata: { ...rs.metadata, resourceVersion: "50" } })]);
    expect(await seen()).toEqual(["100", "10"]);
    await harness.deliver("pods", [put(owned("15"))]);
    expect(await seen()).toEqual(["100", "15"]);
  });

  it("[replicaset 91] a recreated owner has no data of its predecessor", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [{ id: "c:web-2", verb: "create", name: "web-2" }]);
    await harness.writeThrough(run, "pods", [put(owned("10"))], { ownerUid: UID });
    const heir = cachedReplicaSet({ uid: "heir", resourceVersion: "20" });
    await harness.seed("replicasets", [remove(rs, "19", { counted: true })]);
    await harness.seed("replicasets", [put(heir, { counted: true })]);
    // A late response to a call of the previous owner is cached for its pod and does not affect the new owner.
    await harness.writeThrough(run, "pods", [put(owned("30", "web-2"))], { ownerUid: UID });
    await harness.store.done(run, { kind: "ok" });
    await harness.store.add(harness.epoch, C, KEY, 0);
    const { snapshot } = await harness.taken(C, KEY);
    expect(snapshot).toMatchObject({ primary: { uid: "heir" }, dependents: [], intents: [] });
  });

  it("[replicaset 93] watch events change and delete a row that was cached from a response", async ({ harness, run }) => {
    await harness.writeThrough(run, "pods", [put(owned("10"))], { ownerUid: UID });
    await harness.store.done(run, { kind: "ok" });
    await harness.deliver("pods", [put(owned("10"))]);
    await harness.deliver("pods", [remove(owned("10"), "11")]);
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
    await harness.store.add(harness.epoch, C, KEY, 0);
    expect((await harness.taken(C, KEY)).snapshot).toMatchObject({ dependents: [], intents: [] });
  });

  it("[informer T35] [informer A6] drops the response for a pod that was already deleted without being cached, and requeues the key", async ({
    harness,
    run,
  }) => {
    await harness.seed("pods", [], { kind: "W", watermark: "50" });
    const answer = await harness.writeThrough(run, "pods", [put(owned("10"), { effects: [effect("deployment", deployment)] })], {
      ownerUid: UID,
    });
    expect(outcomes(answer)).toEqual(["absent"]);
    expect(await harness.dirty(C)).toEqual([KEY]);
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
  });

  it("[informer A5] drops a response that is older than its pod's deletion, and requeues the key", async ({ harness, run }) => {
    await harness.seed("pods", [remove(owned("10"), "80")], { commit: false });
    const answer = await harness.writeThrough(run, "pods", [put(owned("79"))], { ownerUid: UID });
    expect(outcomes(answer)).toEqual(["late"]);
    expect(await harness.dirty(C)).toEqual([KEY]);
  });

  it("[informer A4] drops a response that is older than its pod's release, and requeues the key", async ({ harness, run }) => {
    await harness.seed("pods", [put(cachedPod({ name: "web-1", resourceVersion: "12" }))], { commit: false });
    const answer = await harness.writeThrough(run, "pods", [put(owned("10"))], { ownerUid: UID });
    expect(outcomes(answer)).toEqual(["late"]);
    expect(await harness.dirty(C)).toEqual([KEY]);
    expect(await harness.row("pods", "shop/web-1")).toMatchObject({ rv: "12" });
  });

  it("[informer A4] ignores a live read of the primary that is older than its row, even if the owners differ", async ({ harness, run }) => {
    const answer = await harness.writeThrough(run, "replicasets", [put(cachedReplicaSet({ resourceVersion: "4" }))], { ownerUid: UID });
    expect(outcomes(answer)).toEqual(["same"]);
    expect(await harness.dirty(C)).toEqual([]);
  });

  it("a dropped response enqueues the key even if a later row of the call must be repeated", async ({ harness, run }) => {
    await harness.seed("pods", [], { kind: "W", watermark: "50" });
    const items = await harness.read("pods", [put(owned("10", "dropped")), put(owned("60", "moved"))]);
    await harness.seed("pods", [put(owned("55", "moved"))]);
    const answer = await harness.writeThrough(run, "pods", [], { items, ownerUid: UID });
    expect(answer).toMatchObject({ kind: "retry", index: 1, outcomes: ["absent"] });
    expect(await harness.dirty(C)).toEqual([KEY]);
    await harness.seed("pods", [put(owned("60", "moved"))]);
    expect(outcomes(await harness.writeThrough(run, "pods", items.slice(1), { ownerUid: UID }))).toEqual(["same"]);
    expect(await harness.dirty(C)).toEqual([KEY]);
  });

  it("a call that must be repeated leaves the intents unchanged", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    await harness.seed("pods", [put(owned("10", "gone"))]);
    const items = [put(owned("20"), { expected: { key: "shop/web-1", uid: "x", rv: "3", gone: false, object: owned("3") } })];
    const ops = { ownerUid: UID, lower: ["c:web-1"], gone: [{ key: "shop/gone", uid: "uid-gone" }] };
    expect(await harness.writeThrough(run, "pods", [], { ...ops, items })).toEqual({ kind: "retry", index: 0, bells: [], outcomes: [] });
    expect((await harness.row("pods", "shop/gone"))?.gone).toBe(false);
    expect(
      await harness.writeThrough(run, "pods", [], { ...ops, items, counts: [{ resource: "replicasets", namespace: "shop", count: 99 }] }),
    ).toMatchObject({ kind: "retry", index: 0 });
    await harness.store.done(run, { kind: "ok" });
    await harness.store.add(harness.epoch, C, KEY, 0);
    expect(await harness.intents(UID, C, KEY)).toHaveLength(1);
  });

  it("IX8 a write-through is repeated if a namespace's object count has changed", async ({ harness, run }) => {
    const { counts } = await harness.store.readIndex({ counts: [{ resource: "replicasets", namespace: "shop" }] });
    await harness.seed("replicasets", [put(cachedReplicaSet({ name: "new", resourceVersion: "8" }), { counted: true })]);
    expect(await harness.writeThrough(run, "pods", [put(cachedPod({ resourceVersion: "10" }))], { ownerUid: UID, counts })).toEqual({
      kind: "retry",
      index: 0,
      bells: [],
      outcomes: [],
    });
  });

  it("[informer T78] a status write enqueues the Deployment and not its own key, and its later event enqueues nothing", async ({
    harness,
    run,
  }) => {
    const written = { ...rs, metadata: { ...rs.metadata, resourceVersion: "7" }, status: { replicas: 1, observedGeneration: 1 } };
    const effects = [effect(C, rs, { self: true, urgency: "status" }), effect("deployment", deployment, { urgency: "status" })];
    const answer = await harness.writeThrough(run, "replicasets", [put(written, { effects })], { ownerUid: UID, ownStatus: true });
    expect(rung(answer)).toEqual(["deployment shop/web"]);
    expect(await harness.dirty(C)).toEqual([]);
    const event = await harness.deliver("replicasets", [put(written, { effects })]);
    expect([outcomes(event), rung(event)]).toEqual([["same"], []]);
    expect(await harness.store.done(run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
  });

  it("[informer T78] a release enqueues another matching ReplicaSet, and its later event enqueues nothing", async ({ harness, run }) => {
    const other = cachedReplicaSet({ name: "other", resourceVersion: "8" });
    await harness.seed("replicasets", [put(other, { counted: true })]);
    await harness.seed("pods", [put(owned("10"))]);
    const released = put(cachedPod({ resourceVersion: "11" }), { effects: [effect(C, other), effect(C, rs)] });
    expect(rung(await harness.writeThrough(run, "pods", [released], { ownerUid: UID }))).toEqual([`${C} shop/other`]);
    expect(await harness.dirty(C)).toContain(KEY);
    for (const key of ["shop/other"]) await harness.store.done((await harness.taken(C, key)).run, { kind: "ok" });
    expect(rung(await harness.deliver("pods", [released]))).toEqual([]);
    expect(
      (
        await harness.store.readSlices([
          { resource: "pods", owner: OWNER },
          { resource: "pods", orphansOf: "shop" },
        ])
      ).map((slice) => slice.length),
    ).toEqual([0, 1]);
  });

  it("[informer T76] a delete whose response lacks the object hides the pod until the stream confirms", async ({ harness, run }) => {
    await harness.seed("pods", [put(owned("10")), put(owned("11", "replaced"))]);
    const gone = [
      { key: "shop/web-1", uid: "uid-web-1" },
      { key: "shop/replaced", uid: "another" },
      { key: "shop/none", uid: "none" },
    ];
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, gone });
    expect(await harness.dirty(C)).toEqual([KEY]);
    const [slice] = await harness.store.readSlices([{ resource: "pods", owner: OWNER }]);
    expect(slice?.map((row) => [row.key, row.gone])).toEqual([
      ["shop/replaced", false],
      ["shop/web-1", true],
    ]);
    expect((await harness.store.readLane("pods", 0)).rows.map((row) => row.gone)).toEqual([false, true]);
    await harness.store.done(run, { kind: "ok" });
    const next = await harness.taken(C, KEY);
    await harness.writeThrough(next.run, "pods", [], { ownerUid: UID, gone });
    expect(await harness.dirty(C)).toEqual([]);
    await harness.seed("pods", [remove(owned("10"), "40")]);
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
  });

  it("an object written by another key's run lowers the intent without enqueueing the intent's key", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    await harness.store.done(run, { kind: "ok" });
    await harness.store.add(harness.epoch, "deployment", KEY, 0);
    const other = await harness.taken("deployment", KEY);
    const found = put(owned("10"), { lowers: [{ owner: OWNER, op: "c:web-1" }] });
    await harness.writeThrough(other.run, "pods", [found], { ownerUid: deployment.metadata.uid });
    expect(await harness.dirty("deployment")).toEqual([KEY]);
    expect(await harness.dirty(C)).toEqual([]);
    await harness.store.add(harness.epoch, C, KEY, 0);
    expect(await harness.intents(UID, C, KEY)).toEqual([]);
  });

  it("advances neither the sequence nor the watermark of a lane", async ({ harness, run }) => {
    const before = await harness.openFence("pods");
    await harness.writeThrough(run, "pods", [put(owned("99"))], { ownerUid: UID });
    expect(await harness.openFence("pods")).toEqual(before);
  });

  it("[informer A10] a live read with another uid replaces the row and removes the intents", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [{ id: "c:x", verb: "create", name: "x" }]);
    const young = cachedReplicaSet({ uid: "rs2", resourceVersion: "9" });
    await harness.writeThrough(run, "replicasets", [put(young, { counted: true, effects: [effect(C, young, { self: true })] })], {
      ownerUid: UID,
    });
    expect(await harness.store.registerIntents(run, UID, [])).toBe("stolen");
    await harness.store.done(run, { kind: "ok" });
    const { snapshot } = await harness.taken(C, KEY);
    expect([snapshot.primary?.uid, snapshot.intents]).toEqual(["rs2", []]);
  });

  it("accepts responses from a worker that has lost the key's lease, because they are still valid", async ({ harness, run }) => {
    await harness.pass(LEASE_MS);
    await harness.store.add(harness.epoch, C, KEY, 0);
    await harness.taken(C, KEY);
    expect(outcomes(await harness.writeThrough(run, "pods", [put(owned("10"))], { ownerUid: UID }))).toEqual(["changed"]);
    expect(await harness.dirty(C)).toEqual([KEY]);
  });

  it("caches a whole slow-start batch of 500 responses in one call", async ({ harness, run }) => {
    const items = Array.from({ length: 500 }, (_, index) => put(owned(`${index + 10}`, `p${index}`)));
    const answer = await harness.store.writeThrough(run, { ...writeOf("pods"), items, ownerUid: UID });
    expect(outcomes(answer).filter((outcome) => outcome === "changed")).toHaveLength(500);
    expect((await harness.store.readSlices([{ resource: "pods", owner: OWNER }]))[0]).toHaveLength(500);
  });

  const status = (resourceVersion = "7") => ({
    ...rs,
    metadata: { ...rs.metadata, resourceVersion },
    status: { replicas: 1, observedGeneration: 1 },
  });
  const OF_STATUS = { ownerUid: UID, ownStatus: true } as const;
  const lease = async (harness: StoreHarness) => (await harness.store.queued(C)).find(({ key }) => key === KEY)?.leaseUntilMs;

  it("[informer T109] WQ8 a status write ends its run and frees the key in the same step, and enqueues other keys as usual", async ({
    harness,
    run,
  }) => {
    const effects = [effect("deployment", deployment, { urgency: "status" })];
    const answer = await harness.writeThrough(run, "replicasets", [put(status(), { effects })], { ...OF_STATUS, ends: { kind: "ok" } });
    expect(answer).toEqual({ kind: "ok", bells: expect.any(Array), outcomes: ["changed"], done: { kind: "done", failures: 0 } });
    expect(rung(answer)).toEqual(["deployment shop/web"]);
    expect(await harness.row("replicasets", KEY)).toMatchObject({ rv: "7" });
    expect([await harness.dirty(C), await lease(harness)]).toEqual([[], undefined]);
    expect([await harness.store.renew(run), await harness.store.done(run, { kind: "ok" })]).toEqual([undefined, { kind: "ended" }]);
  });

  it("[informer T109] WQ8 a final status write returns one doorbell for a key enqueued by it and by others", async ({ harness, run }) => {
    await harness.deliver("pods", [put(owned("9", "other"), { effects: [effect(C, rs)] })]);
    const added = await harness.writeThrough(run, "replicasets", [put(status())], {
      ...OF_STATUS,
      ends: { kind: "requeueAfter", delayMs: 600_000 },
    });
    expect(added).toMatchObject({ bells: [], done: { kind: "done", bell: { controller: C, key: KEY, delayMs: 0 } } });
    const next = await harness.taken(C, KEY);
    const own = await harness.writeThrough(next.run, "pods", [put(owned("10"))], { ownerUid: UID, ends: { kind: "ok" } });
    expect(own).toMatchObject({ bells: [], done: { kind: "done", bell: { key: KEY, delayMs: 0 } } });
    expect(await harness.dirty(C)).toEqual([KEY]);
  });

  it.each([
    { ends: { kind: "retry" } as const, failures: 1, delayMs: 5 },
    { ends: { kind: "requeueAfter", delayMs: 600_000 } as const, failures: 0, delayMs: 600_000 },
  ])("[informer T109] WQ8 a final status write returns the same result as `done`: $ends.kind", async ({ ends, failures, delayMs }) => {
    const { harness, run } = await running();
    expect(await harness.writeThrough(run, "replicasets", [put(status())], { ...OF_STATUS, ends })).toMatchObject({
      bells: [],
      done: { kind: "done", failures, bell: { key: KEY, delayMs } },
    });
    expect(await harness.store.queued(C)).toMatchObject([{ key: KEY, failures }]);
  });

  it("[informer T109] WQ8 a final status write can park its key", async ({ harness, run }) => {
    await harness.writeThrough(run, "replicasets", [put(status())], { ...OF_STATUS, ends: { kind: "drop" } });
    expect(await harness.store.parked(C)).toMatchObject([{ key: KEY, failures: 1 }]);
  });

  it("[informer T109] WQ8 a final status write does not end the run if it must be repeated", async ({ harness, run }) => {
    const items = await harness.read("replicasets", [put(status("7"))]);
    await harness.seed("replicasets", [put(status("6"))]);
    await harness.store.registerIntents(run, UID, [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    const ends = { ...OF_STATUS, lower: ["c:web-1"], ends: { kind: "ok" } as const };
    const first = await harness.writeThrough(run, "replicasets", [], { ...ends, items });
    expect(first).toMatchObject({ kind: "retry", index: 0 });
    expect(first).not.toHaveProperty("done");
    expect(await lease(harness)).toBeGreaterThan(0);
    const again = await harness.writeThrough(run, "replicasets", [put(status("7"))], ends);
    expect(again).toMatchObject({ kind: "ok", done: { kind: "done" } });
    expect([await lease(harness), (await harness.row("replicasets", KEY))?.rv]).toEqual([undefined, "7"]);
    await harness.store.add(harness.epoch, C, KEY, 0);
    expect(await harness.intents(UID, C, KEY)).toEqual([]);
  });

  it("[informer T109] [informer T70] WQ8 WQ9 a final status write by a worker that has lost the key caches its responses, queues the key and frees nothing", async ({
    harness,
    run,
  }) => {
    await harness.pass(LEASE_MS);
    await harness.store.add(harness.epoch, C, KEY, 0);
    const heir = await harness.taken(C, KEY);
    const late = await harness.writeThrough(run, "replicasets", [put(status())], { ...OF_STATUS, ends: { kind: "retry" } });
    expect(late).toMatchObject({ kind: "ok", outcomes: ["changed"], done: { kind: "stolen" } });
    expect(await harness.store.queued(C)).toMatchObject([{ key: KEY, failures: 0, leaseUntilMs: expect.any(Number) }]);
    expect(await harness.store.done(heir.run, { kind: "ok" })).toMatchObject({ kind: "done", failures: 0, bell: { key: KEY } });
  });

  it("[informer T109] WQ8 a final status write repeated after a lost response changes nothing and ends no other run", async ({
    harness,
    run,
  }) => {
    const items = await harness.read("replicasets", [put(status())]);
    const write = { ...OF_STATUS, items, ends: { kind: "ok" } as const };
    await harness.writeThrough(run, "replicasets", [], write);
    expect(await harness.writeThrough(run, "replicasets", [], write)).toMatchObject({ outcomes: ["same"], done: { kind: "ended" } });
    expect(await harness.dirty(C)).toEqual([]);
    await harness.store.add(harness.epoch, C, KEY, 0);
    const heir = await harness.taken(C, KEY);
    expect(await harness.writeThrough(run, "replicasets", [], write)).toMatchObject({ done: { kind: "stolen" } });
    expect(await harness.store.done(heir.run, { kind: "ok" })).toEqual({ kind: "done", failures: 0 });
  });

  const MARK = { kind: "listed", fence: "100", suspects: 0, version: "90", atMs: 7, disputedMs: [3, 5] } as const;
  const basis = async (harness: StoreHarness) => {
    await harness.store.add(harness.epoch, C, KEY, 0);
    const { run, snapshot } = await harness.taken(C, KEY);
    await harness.store.done(run, { kind: "ok" });
    const { mark, left, pods, predecessorGone } = snapshot;
    const { suspects, fence, watermark, relistedMs } = pods ?? {};
    return { mark, left, suspects, fence, watermark, relistedMs, predecessorGone };
  };

  it("the next take of an owner returns its stored mark, with fence, SUSPECT marks and the least watermark of pods", async ({
    harness,
    run,
  }) => {
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, marks: [{ controller: C, key: KEY, uid: UID, mark: MARK }] });
    await harness.store.done(run, { kind: "ok" });
    expect(await basis(harness)).toEqual({
      ...{ mark: MARK, left: undefined, predecessorGone: undefined },
      ...{ suspects: 0, fence: "100", watermark: "0", relistedMs: undefined },
    });
    await harness.seed("pods", [put(owned("95"))]);
    expect(await basis(harness)).toMatchObject({ mark: MARK, watermark: "95" });
    await harness.store.markSuspect("pods", "twice");
    await harness.store.markSuspect("pods", "twice");
    await harness.relist("pods", [], "200");
    const relistedMs = harness.now();
    expect(await basis(harness)).toMatchObject({ mark: MARK, suspects: 2, relistedMs });
    await harness.fixture.clock.advance(1_000);
    await harness.raiseFence("101");
    await harness.relist("pods", [], "300"); // no SUSPECT mark
    expect(await basis(harness)).toMatchObject({ mark: MARK, fence: "101", relistedMs });
  });

  it("does not store the mark of an owner with an unknown uid, and deletes a mark with its owner", async ({ harness, run }) => {
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, marks: [{ controller: C, key: KEY, uid: "another", mark: MARK }] });
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, marks: [{ controller: C, key: KEY, uid: UID, mark: MARK }] });
    await harness.store.done(run, { kind: "ok" });
    await harness.seed("replicasets", [remove(rs, "30", { counted: true, effects: [effect(C, rs, { self: true })] })]);
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "40" }), { counted: true })]);
    expect(await basis(harness)).toMatchObject({ mark: undefined, predecessorGone: "30" });
    await harness.seed("pods", [put(cachedPod({ name: "x", resourceVersion: "30" }))]);
    expect(await basis(harness)).toMatchObject({ predecessorGone: undefined });
  });

  it("records the deletion of the last 64 primaries individually, and one common version for older ones", async ({ harness, run }) => {
    await harness.store.done(run, { kind: "ok" });
    const each = (i: number) => cachedReplicaSet({ name: `gone-${i}`, uid: `gone-${i}`, resourceVersion: String(100 + i) });
    for (let i = 0; i < 65; i++) await harness.seed("replicasets", [put(each(i), { counted: true })]);
    for (let i = 0; i < 64; i++) await harness.seed("replicasets", [remove(each(i), String(1_000 + i), { counted: true })]);
    expect(await basis(harness)).toMatchObject({ predecessorGone: undefined });
    await harness.seed("replicasets", [remove(each(64), "2000", { counted: true })]);
    expect(await basis(harness)).toMatchObject({ predecessorGone: "1000" });
  });

  it("counts an owner's deleted pods since its last decision; its status write subtracts the deletions that its run has seen", async ({
    harness,
    run,
  }) => {
    const leaves = { lowers: [{ owner: OWNER, op: "t:left" }] };
    await harness.seed("pods", [put(owned("10", "a")), put(owned("11", "b")), put(owned("12", "c"))]);
    await harness.seed("pods", [remove(owned("10", "a"), "20", leaves)]);
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, marks: [{ controller: C, key: KEY, uid: UID, mark: MARK }] });
    await harness.store.done(run, { kind: "ok" });
    expect(await basis(harness)).toMatchObject({ left: undefined });
    await harness.seed("pods", [remove(owned("11", "b"), "21", leaves)]);
    await harness.seed("pods", [remove(owned("12", "c"), "22", leaves)]);
    expect(await basis(harness)).toMatchObject({ left: 2 });
    await harness.store.add(harness.epoch, C, KEY, 0);
    const next = await harness.taken(C, KEY);
    await harness.writeThrough(next.run, "replicasets", [], { ownerUid: UID, ownStatus: true, left: 1 });
    await harness.store.done(next.run, { kind: "ok" });
    expect(await basis(harness)).toMatchObject({ left: 1 });
  });
}
