/** Rows: the highest resourceVersion wins, and deletes leave tombstones (informer §11.3 A4–A10, IX1–IX4). */
import { describe, expect, it as base } from "vitest";

import { laneOf } from "../../../shared/store/lane.ts";
import type { CachedPod } from "../../../shared/kube/objects/cached.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { ItemChange } from "../../../shared/store/ports/store.ts";
import {
  asOwner,
  cachedDeployment,
  cachedPod,
  cachedReplicaSet,
  effect,
  keyOf,
  ownedBy,
  put,
  remove,
  replicaSetOwner,
} from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { ONE_LANE, outcomes, rung, writeOf, type StoreHarness } from "../../harness/store/store.ts";

const POD = "shop/web-1";
const pod = (resourceVersion: string, overrides: Partial<CachedPod> = {}) => cachedPod({ resourceVersion, ...overrides });

export function indexCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("returns an object as it was stored", async ({ harness }) => {
    const object = pod("10", {
      owner: { kind: "ReplicaSet", name: "web", uid: "u1" },
      ready: { status: "True", since: "2026-03-01T10:00:02Z" },
      labels: { "a/b": 'ü"\u0000\u001f' },
    });
    expect(outcomes(await harness.deliver("pods", [put(object)]))).toEqual(["changed"]);
    expect(await harness.row("pods", POD)).toEqual({
      key: POD,
      uid: object.uid,
      rv: "10",
      owner: replicaSetOwner("u1", "web"),
      gone: false,
      object,
    });
  });

  it("IX1 [replicaset P3] [informer A4] a put that is not newer keeps the row, enqueues nothing and lowers no intent", async ({
    harness,
  }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const { run } = await runOf(harness, "shop/web");
    await harness.store.registerIntents(run, rs.metadata.uid, [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    await harness.seed("pods", [put(pod("10"))]);
    for (const rv of ["9", "10"]) {
      const again = put(pod(rv, { phase: "Running" }), {
        effects: [effect("replicaset", rs)],
        lowers: [{ owner: asOwner("replicaset", rs), op: "c:web-1" }],
      });
      const answer = await harness.deliver("pods", [again]);
      expect(outcomes(answer)).toEqual(["same"]);
      expect(rung(answer)).toEqual([]);
    }
    expect((await harness.row("pods", POD))?.object).toEqual(pod("10"));
    expect(await harness.dirty("replicaset")).toEqual([]);
    await harness.store.done(run, { kind: "ok" });
    await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
    expect(await harness.intents(rs.metadata.uid, "replicaset", "shop/web")).toHaveLength(1);
  });

  it("IX1 [informer A4] a change without effect leaves the namespace's object count unchanged", async ({ harness }) => {
    const count = async () =>
      (await harness.store.readIndex({ counts: [{ resource: "replicasets", namespace: "shop" }] })).counts[0]?.count;
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "5" }), { counted: true })]);
    expect(await count()).toBe(1);
    await harness.deliver("replicasets", [put(cachedReplicaSet({ resourceVersion: "5" }), { counted: true })]);
    expect(await count()).toBe(1);
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "6" }))]);
    expect(await count()).toBe(1);
    await harness.seed("replicasets", [remove(cachedReplicaSet(), "7", { counted: true })]);
    expect(await count()).toBe(2);
  });

  it("[informer T31] applies an add, an update and a delete in order, and enqueues the keys of each", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    for (const item of [put(pod("10")), put(pod("20")), remove(pod("20"), "30")]) {
      const answer = await harness.deliver("pods", [{ ...item, effects: [effect("replicaset", rs)] }]);
      expect(outcomes(answer)).toEqual(["changed"]);
      expect(rung(answer)).toEqual(["replicaset shop/web"]);
      await finish(harness, "shop/web");
    }
    expect(await harness.row("pods", POD)).toBeUndefined();
  });

  describe("IX10 an item without a lookup", () => {
    const rs = cachedReplicaSet();
    const owner = ownedBy("ReplicaSet", rs);
    const object = pod("10", { owner });
    const woken = { effects: [effect("replicaset", rs)], unread: true };
    const news = put(object, woken);
    const old = { ...news, effects: [], expected: { rv: "10", uid: object.uid, owner: asOwner("replicaset", rs) } };
    const started = async (...standing: readonly ItemChange[]): Promise<StoreHarness> => {
      const harness = await (await open()).synced();
      await harness.seed("replicasets", [put(rs, { counted: true })]);
      for (const item of standing) await harness.seed("pods", [item]);
      return harness;
    };

    it("an item without a lookup is applied if the object is new and has no row", async () => {
      const harness = await started();
      const answer = await harness.deliver("pods", [news], { asRead: true });
      expect([outcomes(answer), rung(answer)]).toEqual([["changed"], ["replicaset shop/web"]]);
      expect(await harness.row("pods", POD)).toMatchObject({ rv: "10", object });
      expect(await harness.watermark("pods")).toBe("10");
    });

    it.each([news, old])("changes nothing if the row is exactly equal", async (item) => {
      const harness = await started(put(object));
      const answer = await harness.deliver("pods", [item], { asRead: true, sequence: harness.nextSequence("pods") });
      expect([outcomes(answer), rung(answer)]).toEqual([["same"], []]);
      expect(await harness.watermark("pods")).toBe("10");
    });

    it.each<{ what: string; stands: readonly ItemChange[]; item: ItemChange; rows?: readonly string[]; current?: readonly string[] }>([
      { what: "an uncached object that is not new", stands: [], item: old },
      { what: "an older version", stands: [put(pod("9", { owner }))], item: news, rows: ["9"] },
      { what: "an older version of an object that is not new", stands: [put(pod("9", { owner }))], item: old, rows: ["9"] },
      { what: "a newer version", stands: [put(pod("11", { owner }))], item: news, current: ["11"] },
      { what: "another uid", stands: [put(pod("9", { owner, uid: "other" }))], item: old, rows: ["9"] },
      {
        what: "a delete",
        stands: [put(pod("9", { owner }))],
        item: { ...remove(object, "10"), owner: asOwner("replicaset", rs), unread: true },
        rows: ["9"],
      },
      { what: "a delete of an uncached object", stands: [], item: remove(object, "10", { unread: true }) },
    ])("returns the existing row, and is not applied: $what", async ({ stands, item, rows = [], current = [] }) => {
      const harness = await started(...stands);
      const before = [await harness.row("pods", POD), await harness.watermark("pods")];
      const answer = await harness.deliver("pods", [item], { asRead: true });
      expect(answer).toMatchObject({ kind: "retry", index: 0, bells: [], outcomes: [] });
      const { found } = answer as Extract<typeof answer, { kind: "retry" }>; // the kind was checked above
      expect(found?.rows).toEqual(rows.length > 0 ? [{ resource: "pods", row: before[0] }] : []);
      expect(found?.current?.map(({ row }) => row.rv)).toEqual(current);
      expect([await harness.row("pods", POD), await harness.watermark("pods")]).toEqual(before);
      expect(await harness.dirty("replicaset")).toEqual([]);
    });

    it.each([news, old])("is not applied if the row is flagged `gone` or the key has a tombstone", async (item) => {
      const harness = await started(put(object));
      const { run } = await runOf(harness, "shop/web");
      await harness.store.writeThrough(run, { ...writeOf("pods"), ownerUid: rs.metadata.uid, gone: [{ key: POD, uid: object.uid }] });
      expect(await harness.deliver("pods", [item], { asRead: true })).toMatchObject({ kind: "retry", index: 0 });
      const missing = harness.nextSequence("pods");
      await harness.seed("pods", [remove(object, "30")], { sequence: missing + 1 });
      expect(await harness.deliver("pods", [item], { asRead: true, sequence: missing })).toMatchObject({ kind: "retry", index: 0 });
      expect(await harness.row("pods", POD)).toBeUndefined();
    });

    it("an item without a lookup is not reported as cached if its owner differs, so that the applier reads the row", async () => {
      const harness = await started(put(pod("9")));
      const answer = await harness.deliver("pods", [news], { asRead: true });
      expect(answer).toMatchObject({ kind: "retry", index: 0 });
      expect(answer).not.toHaveProperty("found");
    });

    it("an existing row ends the call: earlier items stay applied, and this item and later ones are not", async () => {
      const names = ["web-1", "web-2", "web-3"] as const;
      const of = (name: string, rv: string) => cachedPod({ name, uid: `uid-${name}`, resourceVersion: rv, owner });
      const harness = await started(put(of("web-2", "8")), put(of("web-3", "9")));
      const items = names.map((name) => put(of(name, "10"), woken));
      const answer = await harness.deliver("pods", items, { asRead: true });
      expect(answer).toMatchObject({ kind: "retry", index: 1, outcomes: ["changed"], found: { current: [] } });
      const { found } = answer as Extract<typeof answer, { kind: "retry" }>; // the kind was checked above
      expect(found?.rows.map(({ row }) => [row.key, row.rv])).toEqual([
        ["shop/web-2", "8"],
        ["shop/web-3", "9"],
      ]);
      expect(await harness.watermark("pods")).toBe("9");
      expect(
        outcomes(
          await harness.deliver(
            "pods",
            items.slice(1).map(({ unread: _, ...item }) => item),
          ),
        ),
      ).toEqual(["changed", "changed"]);
      expect(await harness.watermark("pods")).toBe("10");
    });
  });

  it("IX2 [informer T34] [informer A5] a late update does not resurrect an object while its tombstone exists", async ({ harness }) => {
    await harness.seed("pods", [put(pod("10"))]);
    const missing = harness.nextSequence("pods");
    // the watermark stays below the sequence, so only the tombstone can reject the item
    await harness.seed("pods", [remove(pod("10"), "30")], { sequence: missing + 1 });
    expect(await harness.watermark("pods")).toBe("10");
    const late = { sequence: missing, commit: false } as const;
    expect(outcomes(await harness.deliver("pods", [put(pod("20"))], late))).toEqual(["late"]);
    expect(await harness.row("pods", POD)).toBeUndefined();
    expect(outcomes(await harness.deliver("pods", [put(pod("30"))], late))).toEqual(["late"]);
    expect(outcomes(await harness.deliver("pods", [put(pod("31"))], late))).toEqual(["changed"]);
  });

  it("IX2 [informer T34] [informer A6] a late update does not resurrect an object after the watermark has passed its tombstone", async ({
    harness,
  }) => {
    await harness.seed("pods", [put(pod("10"))]);
    await harness.seed("pods", [remove(pod("10"), "30")]);
    expect(await harness.watermark("pods")).toBe("30");
    expect(outcomes(await harness.deliver("pods", [put(pod("20"))]))).toEqual(["absent"]);
    expect(await harness.row("pods", POD)).toBeUndefined();
  });

  it("IX2 [informer A6] drops an uncached object at the watermark's version, but accepts it from a list", async ({ harness }) => {
    await harness.seed("pods", [], { kind: "W", watermark: "50" });
    expect(outcomes(await harness.deliver("pods", [put(pod("50"))]))).toEqual(["absent"]);
    expect(outcomes(await harness.deliver("pods", [put(pod("50"))], { kind: "L" }))).toEqual(["changed"]);
  });

  it("[informer A5] a tombstone also rejects an older listed object", async ({ harness }) => {
    await harness.seed("pods", [remove(pod("10"), "30")], { commit: false });
    expect(outcomes(await harness.deliver("pods", [put(pod("20"))], { kind: "L" }))).toEqual(["late"]);
  });

  it("IX4 [informer A7] [informer T76] keeps the flag `gone` of a row while its uid is the same", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.seed("pods", [put(pod("10"))]);
    const { run } = await runOf(harness, "shop/web");
    const gone = async () => (await harness.row("pods", POD))?.gone;
    await harness.writeThrough(run, "pods", [], { ownerUid: rs.metadata.uid, gone: [{ key: POD, uid: pod("10").uid }] });
    expect(await gone()).toBe(true);
    await harness.seed("pods", [put(pod("11"))]);
    expect(await gone()).toBe(true);
    await harness.seed("pods", [put(pod("12", { owner: ownedBy("ReplicaSet", rs) }))]);
    expect((await harness.store.readSlices([{ resource: "pods", owner: asOwner("replicaset", rs) }]))[0]?.map((row) => row.gone)).toEqual([
      true,
    ]);
    await harness.seed("pods", [put(pod("13", { uid: "other" }))]);
    expect(await gone()).toBe(false);
  });

  it("IX2 [informer A8] ignores a delete that is older than the row", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.seed("pods", [put(pod("20", { uid: "second" }))]);
    const answer = await harness.deliver("pods", [remove(pod("10", { uid: "first" }), "15", { effects: [effect("replicaset", rs)] })]);
    expect(outcomes(answer)).toEqual(["same"]);
    expect(rung(answer)).toEqual([]);
    expect((await harness.row("pods", POD))?.uid).toBe("second");
    // The late delete leaves no tombstone and does not hide the delete of the current row.
    expect(outcomes(await harness.deliver("pods", [remove(pod("20"), "20")]))).toEqual(["changed"]);
  });

  it("[informer A9] keeps the tombstone's version when another delete has a smaller version", async ({ harness }) => {
    const ahead = { commit: false } as const;
    await harness.seed("pods", [remove(pod("10"), "11")], ahead);
    await harness.seed("pods", [remove(pod("8"), "9")], ahead);
    expect(outcomes(await harness.deliver("pods", [put(pod("10"))], ahead))).toEqual(["late"]);
    expect(await harness.row("pods", POD)).toBeUndefined();
  });

  it("[informer A9] a delete of an uncached object enqueues the keys that its message affects", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const answer = await harness.deliver("pods", [remove(pod("10"), "11", { effects: [effect("replicaset", rs)] })]);
    expect(outcomes(answer)).toEqual(["changed"]);
    expect(rung(answer)).toEqual(["replicaset shop/web"]);
  });

  it("[informer A10] [informer T36] applies a delete and an add of one name in one message, or combined into one update", async ({
    harness,
  }) => {
    const [first, second] = [cachedReplicaSet({ name: "one" }), cachedReplicaSet({ name: "two" })];
    await harness.seed("replicasets", [put(first, { counted: true }), put(second, { counted: true })]);
    const [old, young] = [
      pod("4", { uid: "uid1", owner: ownedBy("ReplicaSet", first) }),
      pod("6", { uid: "uid2", owner: ownedBy("ReplicaSet", second) }),
    ];
    const both = [effect("replicaset", first), effect("replicaset", second)];

    await harness.seed("pods", [put(old)]);
    // Two calls for one message: the applier splits it at the second item of a key.
    const sequence = harness.nextSequence("pods");
    const split = [
      await harness.deliver("pods", [remove(old, "5", { effects: both.slice(0, 1) })], { sequence, commit: false }),
      await harness.deliver("pods", [put(young, { effects: both.slice(1) })], { sequence, watermark: "6" }),
    ];
    expect(split.flatMap(rung)).toEqual(["replicaset shop/one", "replicaset shop/two"]);
    expect((await harness.row("pods", POD))?.uid).toBe("uid2");

    await finish(harness, "shop/one");
    await finish(harness, "shop/two");
    const third = pod("9", { uid: "uid3", owner: ownedBy("ReplicaSet", first) });
    const collapsed = await harness.deliver("pods", [put(third, { effects: both })]);
    expect(rung(collapsed)).toEqual(["replicaset shop/one", "replicaset shop/two"]);
    expect((await harness.row("pods", POD))?.uid).toBe("uid3");
  });

  it("IX3 [informer A10] a primary with a changed uid loses its intents, and the keys of both objects are enqueued", async ({
    harness,
  }) => {
    const [old, young] = [cachedReplicaSet({ uid: "rs1", resourceVersion: "5" }), cachedReplicaSet({ uid: "rs2", resourceVersion: "8" })];
    await harness.seed("replicasets", [put(old, { counted: true })]);
    const { run } = await runOf(harness, "shop/web");
    await harness.store.registerIntents(run, "rs1", [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    await harness.store.done(run, { kind: "ok" });
    const answer = await harness.deliver("replicasets", [
      put(young, { counted: true, effects: [effect("replicaset", old, { self: true }), effect("replicaset", young, { self: true })] }),
    ]);
    expect(rung(answer)).toEqual(["replicaset shop/web"]);
    const { snapshot } = await harness.taken("replicaset", "shop/web");
    expect(snapshot.primary?.uid).toBe("rs2");
    expect(snapshot.intents).toEqual([]);
  });

  it("IT4 [informer A10] a late event of the old uid does not restore removed intents", async ({ harness }) => {
    const at = (uid: string, resourceVersion: string) => put(cachedReplicaSet({ uid, resourceVersion }), { counted: true });
    await harness.seed("replicasets", [at("rs1", "5")]);
    const { run } = await runOf(harness, "shop/web");
    await harness.store.registerIntents(run, "rs1", [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    await harness.store.done(run, { kind: "ok" });
    await harness.seed("replicasets", [at("rs2", "8")]);
    await harness.seed("replicasets", [at("rs1", "9")]); // for example, restored from a backup
    const { snapshot } = await runOf(harness, "shop/web");
    expect([snapshot.primary?.uid, snapshot.intents]).toEqual(["rs1", []]);
  });

  it("IX3 removes a deleted primary from its namespace", async ({ harness }) => {
    const primaries = async () =>
      (await harness.store.readIndex({ primaries: [{ resource: "replicasets", namespace: "shop" }] })).primaries[0]?.rows.map(
        (row) => row.rv,
      );
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "5" }), { counted: true })]);
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "6" }))]);
    expect(await primaries()).toEqual(["6"]);
    await harness.seed("replicasets", [remove(cachedReplicaSet(), "7", { counted: true })]);
    expect(await primaries()).toEqual([]);
  });

  it("[informer T24] a live read without a result flags the row, lowers its delete intent, and enqueues the keys of a delete", async ({
    harness,
  }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const object = pod("10", { owner: ownedBy("ReplicaSet", rs) });
    await harness.seed("pods", [put(object)]);
    const { run } = await runOf(harness, "shop/web");
    await harness.store.registerIntents(run, rs.metadata.uid, [{ id: `d:${object.uid}`, verb: "delete", name: "web-1", uid: object.uid }]);
    await harness.store.done(run, { kind: "ok" });
    const goneItem = (uid: string): ItemChange => ({
      ...remove(pod("20", { uid }), "20", {
        effects: [effect("replicaset", rs)],
        lowers: [{ owner: asOwner("replicaset", rs), op: `d:${uid}` }],
      }),
      type: "gone",
    });
    expect(outcomes(await harness.deliver("pods", [goneItem("somebody-else")]))).toEqual(["same"]);
    expect(await harness.row("pods", POD)).toMatchObject({ gone: false });
    const answer = await harness.deliver("pods", [goneItem(object.uid)]);
    expect(outcomes(answer)).toEqual(["changed"]);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
    expect(await harness.row("pods", POD)).toEqual({
      key: POD,
      uid: object.uid,
      rv: "10",
      owner: asOwner("replicaset", rs),
      gone: true,
      object,
    });
    expect((await harness.store.readSlices([{ resource: "pods", owner: asOwner("replicaset", rs) }]))[0]).toEqual([
      await harness.row("pods", POD),
    ]);
    expect(await harness.watermark("pods")).toBe("20");
    expect(outcomes(await harness.deliver("pods", [goneItem(object.uid)]))).toEqual(["same"]);
    expect(await harness.intents(rs.metadata.uid, "replicaset", "shop/web")).toEqual([]);
    expect(outcomes(await harness.deliver("pods", [remove(object, "21")]))).toEqual(["changed"]);
    expect(await harness.row("pods", POD)).toBeUndefined();
    expect(outcomes(await harness.deliver("pods", [goneItem(object.uid)]))).toEqual(["same"]);
  });

  it("[informer T24] a live read without a result flags a primary, whose row stays until the watch event deletes it", async ({
    harness,
  }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    expect(
      outcomes(
        await harness.deliver("replicasets", [
          { ...remove(rs, "9", { effects: [effect("replicaset", rs, { self: true })] }), type: "gone" },
        ]),
      ),
    ).toEqual(["changed"]);
    const { run, snapshot } = await harness.taken("replicaset", "shop/web");
    expect(snapshot.primary).toMatchObject({ uid: rs.metadata.uid, gone: true });
    await harness.store.done(run, { kind: "ok" });
  });

  it("events of dependents do not enqueue a deleted or replaced primary, but its own creation and deletion do", async ({ harness }) => {
    const rs = cachedReplicaSet({ uid: "rs1", resourceVersion: "5" });
    const other = cachedReplicaSet({ uid: "rs0" });
    expect(rung(await harness.deliver("pods", [put(pod("10"), { effects: [effect("replicaset", rs)] })]))).toEqual([]);
    expect(
      rung(await harness.deliver("replicasets", [put(rs, { counted: true, effects: [effect("replicaset", rs, { self: true })] })])),
    ).toEqual(["replicaset shop/web"]);
    await finish(harness, "shop/web");
    expect(rung(await harness.deliver("pods", [put(pod("11"), { effects: [effect("replicaset", other)] })]))).toEqual([]);
    expect(
      rung(
        await harness.deliver("replicasets", [remove(rs, "12", { counted: true, effects: [effect("replicaset", rs, { self: true })] })]),
      ),
    ).toEqual(["replicaset shop/web"]);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
  });

  it("sends one doorbell per key and call, at the key's earliest time", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const items = [1, 2, 3].map((index) =>
      put(cachedPod({ name: `web-${index}`, resourceVersion: `${10 + index}`, owner: ownedBy("ReplicaSet", rs) }), {
        effects: [effect("replicaset", rs, { urgency: index === 2 ? "act" : "status" })],
      }),
    );
    const answer = await harness.deliver("pods", items);
    expect(answer).toMatchObject({
      bells: [{ controller: "replicaset", key: "shop/web", uid: rs.metadata.uid, epoch: harness.epoch, delayMs: 0 }],
    });
  });

  it("IX3 [informer T43] keeps a pod in exactly one slice, whatever its owner", async ({ harness }) => {
    const slices = async () => {
      const [first, second, orphans] = await harness.store.readSlices([
        { resource: "pods", owner: replicaSetOwner("u1") },
        { resource: "pods", owner: replicaSetOwner("u2") },
        { resource: "pods", orphansOf: "shop" },
      ]);
      return [first?.length, second?.length, orphans?.length];
    };
    const owner = (uid: string) => ({ owner: { kind: "ReplicaSet", name: uid, uid } });
    await harness.seed("pods", [put(pod("10", owner("u1")))]);
    expect(await slices()).toEqual([1, 0, 0]);
    await harness.seed("pods", [put(pod("11", owner("u2")))]);
    expect(await slices()).toEqual([0, 1, 0]);
    await harness.seed("pods", [put(pod("12"))]);
    expect(await slices()).toEqual([0, 0, 1]);
    await harness.seed("pods", [remove(pod("12"), "13")]);
    expect(await slices()).toEqual([0, 0, 0]);
  });

  it("reads slices, lanes and namespaces in key order, and returns only the requested ones", async ({ harness }) => {
    const owner = { kind: "ReplicaSet", name: "web", uid: "u1" };
    await harness.seed(
      "pods",
      ["c", "a", "b"].map((name, index) => put(cachedPod({ name, resourceVersion: `${index + 10}`, owner }))),
    );
    await harness.seed("pods", [put(cachedPod({ name: "lone", namespace: "other", resourceVersion: "20" }))]);
    await harness.seed("replicasets", [
      put(cachedReplicaSet({ name: "y" })),
      put(cachedReplicaSet({ name: "x" })),
      put(cachedReplicaSet({ name: "z", namespace: "other" })),
    ]);
    const [slice, orphans] = await harness.store.readSlices([
      { resource: "pods", owner: replicaSetOwner("u1", "web") },
      { resource: "pods", orphansOf: "other" },
    ]);
    expect(slice?.map((row) => row.key)).toEqual(["shop/a", "shop/b", "shop/c"]);
    expect(orphans?.map((row) => row.key)).toEqual(["other/lone"]);
    expect((await harness.store.readLane("pods", 0)).rows.map((row) => row.key)).toEqual(["other/lone", "shop/a", "shop/b", "shop/c"]);
    expect((await harness.store.readLane("pods", 0)).rows[1]).toEqual({
      key: "shop/a",
      uid: "uid-a",
      rv: "11",
      owner: replicaSetOwner("u1", "web"),
      gone: false,
    });
    const puts = { "shop/a": "11", "shop/b": "1", "shop/c": "9223372036854775808", "shop/none": "5" } as const;
    const known = await harness.store.readIndex({
      rows: Object.entries(puts).map(([key, rv]) => ({ resource: "pods" as const, key: key as `shop/${string}`, put: rv })),
    });
    expect(known.current).toEqual(
      expect.arrayContaining([
        { resource: "pods", row: { key: "shop/a", uid: "uid-a", rv: "11", owner: replicaSetOwner("u1", "web"), gone: false } },
        { resource: "pods", row: expect.objectContaining({ key: "shop/b" }) },
      ]),
    );
    expect(known.current).toHaveLength(2);
    expect(known.rows.map(({ row }) => [row.key, row.object === undefined])).toEqual([["shop/c", false]]);
    const view = await harness.store.readIndex({
      rows: [
        { resource: "pods", key: "shop/a" },
        { resource: "pods", key: "shop/none" },
      ],
      primaries: [
        { resource: "replicasets", namespace: "shop" },
        { resource: "deployments", namespace: "shop" },
      ],
    });
    expect(view.rows.map(({ resource, row }) => [resource, row.key])).toEqual([["pods", "shop/a"]]);
    expect(view.primaries.map(({ resource, rows }) => [resource, rows.map((row) => row.key)])).toEqual([
      ["replicasets", ["shop/x", "shop/y"]],
      ["deployments", []],
    ]);
  });

  it("IX3 [informer T45] every row is in exactly its own slice and its own lane", async () => {
    const lanes = { ...ONE_LANE, pods: 3 };
    const harness = await (await open(lanes)).synced();
    const random = createSeededRandom(45);
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random.next() * values.length)] as T;
    const owners = [undefined, "u1", "u2", "u3"];
    for (let step = 1; step <= 300; step++) {
      const changes = new Map<string, ItemChange>();
      for (let count = 0; count < 1 + random.next() * 4; count++) {
        const owner = pick(owners);
        const object = cachedPod({
          name: `p${Math.floor(random.next() * 12)}`,
          uid: `uid-${pick([1, 2])}`,
          resourceVersion: `${step}`,
          ...(owner !== undefined && { owner: { kind: "ReplicaSet", name: owner, uid: owner } }),
        });
        changes.set(keyOf(object), random.next() < 0.3 ? remove(object, `${step}`) : put(object));
      }
      for (let lane = 0; lane < lanes.pods; lane++) {
        const items = [...changes.values()].filter((item) => laneOf(item.key, lanes.pods) === lane);
        if (items.length > 0) outcomes(await harness.deliver("pods", items, { lane }));
      }
    }
    const rows = (await Promise.all([0, 1, 2].map((lane) => harness.store.readLane("pods", lane)))).flatMap((lane) => lane.rows);
    const slices = await harness.store.readSlices([
      { resource: "pods", orphansOf: "shop" },
      ...["u1", "u2", "u3"].map((uid) => ({ resource: "pods", owner: replicaSetOwner(uid) }) as const),
    ]);
    const inSlices = slices.flatMap((slice, index) =>
      slice.map(({ object: _, ...row }) => ({ ...row, owner: owners[index] === undefined ? undefined : replicaSetOwner(owners[index]) })),
    );
    expect(sortByKey(inSlices)).toEqual(sortByKey(rows.map((row) => ({ ...row, owner: row.owner }))));
    expect(rows.length).toBeGreaterThan(3);
  });

  it("[replicaset P17] [informer T86] orders resourceVersions beyond 2^53 and 2^64 exactly, and by length before digits", async ({
    harness,
  }) => {
    const ascending = [
      "9",
      "10",
      "999",
      "1000",
      "9007199254740992",
      "9007199254740993",
      "18446744073709551616",
      "18446744073709551617",
      "99999999999999999999",
      "100000000000000000000",
    ];
    for (const [index, rv] of ascending.entries()) {
      expect(outcomes(await harness.deliver("pods", [put(pod(rv))]))).toEqual(["changed"]);
      expect(await harness.watermark("pods")).toBe(rv);
      for (const older of ascending.slice(0, index + 1)) {
        expect(outcomes(await harness.deliver("pods", [put(pod(older))])), `${older} over ${rv}`).toEqual(["same"]);
        const lone = put(cachedPod({ name: `late-${index}`, resourceVersion: older }));
        expect(outcomes(await harness.deliver("pods", [lone])), `${older} below ${rv}`).toEqual(["absent"]);
        expect(await harness.watermark("pods")).toBe(rv);
      }
      for (const older of ascending.slice(0, index))
        expect(outcomes(await harness.deliver("pods", [remove(pod(rv), older)]))).toEqual(["same"]);
    }
    for (const [index, rv] of ascending.entries()) {
      const name = `tomb-${index}`;
      const deleted = `2${"0".repeat(20)}${index}`;
      await harness.seed("pods", [remove(cachedPod({ name }), deleted)], { commit: false });
      expect(
        outcomes(await harness.deliver("pods", [put(cachedPod({ name, resourceVersion: rv }))], { kind: "L", commit: false })),
      ).toEqual(["late"]);
    }
  });

  it("[informer T83] two clusters share no data", async ({ harness }) => {
    await harness.seed("pods", [put(pod("10"))]);
    const other = await harness.fixture.beside({ cluster: "another" });
    expect(await other.epoch()).toBeUndefined();
    expect((await other.readIndex({ rows: [{ resource: "pods", key: POD }] })).rows).toEqual([]);
    await other.close();
  });

  it("returns the recorded fields of a Deployment and its owner chain", async ({ harness }) => {
    const deployment = cachedDeployment({ resourceVersion: "5" });
    const rs = cachedReplicaSet({ resourceVersion: "6", owner: ownedBy("Deployment", deployment) });
    await harness.seed("deployments", [put(deployment, { counted: true })]);
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const [slice] = await harness.store.readSlices([{ resource: "replicasets", owner: asOwner("deployment", deployment) }]);
    expect(slice?.map((row) => row.object)).toEqual([rs]);
    expect((await harness.row("deployments", "shop/web"))?.object).toEqual(deployment);
  });
}

/** Enqueues the key and takes it. */
async function runOf(harness: StoreHarness, key: string) {
  await harness.store.add(harness.epoch, "replicaset", key, 0);
  return harness.taken("replicaset", key);
}

async function finish(harness: StoreHarness, key: string): Promise<void> {
  const { run } = await harness.taken("replicaset", key);
  await harness.store.done(run, { kind: "ok" });
}

function sortByKey<T extends { readonly key: string }>(rows: readonly T[]): readonly T[] {
  return [...rows].sort((a, b) => (a.key < b.key ? -1 : 1));
}
