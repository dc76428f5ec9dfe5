/** The foreign-write guard: which keys another controller's writes stop, and until when (informer §11.9). */
import { expect, it as base } from "vitest";

import type { ForeignWrite, GuardState, Stop, Store } from "../../../shared/store/ports/store.ts";
import { CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import { cachedPod, cachedReplicaSet, effect, put } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { EPOCH, type StoreHarness } from "../../harness/store/store.ts";

const RS = "shop/web";
const UID = "uid-rs-web";
const wroteAt = (atMs: number, manager = "kube-controller-manager"): ForeignWrite => ({
  resource: "replicasets",
  key: "shop/other",
  manager,
  atMs,
});
const reportAll = async (store: Store, write: ForeignWrite, nowMs: number): Promise<GuardState> =>
  await store.reportForeignWrites({ everything: write, namespaces: [] }, nowMs);
const reportIn = async (store: Store, nowMs: number, ...namespaces: readonly ForeignWrite[]): Promise<GuardState> =>
  await store.reportForeignWrites({ namespaces }, nowMs);
const resumed = async (store: Store, acceptedMs: number, namespace?: string): Promise<string> =>
  await store.resume({ seen: await store.guard(), acceptedMs, ...(namespace !== undefined && { namespace }) });
const stoppedIn = ({ namespaces }: GuardState): readonly string[] =>
  [...namespaces].flatMap(([name, { stop }]) => (stop ? [name] : [])).sort();
const STOP: Stop = { kind: "seen", write: wroteAt(5_000), sinceMs: 5_100 };

export function guardCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await due());
  const due = async (): Promise<StoreHarness> => {
    const harness = await (await open()).synced();
    await harness.seed("replicasets", [
      put(cachedReplicaSet(), { counted: true, effects: [effect("replicaset", cachedReplicaSet(), { self: true })] }),
    ]);
    return harness;
  };

  it("GD1 [informer T101] after a report no key is taken, gates close and no doorbell is sent; due keys are kept and deltas applied", async ({
    harness,
  }) => {
    expect(await harness.store.guard()).toMatchObject({ acceptedMs: 0 });
    expect(await reportAll(harness.store, wroteAt(5_000), 5_100)).toMatchObject({ stop: STOP, acceptedMs: 0 });
    expect(await harness.store.take(harness.run("replicaset", RS), { uid: UID })).toEqual({ kind: "stopped", stop: STOP });
    expect(await harness.store.take(harness.run("replicaset", "shop/none"), {})).toEqual({ kind: "stopped", stop: STOP });
    for (const controller of CONTROLLERS)
      expect(await harness.store.gate(controller)).toEqual({
        open: false,
        reason:
          "stopped since 1970-01-01T00:00:05.100Z: kube-controller-manager wrote the status of replicasets shop/other at 1970-01-01T00:00:05.000Z",
      });
    expect(await harness.dirty("replicaset")).toEqual([RS]);
    await harness.pass(60_000);
    expect(await harness.store.sweep(harness.epoch)).toEqual([]);
    await harness.seed("pods", [put(cachedPod())]);
  });

  it("GD1 a running sync learns of the stop at its next lease renewal, and may still cache its responses and finish", async ({
    harness,
  }) => {
    const { run } = await harness.taken("replicaset", RS);
    const before = (await harness.store.queued("replicaset"))[0]?.leaseUntilMs;
    await reportAll(harness.store, wroteAt(5_000), 5_100);
    await harness.fixture.clock.advance(1_000);
    expect(await harness.store.renew(run)).toBe("stopped");
    expect((await harness.store.queued("replicaset"))[0]?.leaseUntilMs).toBe(before);
    expect(await harness.writeThrough(run, "pods", [put(cachedPod())], { ownerUid: UID })).toMatchObject({ kind: "ok" });
    expect(await harness.store.done(run, { kind: "requeueAfter", delayMs: 0 })).toMatchObject({ kind: "done", failures: 0 });
    expect(await harness.store.renew(run)).toBeUndefined();
    expect(await harness.dirty("replicaset")).toEqual([RS]);
  });

  it("GD2 a stop survives a new epoch, fence and list", async () => {
    const harness = await open();
    await reportAll(harness.store, wroteAt(5_000), 5_100); // before an epoch exists
    await harness.synced();
    expect(await harness.store.take(harness.run("replicaset", RS), {})).toEqual({ kind: "stopped", stop: STOP });
    expect(await harness.store.openEpoch({ ...EPOCH, epoch: "e2" }, "e1")).toEqual({ kind: "opened" });
    expect((await harness.store.guard()).stop).toEqual(STOP);
  });

  it("GD3 a write from before a resume stops nothing, even if it is reported later", async ({ harness }) => {
    await reportAll(harness.store, wroteAt(5_000), 5_100);
    expect(await resumed(harness.store, 7_000)).toBe("resumed");
    expect(await harness.store.guard()).toMatchObject({ acceptedMs: 7_000 });
    for (const atMs of [4_000, 5_000, 7_000])
      expect(await reportAll(harness.store, wroteAt(atMs), 9_000)).toEqual({ acceptedMs: 7_000, namespaces: new Map() });
    expect((await harness.store.guard()).stop).toBeUndefined();
    await harness.pass(6_000);
    expect((await harness.store.sweep(harness.epoch)).map(({ key }) => key)).toEqual([RS]);
    expect((await harness.taken("replicaset", RS)).kind).toBe("ok");
    expect((await reportAll(harness.store, wroteAt(8_000), 9_000)).stop).toEqual({ kind: "seen", write: wroteAt(8_000), sinceMs: 9_000 });
  });

  it("GD4 a stop keeps the newest reported write and the time of the first report", async () => {
    const { store } = await open();
    await reportAll(store, wroteAt(5_000), 5_100);
    for (const atMs of [5_000, 4_000]) await reportAll(store, wroteAt(atMs, "k3s"), 6_000);
    expect((await store.guard()).stop).toEqual(STOP);
    await reportAll(store, wroteAt(6_000, "k3s"), 6_100);
    expect((await store.guard()).stop).toEqual({ kind: "seen", write: wroteAt(6_000, "k3s"), sinceMs: 5_100 });
  });

  it("GD5 a resume lifts only the stops that the user was shown, and never moves the time of an earlier resume back", async () => {
    const { store } = await open();
    await reportAll(store, wroteAt(5_000), 5_100);
    const seen = await store.guard();
    await reportAll(store, wroteAt(6_000), 6_100);
    expect(await store.resume({ seen, acceptedMs: 5_000 })).toBe("changed");
    expect((await store.guard()).stop).toMatchObject({ write: wroteAt(6_000) });
    expect(await resumed(store, 6_000)).toBe("resumed");
    expect(await resumed(store, 3_000)).toBe("resumed");
    expect(await store.guard()).toMatchObject({ acceptedMs: 6_000 });
  });

  it("GD5 keeps both a report and a concurrent resume", async () => {
    const { store } = await open();
    for (let round = 1; round <= 20; round++) {
      await reportAll(store, wroteAt(round * 10_000), 1);
      const seen = await store.guard();
      const newer = wroteAt(round * 10_000 + 1_000);
      const [answer] = await Promise.all([store.resume({ seen, acceptedMs: round * 10_000 }), reportAll(store, newer, 1)]);
      expect((await store.guard()).stop, answer).toMatchObject({ write: newer });
      if (answer === "resumed") expect((await store.guard()).acceptedMs).toBe(round * 10_000);
    }
  });

  it("GD7 a Store in shadow mode ignores stops, and stops of another cluster are separate", async ({ harness }) => {
    await reportAll(harness.store, wroteAt(5_000), 5_100);
    const careless = await harness.fixture.beside({ ignoresStop: true });
    expect(await careless.gate("replicaset")).toEqual({ open: true });
    const run = harness.run("replicaset", RS);
    expect(await careless.take(run, { uid: UID })).toMatchObject({ kind: "ok" });
    expect(await careless.renew(run)).toBeGreaterThan(harness.now());
    expect(await harness.store.renew(run)).toBe("stopped");
    const elsewhere = await harness.fixture.beside({ cluster: "cluster-of-another" });
    expect((await elsewhere.guard()).stop).toBeUndefined();
    await Promise.all([careless.close(), elsewhere.close()]);
  });

  it("GD1 while a namespace is stopped, its keys are not taken and get no doorbells; gates stay open and other namespaces continue", async ({
    harness,
  }) => {
    const bank = {
      ...cachedReplicaSet(),
      metadata: { ...cachedReplicaSet().metadata, namespace: "bank", uid: "uid-rs-bank", resourceVersion: "1000" },
    };
    await harness.seed("replicasets", [put(bank, { counted: true, effects: [effect("replicaset", bank, { self: true })] })]);
    const { run } = await harness.taken("replicaset", RS);
    const stop = { kind: "seen", write: wroteAt(5_000), sinceMs: 5_100 };
    expect(await reportIn(harness.store, 5_100, wroteAt(5_000))).toEqual({
      acceptedMs: 0,
      namespaces: new Map([["shop", { stop, acceptedMs: 0 }]]),
    });
    expect(await harness.store.renew(run)).toBe("stopped");
    await harness.store.done(run, { kind: "requeueAfter", delayMs: 0 });
    expect(await harness.store.take(harness.run("replicaset", RS), { uid: UID })).toEqual({ kind: "stopped", stop });
    for (const controller of CONTROLLERS) expect(await harness.store.gate(controller)).toEqual({ open: true });
    await harness.pass(6_000);
    expect((await harness.store.sweep(harness.epoch)).map(({ key }) => key)).toEqual(["bank/web"]);
    const other = harness.run("replicaset", "bank/web");
    expect(await harness.store.take(other, { uid: "uid-rs-bank" })).toMatchObject({ kind: "ok" });
    expect(await harness.store.renew(other)).toBeGreaterThan(harness.now());
    expect(await resumed(harness.store, 5_000, "shop")).toBe("resumed");
    await harness.pass(6_000);
    expect((await harness.store.sweep(harness.epoch)).map(({ key }) => key)).toContain(RS);
  });

  it("GD5 a resume of one namespace does not lift other stops, and fails only after a newer write in that namespace", async () => {
    const { store } = await open();
    const inBank = { ...wroteAt(5_000), key: "bank/web" };
    await reportIn(store, 5_100, wroteAt(5_000), inBank);
    const seen = await store.guard();
    await reportIn(store, 6_100, { ...inBank, atMs: 6_000 });
    expect(await store.resume({ namespace: "shop", seen, acceptedMs: 5_000 })).toBe("resumed");
    expect(await store.resume({ namespace: "bank", seen, acceptedMs: 5_000 })).toBe("changed");
    expect(await store.resume({ seen, acceptedMs: 5_000 })).toBe("changed");
    expect(stoppedIn(await reportIn(store, 6_200, wroteAt(5_000), { ...inBank, atMs: 6_000 }))).toEqual(["bank"]);
    expect(stoppedIn(await reportIn(store, 6_200, wroteAt(5_500)))).toEqual(["bank", "shop"]);
    expect(await resumed(store, 6_000)).toBe("resumed");
    expect(await store.guard()).toEqual({ acceptedMs: 6_000, namespaces: new Map() });
  });

  it("GD5 keeps all of the concurrent reports and resumes of two namespaces", async () => {
    const { store } = await open();
    for (let round = 1; round <= 10; round++) {
      await reportIn(store, 1, wroteAt(round * 10_000));
      const inBank = { ...wroteAt(round * 10_000), key: "bank/web" };
      const answer = await Promise.all([resumed(store, round * 10_000, "shop"), reportIn(store, 1, inBank)]);
      expect(stoppedIn(await store.guard()), answer[0]).toEqual(answer[0] === "resumed" ? ["bank"] : ["bank", "shop"]);
      await resumed(store, round * 10_000);
    }
  });

  it("GD8 stops at most 1,000 namespaces individually; one more stops everything until a user resumes everything", async () => {
    const { store } = await open();
    const inEach = Array.from({ length: 1_000 }, (_, nth) => ({ ...wroteAt(5_000), key: `tenant-${nth}/web` }));
    const full = await reportIn(store, 5_100, ...inEach);
    expect([full.stop, stoppedIn(full).length]).toEqual([undefined, 1_000]);
    expect((await reportIn(store, 5_200, ...inEach)).stop).toBeUndefined();
    const over = await reportIn(store, 6_100, wroteAt(6_000));
    expect(over.stop).toEqual({ kind: "seen", write: wroteAt(6_000), sinceMs: 6_100, isOverMax: true });
    expect(await store.guard()).toEqual(over);
    expect(await resumed(store, 6_000)).toBe("resumed");
    expect(await reportIn(store, 7_000, ...inEach, wroteAt(6_000))).toEqual({ acceptedMs: 6_000, namespaces: new Map() });
  });
}
