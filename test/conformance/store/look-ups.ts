/**
 * Lookups are compared within the atomic step, so that no change is applied on the basis of a row that has changed since it was read
 * (informer §11.2, IX8).
 */
import { expect, it as base } from "vitest";

import { cachedDeployment, cachedPod, cachedReplicaSet, effect, put, remove, replicaSetOwner } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { outcomes, rung } from "../../harness/store/store.ts";

const COUNT = { resource: "replicasets", namespace: "shop" } as const;

export function lookUpCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("IX8 [informer T44] rejects an orphan with a retry if a matching ReplicaSet was created after the look-up", async ({ harness }) => {
    const orphan = cachedPod({ resourceVersion: "10" });
    const { counts } = await harness.store.readIndex({ counts: [COUNT] });
    const rs = cachedReplicaSet({ resourceVersion: "11" });
    await harness.seed("replicasets", [put(rs, { counted: true })]);

    const blind = await harness.deliver("pods", [put(orphan)], { counts });
    expect(blind).toEqual({ kind: "retry", index: 0, bells: [], outcomes: [] });
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();

    const again = await harness.store.readIndex({ primaries: [COUNT] });
    expect(again.primaries[0]?.rows.map((row) => row.uid)).toEqual([rs.metadata.uid]);
    const seeing = await harness.deliver("pods", [put(orphan, { effects: [effect("replicaset", rs)] })], { counts: again.counts });
    expect(rung(seeing)).toEqual(["replicaset shop/web"]);
  });

  it("IX8 keeps counts per namespace and resource", async ({ harness }) => {
    const { counts } = await harness.store.readIndex({ counts: [COUNT, { resource: "deployments", namespace: "shop" }] });
    await harness.seed("replicasets", [put(cachedReplicaSet({ namespace: "other" }), { counted: true })]);
    expect(outcomes(await harness.deliver("pods", [put(cachedPod({ resourceVersion: "10" }))], { counts }))).toEqual(["changed"]);
    await harness.seed("deployments", [put(cachedDeployment(), { counted: true })]);
    expect(await harness.deliver("pods", [put(cachedPod({ resourceVersion: "11" }))], { counts })).toMatchObject({
      kind: "retry",
      index: 0,
    });
  });

  it("IX8 compares object counts only at the start of a call, before the call's own changes", async ({ harness }) => {
    const { counts } = await harness.store.readIndex({ counts: [COUNT] });
    const items = ["a", "b", "c"].map((name) => put(cachedReplicaSet({ name }), { counted: true }));
    expect(outcomes(await harness.deliver("replicasets", items, { counts }))).toEqual(["changed", "changed", "changed"]);
    const after = await harness.store.readIndex({ primaries: [COUNT] });
    expect(after.counts).toEqual([{ ...COUNT, count: 3 }]);
  });

  it("IX8 watch events, manifests and write-throughs change object counts in the same way", async ({ harness }) => {
    const count = async () => (await harness.store.readIndex({ counts: [COUNT] })).counts[0]?.count;
    const rs = cachedReplicaSet({ resourceVersion: "5" });
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
    const { run } = await harness.taken("replicaset", "shop/web");
    await harness.writeThrough(run, "replicasets", [put(cachedReplicaSet({ name: "new", resourceVersion: "6" }), { counted: true })], {
      ownerUid: rs.metadata.uid,
    });
    expect(await count()).toBe(2);
    await harness.openGeneration("replicasets");
    await harness.manifest("replicasets", [], "7", {
      sweep: (row) => ({ type: "delete", key: row.key, uid: row.uid, rv: "7", effects: [], counted: true, lowers: [] }),
    });
    expect(await count()).toBe(4);
  });

  it("IX8 stops at a row that changed after it was read, and keeps the earlier items of the call", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const pods = ["a", "b", "c"].map((name) => cachedPod({ name, resourceVersion: "10" }));
    const sequence = harness.nextSequence("pods");
    const read = await harness.read(
      "pods",
      pods.map((each) => put(each, { effects: [effect("replicaset", rs)] })),
    );
    await harness.seed("pods", [put(cachedPod({ name: "b", resourceVersion: "9" }))], { sequence: sequence + 5, commit: false });

    const stopped = await harness.deliver("pods", read, { sequence, asRead: true });
    expect(stopped).toMatchObject({ kind: "retry", index: 1, outcomes: ["changed"] });
    expect(rung(stopped)).toEqual(["replicaset shop/web"]);
    expect(await harness.row("pods", "shop/c")).toBeUndefined();
    expect(await harness.watermark("pods")).toBe("0");

    const rest = await harness.deliver("pods", read.slice(1), { sequence, watermark: "10" });
    expect(outcomes(rest)).toEqual(["changed", "changed"]);
    expect(await harness.watermark("pods")).toBe("10");
  });

  it("IX8 compares resourceVersion, uid and owner of a row with those read, including absent ones", async ({ harness }) => {
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "10", owner: { kind: "ReplicaSet", name: "web", uid: "u1" } }))]);
    const item = put(cachedPod({ resourceVersion: "20" }));
    const right = { rv: "10", uid: "uid-web-1", owner: replicaSetOwner("u1", "web") };
    const wrong = [
      undefined,
      { ...right, rv: "9" },
      { ...right, uid: "other" },
      { ...right, owner: replicaSetOwner("u2", "web") },
      { rv: right.rv, uid: right.uid },
    ];
    for (const expected of wrong) {
      const { expected: _, ...rest } = item;
      const answer = await harness.deliver("pods", [expected ? { ...rest, expected } : rest], { asRead: true, commit: false });
      expect(answer, JSON.stringify(expected)).toMatchObject({ kind: "retry", index: 0 });
    }
    const none = put(cachedPod({ name: "new", resourceVersion: "20" }));
    expect(await harness.deliver("pods", [{ ...none, expected: right }], { asRead: true, commit: false })).toMatchObject({
      kind: "retry",
      index: 0,
    });
    expect(outcomes(await harness.deliver("pods", [{ ...item, expected: right }], { asRead: true }))).toEqual(["changed"]);
  });

  it("[informer A4] ignores an item that is not newer than its row without comparing its look-ups", async ({ harness }) => {
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "10" }))]);
    expect(outcomes(await harness.deliver("pods", [put(cachedPod({ resourceVersion: "10" }))], { asRead: true }))).toEqual(["same"]);
    expect(outcomes(await harness.deliver("pods", [remove(cachedPod(), "9")], { asRead: true }))).toEqual(["same"]);
  });
}
