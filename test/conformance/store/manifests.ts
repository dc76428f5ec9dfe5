/** Manifests: the meaning of an object's absence from a list (informer §11.5, IX7). */
import { expect, it as base } from "vitest";

import { laneOf } from "../../../shared/store/lane.ts";
import { asOwner, cachedPod, cachedReplicaSet, effect, keyOf, listed, ownedBy, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { ONE_LANE, outcomes, rung } from "../../harness/store/store.ts";

const pod = (name: string, resourceVersion: string) => cachedPod({ name, resourceVersion });

export function manifestCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("IX7 [informer T37] deletes cached objects that are not listed, at the list's version, with their effects", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const [a, b] = [pod("a", "10"), pod("b", "11")];
    const c = cachedPod({ name: "c", resourceVersion: "12", owner: ownedBy("ReplicaSet", rs) });
    await harness.seed("pods", [put(a), put(b), put(c)]);
    await harness.openGeneration("pods");
    const answer = await harness.manifest("pods", [listed(a), listed(b)], "40", {
      sweep: () => remove(c, "40", { effects: [effect("replicaset", rs)] }),
    });
    expect(outcomes(answer)).toEqual(["changed"]);
    expect(rung(answer)).toEqual(["replicaset shop/web"]);
    expect((await harness.store.readLane("pods", 0)).rows.map((row) => row.key)).toEqual(["shop/a", "shop/b"]);
    expect(await harness.watermark("pods")).toBe("40");
    expect((await harness.store.readSlices([{ resource: "pods", owner: asOwner("replicaset", rs) }]))[0]).toEqual([]);
    expect(outcomes(await harness.deliver("pods", [put(cachedPod({ name: "c", resourceVersion: "39" }))]))).toEqual(["absent"]);
  });

  it("[informer T38] a late add does not restore an object that a newer manifest has removed", async ({ harness }) => {
    await harness.seed("pods", [put(pod("x", "10"))]);
    await harness.relist("pods", [], "20");
    expect(await harness.row("pods", "shop/x")).toBeUndefined();
    expect(outcomes(await harness.deliver("pods", [put(pod("x", "10"))]))).toEqual(["absent"]);
  });

  it("[informer T39] keeps objects newer than the list", async ({ harness }) => {
    await harness.openGeneration("pods");
    await harness.seed("pods", [put(pod("y", "41"))], { watermark: "0" });
    expect((await harness.manifest("pods", [], "40")).kind).toBe("applied");
    expect((await harness.row("pods", "shop/y"))?.rv).toBe("41");
  });

  it("IX7 [informer T40] [informer T41] a manifest is applied only if its lane has no gap", async ({ harness }) => {
    await harness.seed("pods", [put(pod("zombie", "5"))]);
    await harness.openGeneration("pods");
    const first = harness.nextSequence("pods");
    const a = pod("a", "10");
    const manifest = () => harness.manifest("pods", [listed(a)], "20", { sequence: first + 1 });
    expect(await manifest()).toEqual({ kind: "early" });
    expect(await harness.row("pods", "shop/zombie")).toBeDefined();
    expect(await harness.health("pods")).toMatchObject({ frozenLanes: [], syncedGeneration: 1, watermarks: ["5"] });
    await harness.seed("pods", [put(a)], { kind: "L", sequence: first });
    expect((await manifest()).kind).toBe("applied");
    expect(await harness.row("pods", "shop/zombie")).toBeUndefined();
    expect(await harness.health("pods")).toMatchObject({ syncedGeneration: 2, watermarks: ["20"] });
    expect(await manifest()).toMatchObject({ kind: "duplicate" });
  });

  it("[informer T40] a manifest that waits for a lost message reports the gap, although no later message can arrive", async ({
    harness,
  }) => {
    await harness.openGeneration("pods");
    const first = harness.nextSequence("pods");
    expect(await harness.manifest("pods", [], "20", { sequence: first + 1 })).toEqual({ kind: "early" });
    await harness.fixture.clock.advance(7_000);
    expect(await harness.manifest("pods", [], "20", { sequence: first + 1 })).toEqual({ kind: "early" });
    expect((await harness.health("pods"))?.holeForMs).toBe(7_000);
    await harness.seed("pods", [put(pod("a", "10"))], { kind: "L", sequence: first });
    expect((await harness.health("pods"))?.holeForMs).toBeUndefined();
  });

  it("[informer T40] a raised fence and a new list repair the loss of a listed object", async ({ harness }) => {
    await harness.openGeneration("pods");
    const first = harness.nextSequence("pods");
    const a = pod("a", "10");
    expect(await harness.manifest("pods", [listed(a)], "20", { sequence: first + 1 })).toEqual({ kind: "early" });
    await harness.raiseFence("101");
    await harness.relist("pods", [a], "25", put);
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCED", syncedGeneration: 3, watermarks: ["25"] });
  });

  it("[informer T42] [informer T30] a new list must reach the greatest watermark of its lanes; a new fence returns every lane's watermark", async () => {
    const harness = await (await open({ ...ONE_LANE, pods: 3 })).synced();
    for (const [lane, watermark] of [
      [0, "9"],
      [1, "100"],
      [2, "80"],
    ] as const)
      await harness.seed("pods", [], { kind: "W", lane, watermark });
    expect(await harness.openGeneration("pods")).toBe("100");
    expect(await harness.openFence("pods", "101")).toMatchObject({
      kind: "open",
      lanes: [
        { watermark: "9", last: 0 },
        { watermark: "100", last: 0 },
        { watermark: "80", last: 0 },
      ],
    });
  });

  it("IX7 requests listed objects that are neither cached at their version or newer nor deleted after the list", async ({ harness }) => {
    await harness.seed("pods", [put(pod("same", "10")), put(pod("newer", "30")), put(pod("older", "9")), put(pod("deleted", "10"))], {
      commit: false,
    });
    await harness.seed("pods", [remove(pod("deleted", "10"), "25"), remove(pod("dead", "10"), "12")], { commit: false });
    await harness.openGeneration("pods");
    const rows = ["same", "newer", "older", "deleted", "dead", "never"].map((name) => listed(pod(name, "12")));
    const sixth = listed(pod("same", "10"));
    expect(await harness.manifest("pods", [sixth, ...rows.slice(1)], "20")).toEqual({
      kind: "needed",
      keys: ["shop/older", "shop/dead", "shop/never"],
    });
    expect((await harness.health("pods"))?.needed).toEqual(["shop/dead", "shop/never", "shop/older"]);
  });

  it("IX7 a failed manifest removes no row, and a new list clears the record of missing keys", async ({ harness }) => {
    await harness.seed("pods", [put(pod("zombie", "5"))]);
    await harness.openGeneration("pods");
    expect((await harness.manifest("pods", [listed(pod("never", "6"))], "20")).kind).toBe("needed");
    expect(await harness.row("pods", "shop/zombie")).toBeDefined();
    expect(await harness.health("pods")).toMatchObject({ syncedGeneration: 1, watermarks: ["5"], needed: ["shop/never"] });
    await harness.openGeneration("pods");
    expect(await harness.health("pods")).toMatchObject({ generation: 3, needed: [], frozenLanes: [0] });
  });

  it("IX7 records missing keys for each lane", async () => {
    const lanes = { ...ONE_LANE, pods: 2 };
    const harness = await (await open(lanes)).synced();
    const pods = ["a", "b", "c", "d", "e"].map((name) => pod(name, "10"));
    const [left, right] = [0, 1].map((lane) => pods.find((each) => laneOf(keyOf(each), 2) === lane));
    if (!left || !right) throw new Error("names of both lanes are needed");
    await harness.openGeneration("pods");
    await harness.manifest("pods", [listed(left)], "20", { lane: 0 });
    await harness.manifest("pods", [listed(right)], "20", { lane: 1 });
    expect(await harness.health("pods")).toMatchObject({ needed: [keyOf(left), keyOf(right)].sort(), frozenLanes: [0, 1] });
    await harness.seed("pods", [put(left)], { kind: "L" });
    await harness.manifest("pods", [listed(left)], "20", { lane: 0 });
    expect(await harness.health("pods")).toMatchObject({ needed: [keyOf(right)], frozenLanes: [1], syncedGeneration: 1 });
  });

  it("IX8 changes nothing and requests another read if a lane changed after its rows were read", async ({ harness }) => {
    await harness.seed("pods", [put(pod("a", "10")), put(pod("b", "10"))]);
    await harness.openGeneration("pods");
    const header = harness.header("pods", { lane: 0 });
    const deletes = await harness.read("pods", [remove(pod("a", "10"), "40"), remove(pod("b", "10"), "40")]);
    const manifest = { listRV: "40", rows: [], counts: [] };
    await harness.seed("pods", [put(pod("b", "20"))], { sequence: header.sequence + 9, commit: false });
    const retry = { kind: "retry", index: 0, bells: [], outcomes: [] };
    expect(await harness.store.applyManifest(header, { ...manifest, sweep: deletes })).toEqual(retry); // b moved
    expect(await harness.store.applyManifest(header, { ...manifest, sweep: deletes.slice(0, 1) })).toEqual(retry); // b is not deleted
    expect(await harness.store.applyManifest(header, { ...manifest, rows: [listed(pod("b", "20"))], sweep: deletes })).toEqual(retry); // b is listed
    const right = await harness.read("pods", deletes);
    expect(
      await harness.store.applyManifest(header, {
        ...manifest,
        sweep: right,
        counts: [{ resource: "replicasets", namespace: "shop", count: 7 }],
      }),
    ).toEqual(retry);
    expect((await harness.store.readLane("pods", 0)).rows).toHaveLength(2);
    expect((await harness.manifest("pods", [], "40")).kind).toBe("applied");
    expect((await harness.store.readLane("pods", 0)).rows).toEqual([]);
  });

  it("IX7 applies a manifest of several parts when its last part arrives", async ({ harness }) => {
    const pods = ["a", "b", "c"].map((name) => pod(name, "10"));
    await harness.openGeneration("pods");
    await harness.seed(
      "pods",
      pods.map((each) => put(each)),
      { kind: "L" },
    );
    const first = harness.nextSequence("pods");
    const part = (sequence: number) => harness.header("pods", { lane: 0, sequence });
    const rows = pods.map(listed);
    expect(await harness.store.stashManifest(part(first + 1), rows.slice(1, 2))).toEqual({ kind: "early" });
    expect((await harness.store.stashManifest(part(first), rows.slice(0, 1))).kind).toBe("applied");
    expect((await harness.store.stashManifest(part(first), rows.slice(0, 1))).kind).toBe("duplicate");
    expect((await harness.store.stashManifest(part(first + 1), rows.slice(1, 2))).kind).toBe("applied");
    expect(await harness.store.readManifest(part(first + 2))).toEqual({ rows: rows.slice(0, 2), parts: 2 });
    const all = [...(await harness.store.readManifest(part(first + 2))).rows, ...rows.slice(2)];
    expect((await harness.manifest("pods", all, "20", { sequence: first + 2 })).kind).toBe("applied");
    expect(await harness.store.readManifest(part(first + 3))).toEqual({ rows: [], parts: 0 });
    expect((await harness.store.readLane("pods", 0)).rows).toHaveLength(3);
    expect(await harness.health("pods")).toMatchObject({ syncedGeneration: 2, watermarks: ["20"] });
  });

  it("IX7 removes manifest parts of an abandoned list or an older fence", async ({ harness }) => {
    await harness.openGeneration("pods");
    const stash = async (name: string) => {
      const header = harness.header("pods", { lane: 0 });
      const answer = await harness.store.stashManifest(header, [listed(pod(name, "10"))]);
      await harness.seed("pods", [], { kind: "W", watermark: "0", sequence: header.sequence + 1 });
      return answer.kind;
    };
    const stashed = async () => (await harness.store.readManifest(harness.header("pods", { lane: 0 }))).rows.map((row) => row.key);
    expect(await stash("a")).toBe("applied");
    expect(await stashed()).toEqual(["shop/a"]);
    await harness.openGeneration("pods");
    expect(await stashed()).toEqual([]);
    expect(await stash("b")).toBe("applied");
    expect(await stashed()).toEqual(["shop/b"]);
    await harness.raiseFence("101");
    expect(await stashed()).toEqual([]);
  });

  it("[informer T49] empty manifests complete the list of a resource without objects", async () => {
    const harness = await (await open({ ...ONE_LANE, pods: 3 })).open();
    await harness.openGeneration("pods");
    for (const lane of [0, 1]) await harness.manifest("pods", [], "7", { lane });
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCING", syncedGeneration: 0, generation: 1 });
    await harness.manifest("pods", [], "7", { lane: 2 });
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCED", syncedGeneration: 1, watermarks: ["7", "7", "7"] });
  });

  it("the removal of an unlisted primary also removes its intents, look-ups and queue state", async ({ harness }) => {
    const rs = cachedReplicaSet({ resourceVersion: "5" });
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
    const { run } = await harness.taken("replicaset", "shop/web");
    await harness.store.registerIntents(run, rs.metadata.uid, [{ id: "c:x", verb: "create", name: "x" }]);
    await harness.store.done(run, { kind: "retry" });
    await harness.openGeneration("replicasets");
    const answer = await harness.manifest("replicasets", [], "9", {
      sweep: () => remove(rs, "9", { counted: true, effects: [effect("replicaset", rs, { self: true })] }),
    });
    expect(rung(answer)).toEqual(["replicaset shop/web"]);
    const { snapshot } = await harness.taken("replicaset", "shop/web");
    expect(snapshot).toEqual({ dependents: [], orphans: [], intents: [], failures: 0 });
  });
}
