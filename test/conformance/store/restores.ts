/**
 * Lists of a restored cluster: its objects keep their versions, while the versions of its lists are far above all earlier ones, as with
 * `etcdutl snapshot restore --bump-revision` (IX9). Cached objects of the lost history are newer than the listed ones.
 */
import { expect, it as base } from "vitest";

import type { CachedPod } from "../../../shared/kube/objects/cached.ts";
import { asOwner, cachedPod, cachedReplicaSet, effect, listed, ownedBy, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { outcomes, rung } from "../../harness/store/store.ts";

const POD = "shop/web-1";
const LIST = "1000000405";
const pod = (resourceVersion: string, overrides: Partial<CachedPod> = {}) => cachedPod({ resourceVersion, ...overrides });

export function restoreCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("IX9 [informer A4] a listed object replaces a newer row that is not newer than the list, and enqueues all affected keys", async ({
    harness,
  }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.seed("pods", [put(pod("460", { labels: { lost: "1" } }))]);
    const restored = put(pod("449", { owner: ownedBy("ReplicaSet", rs) }), { effects: [effect("replicaset", rs)] });
    const answer = await harness.deliver("pods", [restored], { kind: "L", listRV: LIST });
    expect(outcomes(answer)).toEqual(["changed"]);
    expect(rung(answer)).toEqual(["replicaset shop/web"]);
    expect(await harness.row("pods", POD)).toMatchObject({ rv: "449", object: restored.object });
    const [mine] = await harness.store.readSlices([{ resource: "pods", owner: asOwner("replicaset", rs) }]);
    expect(mine?.map(({ rv }) => rv)).toEqual(["449"]);
    expect((await harness.store.readSlices([{ resource: "pods", orphansOf: "shop" }]))[0]).toEqual([]);
  });

  it.each([
    { name: "newer than the list", row: "41", came: "10", listRV: "40", outcome: "same" },
    { name: "at the list's version", row: "40", came: "10", listRV: "40", outcome: "changed" },
    { name: "at the listed version", row: "10", came: "10", listRV: "40", outcome: "same" },
    { name: "older", row: "9", came: "10", listRV: "40", outcome: "changed" },
    { name: "newer than the list by its last digit", row: "1000", came: "449", listRV: "999", outcome: "same" },
    { name: "newer, without a list version", row: "41", came: "10", listRV: undefined, outcome: "same" },
  ])(
    "IX9 [informer A4] [informer T39] returns “$outcome” for a listed object whose row is $name",
    async ({ row, came, listRV, outcome }) => {
      const harness = await (await open()).synced();
      await harness.seed("pods", [put(pod(row))]);
      const list = listRV === undefined ? {} : { listRV };
      expect(outcomes(await harness.deliver("pods", [put(pod(came))], { kind: "L", ...list }))).toEqual([outcome]);
      expect((await harness.row("pods", POD))?.rv).toBe(outcome === "changed" ? came : row);
    },
  );

  it.each([
    { name: "newer than the list", tombstone: "41", outcome: "late" },
    { name: "at the list's version", tombstone: "40", outcome: "changed" },
    { name: "newer than the listed version, but not than the list", tombstone: "30", outcome: "changed" },
    { name: "at the listed version", tombstone: "10", outcome: "late" },
  ])("IX9 [informer A5] returns “$outcome” for a listed object whose tombstone is $name", async ({ tombstone, outcome }) => {
    const harness = await (await open()).synced();
    await harness.seed("pods", [remove(pod("9"), tombstone)], { commit: false });
    expect(outcomes(await harness.deliver("pods", [put(pod("10"))], { kind: "L", listRV: "40" }))).toEqual([outcome]);
    expect((await harness.row("pods", POD))?.rv).toBe(outcome === "changed" ? "10" : undefined);
  });

  it("IX9 IX4 [informer A7] a delete that a restore undid no longer hides the restored object", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.seed("pods", [put(pod("460"))]);
    await harness.store.add(harness.epoch, "replicaset", "shop/web", 0);
    const { run } = await harness.taken("replicaset", "shop/web");
    await harness.writeThrough(run, "pods", [], { ownerUid: rs.metadata.uid, gone: [{ key: POD, uid: pod("460").uid }] });
    expect(await harness.row("pods", POD)).toMatchObject({ gone: true });
    await harness.seed("pods", [put(pod("449"))], { kind: "L", listRV: LIST });
    expect(await harness.row("pods", POD)).toMatchObject({ rv: "449", gone: false });
  });

  it("IX9 [informer A3] a redelivered listed object does not revert later changes", async ({ harness }) => {
    await harness.seed("pods", [put(pod("460"))]);
    const sequence = harness.nextSequence("pods");
    const deliver = () => harness.deliver("pods", [put(pod("449"))], { kind: "L", listRV: LIST, sequence });
    expect(outcomes(await deliver())).toEqual(["changed"]);
    await harness.seed("pods", [put(pod("1000000406"))]);
    expect(await deliver()).toMatchObject({ kind: "duplicate" });
    expect((await harness.row("pods", POD))?.rv).toBe("1000000406");
  });

  it("IX9 after a restore, every gate is closed until all resources are listed again", async ({ harness }) => {
    const rs = cachedReplicaSet();
    await harness.relist("replicasets", [rs], "450", (object) => put(object, { counted: true }));
    await harness.seed("pods", [put(pod("460"))]);
    await harness.openGeneration("pods");
    await harness.seed("pods", [put(pod("449"))], { kind: "L", listRV: LIST, commit: false });
    const reason = expect.stringContaining("the cluster was restored");
    const shut = async () => (await harness.store.gate("replicaset")).open === false;
    for (const resource of ["pods", "replicasets", "deployments"] as const)
      expect(await harness.health(resource)).toMatchObject({ state: "SUSPECT" });
    expect(await harness.store.gate("deployment")).toEqual({ open: false, reason });
    await harness.deliver("pods", [put(pod("449"))], { kind: "L", listRV: LIST });
    await harness.manifest("pods", [listed(pod("449"))], LIST); // the message was in flight when the other resources became suspect
    expect(await shut()).toBe(true);
    await harness.relist("pods", [pod("449")], LIST, put);
    expect(await shut()).toBe(true);
    await harness.relist("replicasets", [rs], LIST, put);
    expect(await shut()).toBe(false);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
  });

  it("IX9 the gates stay open if a list shows no sign of a restore", async ({ harness }) => {
    await harness.seed("pods", [put(pod("10")), put(cachedPod({ name: "since", resourceVersion: "41" }))], { commit: false });
    await harness.openGeneration("pods");
    const listedNow = [pod("12"), cachedPod({ name: "since", resourceVersion: "9" }), cachedPod({ name: "new", resourceVersion: "30" })];
    await harness.deliver(
      "pods",
      listedNow.map((each) => put(each)),
      { kind: "L", listRV: "40" },
    );
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
  });

  it("IX9 the look-up of a listed object returns the complete row that the object will replace", async ({ harness }) => {
    await harness.seed("pods", [put(pod("460"))]);
    const look = async (listRV?: string) => {
      const request = { resource: "pods" as const, key: POD, put: "449", ...(listRV !== undefined && { listRV }) };
      const { rows, current } = await harness.store.readIndex({ rows: [request] });
      return { rows: rows.map(({ row }) => row.rv), current: current?.map(({ row }) => row.rv) };
    };
    expect(await look()).toEqual({ rows: [], current: ["460"] });
    expect(await look("459")).toEqual({ rows: [], current: ["460"] });
    expect(await look(LIST)).toEqual({ rows: ["460"], current: [] });
  });

  it("IX7 IX9 a manifest treats rows and tombstones from before a restore as missing", async ({ harness }) => {
    const named = (name: string, rv: string) => cachedPod({ name, resourceVersion: rv });
    await harness.seed("pods", [put(named("lost", "460")), put(named("since", "1000000406"))], { commit: false });
    await harness.seed("pods", [remove(named("buried", "440"), "461"), remove(named("deleted", "440"), "1000000406")], { commit: false });
    await harness.openGeneration("pods");
    const rows = ["lost", "since", "buried", "deleted"].map((name) => listed(named(name, "449")));
    expect(await harness.manifest("pods", rows, LIST)).toEqual({ kind: "needed", keys: ["shop/lost", "shop/buried"] });
    await harness.openGeneration("pods");
    await harness.seed("pods", [put(named("lost", "449")), put(named("buried", "449"))], { kind: "L", listRV: LIST });
    expect((await harness.manifest("pods", rows, LIST)).kind).toBe("applied");
    expect((await harness.store.readLane("pods", 0)).rows.map(({ key, rv }) => `${key} ${rv}`)).toEqual([
      "shop/buried 449",
      "shop/lost 449",
      "shop/since 1000000406",
    ]);
  });
}
