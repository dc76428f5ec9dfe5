/** Forged values (A14): a value that another client wrote into the Store is rejected and removed, and blocks nothing. */
import { expect, it as base } from "vitest";
import { ForgedRowsError } from "../../../shared/store/ports/errors.ts";
import type { Forged, ItemChange } from "../../../shared/store/ports/store.ts";
import { asOwner, cachedPod, cachedReplicaSet, effect, keyOf, listed, ownedBy, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { outcomes, type StoreHarness } from "../../harness/store/store.ts";

const rs = cachedReplicaSet({ resourceVersion: "5" });
const KEY = keyOf(rs);
const OWNER = asOwner("replicaset", rs);
const POD = "shop/web-1";
const pod = (resourceVersion: string) => cachedPod({ resourceVersion, owner: ownedBy("ReplicaSet", rs) });

/** A forged row with a higher version and another owner. */
const ROW: Forged = { resource: "pods", key: POD, where: "row", text: "999\x1fuid-web-1\x1f\x1fAAfalsefalsefalsefalsefa\x1f" };
const ENTRY: Forged = { resource: "pods", key: POD, where: "entry", slice: OWNER, text: '\x1f999\x1fx\x1fAAfalse\x1f{"phase":"Running"}' };
const GONE_ENTRY: Forged = { ...ENTRY, text: "" };
const STRAY: Forged = { ...ENTRY, key: "mallory/victim" };
const TOMBSTONE: Forged = { resource: "pods", key: POD, where: "tombstone", text: "999\x1fuid\x1fAAfalse" };

/** The live object as a change with which `repair` replaces forged values. */
const back = (object: ReturnType<typeof pod>, ...forged: readonly Forged[]): ItemChange => ({ ...put(object), forged });

async function withPod(open: OpenStore): Promise<StoreHarness> {
  const harness = await (await open()).synced();
  await harness.seed("replicasets", [put(rs, { counted: true, effects: [effect("replicaset", rs, { self: true })] })]);
  await harness.seed("pods", [put(pod("10"))]);
  return harness;
}

async function forgedIn(harness: StoreHarness): Promise<readonly Forged[]> {
  await harness.store.add(harness.epoch, "replicaset", KEY, 0);
  const { run, snapshot } = await harness.taken("replicaset", KEY);
  await harness.store.done(run, { kind: "ok" });
  return snapshot.forged ?? [];
}

export function forgedCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await withPod(open));
  it.each([
    { name: "a modified entry", forged: ENTRY },
    { name: "an entry copied from another namespace", forged: STRAY },
  ])("[informer A14] a snapshot omits and reports $name", async ({ forged }) => {
    const harness = await withPod(open);
    await harness.fixture.spoil(forged);
    await harness.store.add(harness.epoch, "replicaset", KEY, 0);
    const { snapshot } = await harness.taken("replicaset", KEY);
    expect(snapshot.forged).toEqual([forged]);
    expect(snapshot.dependents.map(({ key }) => key)).toEqual(forged === STRAY ? [POD] : []);
    const slices = harness.store.readSlices([{ resource: "pods", owner: OWNER }]);
    await expect(slices).rejects.toThrow(ForgedRowsError);
    await expect(slices).rejects.toMatchObject({ forged: [forged] });
  });

  it("[informer A14] a primary whose entry was changed or removed does not count as deleted", async () => {
    const slice = "-shop";
    for (const text of ["\x1f9\x1fx\x1fAAfalse\x1f{}", ""]) {
      const harness = await withPod(open);
      const forged: Forged = { resource: "replicasets", key: KEY, where: "entry", slice, text };
      await harness.fixture.spoil(forged);
      await harness.store.add(harness.epoch, "replicaset", KEY, 0);
      const { snapshot } = await harness.taken("replicaset", KEY);
      expect(snapshot.primary).toBeUndefined();
      expect(snapshot.forged).toEqual([forged]);
    }
  });

  it.each([
    { name: "row", forged: ROW },
    { name: "entry", forged: ENTRY },
    { name: "missing entry", forged: GONE_ENTRY },
    { name: "tombstone", forged: TOMBSTONE },
  ])("[informer A14] a read of the index reports a forged $name", async ({ forged }) => {
    const harness = await withPod(open);
    await harness.fixture.spoil(forged);
    const view = await harness.store.readIndex({ rows: [{ resource: "pods", key: POD }] });
    expect(view.forged).toEqual([forged]);
    expect(view.rows.map(({ row }) => row.key)).toEqual(forged === TOMBSTONE ? [POD] : []);
  });

  it.each([
    { name: "row", forged: ROW },
    {
      name: "row of exactly the change's version",
      forged: { ...ROW, text: `10\x1f${pod("10").uid}\x1f${OWNER}\x1fAAfalsefalsefalsefalsefa\x1f` },
    },
    { name: "tombstone", forged: TOMBSTONE },
  ])("IX10 [informer A14] requests a look-up before it applies a change if $name is forged", async ({ forged }) => {
    const harness = await withPod(open);
    await harness.fixture.spoil(forged);
    for (const item of [put(pod("10")), { ...put(pod("10")), expected: { rv: "10", uid: pod("10").uid, owner: OWNER } }]) {
      const answer = await harness.deliver("pods", [{ ...item, unread: true }], { asRead: true });
      expect(answer).toMatchObject({ kind: "retry", index: 0 });
      expect(answer).not.toHaveProperty("found");
    }
  });

  it.each([ENTRY, GONE_ENTRY])("IX10 [informer A14] does not apply a change that depends on a forged entry", async (forged) => {
    const harness = await withPod(open);
    await harness.fixture.spoil(forged);
    const answer = await harness.deliver("pods", [{ ...put(pod("11")), unread: true }], { asRead: true });
    expect(answer).toMatchObject({ kind: "retry", index: 0 });
    expect(answer).not.toHaveProperty("found");
  });

  it.each([
    { name: "row of a higher version", forged: [ROW], live: "10" },
    { name: "entry", forged: [ENTRY], live: "10" },
    { name: "missing entry", forged: [GONE_ENTRY], live: "10" },
    { name: "row and entry", forged: [ROW, ENTRY], live: "11" },
  ])(
    "[informer A14] the object from the API server replaces a forged $name, even if its version is not newer (A4, A6)",
    async ({ forged, live }) => {
      const harness = await withPod(open);
      for (const each of forged) await harness.fixture.spoil(each);
      const { run } = await takenBlind(harness);
      expect(await harness.watermark("pods")).toBe("10");
      expect(outcomes(await harness.store.writeThrough(run, { ...write(back(pod(live), ...forged)) }))).toEqual(["changed"]);
      await harness.store.done(run, { kind: "ok" });
      expect(await harness.row("pods", POD)).toMatchObject({ rv: live, owner: OWNER, gone: false });
      expect(await forgedIn(harness)).toEqual([]);
      expect((await harness.store.readLane("pods", 0)).forged).toEqual([]);
    },
  );

  it("[informer A14] does not replace a forged value that has changed since it was found", async ({ harness }) => {
    await harness.fixture.spoil(ENTRY);
    const { run } = await takenBlind(harness);
    const newer = { ...put(pod("12")), expected: { rv: "10", uid: pod("10").uid, owner: OWNER } };
    await harness.seed("pods", [newer], { asRead: true });
    expect(await harness.store.writeThrough(run, write(back(pod("10"), ENTRY)))).toMatchObject({ kind: "retry", index: 0 });
    expect(await harness.row("pods", POD)).toMatchObject({ rv: "12" });
  });

  it("[informer A14] reads the object from the API server again if a later change overtakes the read (IX1)", async ({ harness }) => {
    await harness.seed("pods", [put(pod("12"))]);
    await harness.fixture.spoil(STRAY_OF_POD);
    const { run } = await takenBlind(harness);
    expect(await harness.store.writeThrough(run, write(back(pod("10"), STRAY_OF_POD)))).toMatchObject({ kind: "retry", index: 0 });
  });

  it("[informer A14] removes a forged object completely if the API server does not have that object", async ({ harness }) => {
    await harness.fixture.spoil(STRAY);
    const { run } = await takenBlind(harness);
    const gone: ItemChange = { type: "delete", key: STRAY.key, uid: "", rv: "0", forged: [STRAY], effects: [], counted: false, lowers: [] };
    expect(outcomes(await harness.store.writeThrough(run, write(gone)))).toEqual(["changed"]);
    await harness.store.done(run, { kind: "ok" });
    expect(await forgedIn(harness)).toEqual([]);
    expect((await harness.store.readSlices([{ resource: "pods", owner: OWNER }]))[0]?.map(({ key }) => key)).toEqual([POD]);
  });

  it("[informer A14] a forged tombstone of a far future version does not hide an object forever (A5)", async ({ harness }) => {
    await harness.seed("pods", [remove(pod("11"), "11")]);
    await harness.fixture.spoil(TOMBSTONE);
    const item = back(cachedPod({ resourceVersion: "20", uid: "again", owner: ownedBy("ReplicaSet", rs) }), TOMBSTONE);
    expect(outcomes(await harness.deliver("pods", [item]))).toEqual(["changed"]);
    expect(await harness.row("pods", POD)).toMatchObject({ rv: "20" });
  });

  it("[informer A14] a manifest counts a forged listed row as missing, and the following list restores it", async ({ harness }) => {
    await harness.fixture.spoil(ROW);
    await harness.openGeneration("pods");
    const { forged } = await harness.store.readLane("pods", 0);
    expect(forged).toEqual([ROW]);
    const header = harness.header("pods", { lane: 0 });
    const answer = await harness.store.applyManifest(header, { listRV: "20", rows: [listed(pod("10"))], sweep: [], counts: [], forged });
    expect(answer).toEqual({ kind: "needed", keys: [POD] });
  });

  it("[informer A14] a manifest removes an unlisted forged row of any version", async ({ harness }) => {
    const planted: Forged = { ...ROW, key: "shop/planted" };
    await harness.fixture.spoil(planted);
    await harness.openGeneration("pods");
    const sweep: ItemChange = {
      type: "delete",
      key: planted.key,
      uid: "",
      rv: "20",
      forged: [planted],
      effects: [],
      counted: false,
      lowers: [],
    };
    const header = harness.header("pods", { lane: 0 });
    const answer = await harness.store.applyManifest(header, {
      listRV: "20",
      rows: [listed(pod("10"))],
      sweep: [sweep],
      counts: [],
      forged: [],
    });
    expect(answer.kind).toBe("applied");
    expect((await harness.store.readLane("pods", 0)).forged).toEqual([]);
  });

  it("[informer A14] a manifest without its earlier parts removes no row", async ({ harness }) => {
    await harness.openGeneration("pods");
    const header = harness.header("pods", { lane: 0 });
    expect(await harness.store.applyManifest(header, { listRV: "20", rows: [], sweep: [], counts: [], whole: false })).toEqual({
      kind: "incomplete",
    });
    expect(await harness.row("pods", POD)).toBeDefined();
  });

  it("[informer A14] treats the flag `gone` as valid for a minute, and then reads the pod live, which may restore it", async ({
    harness,
  }) => {
    const { run } = await takenBlind(harness);
    await harness.writeThrough(run, "pods", [], { ownerUid: rs.metadata.uid, gone: [{ key: POD, uid: pod("10").uid }] });
    await harness.store.done(run, { kind: "ok" });
    await harness.pass(59_000);
    expect(await forgedIn(harness)).toEqual([]);
    await harness.pass(2_000);
    const [stale] = await forgedIn(harness);
    expect(stale).toMatchObject({ resource: "pods", key: POD, where: "entry", slice: OWNER });
    const second = await takenBlind(harness);
    expect(outcomes(await harness.store.writeThrough(second.run, write(back(pod("10"), ...(stale ? [stale] : [])))))).toEqual(["changed"]);
    expect(await harness.row("pods", POD)).toMatchObject({ gone: false });
  });

  it("readEntries returns an object as cached and its stored value, so that it can be replaced", async ({ harness }) => {
    const [entry, ...more] = await harness.store.readEntries("pods", [POD, "shop/nobody"]);
    expect(more).toEqual([]);
    expect(entry).toMatchObject({ key: POD, row: { rv: "10", owner: OWNER, object: pod("10") }, stands: { where: "entry", slice: OWNER } });
  });

  it.each([
    { name: "a row", forged: ROW },
    { name: "an entry", forged: ENTRY },
    { name: "a missing entry", forged: GONE_ENTRY },
  ])("readEntries omits and reports a key whose $name has an invalid MAC", async ({ forged }) => {
    const harness = await withPod(open);
    await harness.fixture.spoil(forged);
    expect(await harness.store.readEntries("pods", [POD])).toEqual([{ key: POD, stands: forged }]);
  });

  it("readGhosts returns exactly the slice entries that have no row", async ({ harness }) => {
    expect(await harness.store.readGhosts("pods")).toEqual([]);
    await harness.fixture.spoil(STRAY);
    expect((await harness.store.readGhosts("pods")).map(({ stands }) => stands)).toEqual([STRAY]);
  });

  it("readLane returns rows and position of a lane from the same moment", async ({ harness }) => {
    const { watermark, rows } = await harness.store.readLane("pods", 0);
    expect([watermark, rows.map(({ rv }) => rv)]).toEqual([await harness.watermark("pods"), ["10"]]);
    await harness.deliver("pods", [], { kind: "W", watermark: "77" });
    expect((await harness.store.readLane("pods", 0)).watermark).toBe("77");
  });
}

/** A slice entry for the pod, in a slice that never contained the pod. */
const STRAY_OF_POD: Forged = { ...ENTRY, slice: "-shop" };

async function takenBlind(harness: StoreHarness) {
  await harness.store.add(harness.epoch, "replicaset", KEY, 0);
  return harness.taken("replicaset", KEY);
}

function write(...items: readonly ItemChange[]) {
  return { resource: "pods", items, counts: [], ownerUid: rs.metadata.uid, lower: [], plan: [], gone: [], ownStatus: false } as const;
}
