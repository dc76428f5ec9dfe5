/**
 * Cluster lineage (shared/store/ports/lineage.ts LN1–LN5; informer §11.11). Catches: a clone that takes over an epoch, a rolled-back Store
 * that a new leader considers current, and a run that writes after the leader under which it began was replaced.
 */
import { expect, it as base } from "vitest";

import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { EPOCHS_REASON, EPOCHS_WINDOW_MS, UNPROVEN_REASON } from "../../../shared/store/ports/lineage.ts";
import type { Lineage, Proof, TermToken } from "../../../shared/store/ports/lineage.ts";
import { cachedPod, cachedReplicaSet, put } from "../../support/builders.ts";
import { EPOCH, type StoreHarness } from "../../harness/store/store.ts";
import type { OpenStore } from "../store.ts";

const FIRST: TermToken = { term: "t1", count: 0 };
const SECOND: TermToken = { term: "t2", count: 0 };
const RS = "shop/web";
const rs = cachedReplicaSet({ resourceVersion: "250" });

/** Opens every fence as the leader of a term. Returns the result of the last call. */
async function lead(
  { store, epoch, lanes }: StoreHarness,
  fence: string,
  token: TermToken,
  expected: string | undefined,
  proof?: Proof,
): Promise<string> {
  let kind = "";
  for (const resource of CACHED_RESOURCES) {
    const terms = { token, expected: kind === "" ? expected : token.term, proof };
    const opened = await store.openFence({ epoch, fence, resource, lanes: lanes[resource], ...terms });
    kind = opened.kind === "open" ? opened.state : opened.kind;
    if (opened.kind !== "open") break;
  }
  return kind;
}

const beat = ({ store, epoch }: StoreHarness, fence: string, number: number, token: TermToken, confirmed = 0) =>
  store.checkpoint({ epoch, fence, sent: {}, beat: number, answered: number - 1, token, confirmed });

const current = async ({ store }: StoreHarness): Promise<Lineage | undefined> => (await store.lineage()).current;

export function lineageCases(open: OpenStore): void {
  /** A Store that a leader without a term synced, as an older build leaves it, and that FIRST then leads under fence 101. */
  const it = base.extend("harness", async () => {
    const harness = await (await open()).synced();
    expect(await lead(harness, "101", FIRST, undefined)).toBe("SUSPECT"); // an older build writes no term
    await harness.raiseFence("101"); // repeats the call
    for (const resource of CACHED_RESOURCES) await harness.relist(resource, [], "200", put);
    expect(await beat(harness, "101", 1, FIRST)).toMatchObject({ kind: "ok" });
    return harness;
  });

  it("LN1 opens a fence only for a leader that knows the stored term, and rejects an equal fence of another term", async ({ harness }) => {
    expect(await current(harness)).toMatchObject({ token: FIRST, checkpoint: { fence: "101", number: 1 } });
    expect(await lead(harness, "102", SECOND, undefined)).toBe("foreign");
    expect(await lead(harness, "102", SECOND, "t0")).toBe("foreign");
    expect(await lead(harness, "101", SECOND, "t1")).toBe("equalFence");
    expect(await lead(harness, "99", SECOND, "t1")).toBe("fenced");
    expect(await current(harness)).toMatchObject({ token: FIRST });
    expect(await lead(harness, "101", FIRST, "t1")).toBe("SYNCED"); // repeats the call
    expect(await lead(harness, "102", SECOND, "t1")).not.toBe("foreign");
    expect(await current(harness)).toMatchObject({ token: SECOND });
  });

  it("LN1 replaces an epoch only if its term and checkpoint are unchanged since they were read", async ({ harness }) => {
    const seen = await current(harness);
    const next = { ...EPOCH, epoch: "e2", fence: "7" };
    for (const over of [
      { ...seen, checkpoint: { fence: "101", number: 0 } },
      { ...seen, token: { term: "t1", count: 1 } },
      { record: EPOCH, token: FIRST },
    ])
      expect(await harness.store.openEpoch(next, over as Lineage, SECOND)).toMatchObject({ kind: "exists", record: { epoch: "e1" } });
    await beat(harness, "101", 2, FIRST);
    expect(await harness.store.openEpoch(next, seen, SECOND)).toMatchObject({ kind: "exists" });
    expect(await harness.store.openEpoch(next, await current(harness), SECOND)).toEqual({ kind: "opened" });
    expect(await current(harness)).toEqual({ record: next, token: SECOND });
  });

  it("LN2 keeps the cache for a new leader that knows the final checkpoint; otherwise marks all resources SUSPECT", async ({ harness }) => {
    const final: Proof = { token: FIRST, checkpoint: { fence: "101", number: 1 }, isExact: true };
    expect(await lead(harness, "102", SECOND, "t1", final)).toBe("SYNCED");
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    const later = { term: "t2", count: 3 };
    await beat(harness, "102", 1, SECOND);
    await beat(harness, "102", 2, later, 0);
    for (const [fence, term, checkpoint, count, isExact, want] of [
      // the last checkpoint whose response the leader received, or a later one
      ["103", "t3", { fence: "102", number: 1 }, 3, false, "SYNCED"],
    ] as const) {
      expect(await lead(harness, fence, { term, count: 0 }, "t2", { token: { term: "t2", count }, checkpoint, isExact })).toBe(want);
    }
    await beat(harness, "103", 1, { term: "t3", count: 0 });
    const exact = { token: { term: "t3", count: 0 }, checkpoint: { fence: "103", number: 2 }, isExact: true };
    expect(await lead(harness, "104", { term: "t4", count: 0 }, "t3", exact)).toBe("SUSPECT");
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining(UNPROVEN_REASON) });
  });

  it("LN3 detects a rollback of the Store by another term, or by a smaller count than the confirmed one", async ({ harness, skip }) => {
    expect(await beat(harness, "101", 2, { term: "t1", count: 1 }, 0)).toMatchObject({ kind: "ok" });
    expect(await beat(harness, "101", 3, { term: "t1", count: 2 }, 2)).toEqual({
      kind: "setBack",
      why: "it has count 1 of the leadership term but has confirmed 2",
    });
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("confirmed 2") });
    if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
    const restore = await harness.fixture.snapshot();
    await lead(harness, "102", SECOND, "t1");
    await restore();
    expect(await beat(harness, "102", 1, SECOND)).toMatchObject({ kind: "setBack" });
  });

  it("LN4 rejects intents and write-throughs of a run if term, fence or SUSPECT marks changed after its take", async ({ harness }) => {
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", RS, 0);
    const taken = harness.run("replicaset", RS);
    const result = await harness.take(taken);
    if (result.kind !== "ok" || !result.lineage) throw new Error(result.kind);
    expect(result.lineage).toMatchObject({ token: FIRST, fence: "101", checkpoint: { fence: "101", number: 1 } });
    const run = { ...taken, lineage: result.lineage };
    const pod = put(cachedPod({ resourceVersion: "300" }));
    const write = {
      resource: "pods",
      items: [pod],
      counts: [],
      ownerUid: rs.metadata.uid,
      lower: [],
      plan: [],
      gone: [],
      ownStatus: false,
    } as const;
    expect(await harness.store.registerIntents(run, rs.metadata.uid, [])).toBe("ok");
    expect(await harness.store.writeThrough(run, { ...write, items: [] })).toMatchObject({ kind: "ok" });
    await harness.store.markSuspect("pods", "a test");
    expect(await harness.store.registerIntents(run, rs.metadata.uid, [])).toBe("stolen");
    expect(await harness.store.writeThrough(run, { ...write, items: [] })).toMatchObject({ kind: "ok" });
    await lead(harness, "102", SECOND, "t1");
    expect(await harness.store.writeThrough(run, write)).toEqual({ kind: "otherEpoch" });
    expect(await harness.store.registerIntents({ ...run, lineage: { ...run.lineage, marks: 1 } }, rs.metadata.uid, [])).toBe("stolen");
  });

  it("LN5 four new epochs within ten minutes close every gate, until the first is ten minutes old or a user clears them", async ({
    harness,
  }) => {
    const { store } = harness;
    for (const epoch of ["e2", "e3"]) await store.openEpoch({ ...EPOCH, epoch }, (await store.epoch())?.epoch);
    expect(await store.lineage()).toMatchObject({ recentEpochs: 3 });
    expect(await store.gate("replicaset")).not.toMatchObject({ reason: EPOCHS_REASON });
    await harness.fixture.clock.advance(60_000);
    await store.openEpoch({ ...EPOCH, epoch: "e4" }, "e3");
    for (const controller of ["replicaset", "deployment"] as const)
      expect(await store.gate(controller)).toEqual({ open: false, reason: EPOCHS_REASON });
    harness.epoch = "e4";
    expect(await store.take(harness.run("replicaset", RS), {})).toEqual({ kind: "gated", reason: EPOCHS_REASON });
    await harness.fixture.clock.advance(EPOCHS_WINDOW_MS - 60_000);
    expect(await store.gate("replicaset")).not.toMatchObject({ reason: EPOCHS_REASON });
    for (const epoch of ["e5", "e6", "e7"]) await store.openEpoch({ ...EPOCH, epoch }, (await store.epoch())?.epoch);
    expect(await store.gate("replicaset")).toEqual({ open: false, reason: EPOCHS_REASON });
    await store.forgetRecentEpochs();
    expect(await store.lineage()).toMatchObject({ recentEpochs: 0 });
    expect(await store.gate("replicaset")).not.toMatchObject({ reason: EPOCHS_REASON });
  });

  it("a leader without a term, such as an older build, removes the stored term", async ({ harness }) => {
    await harness.raiseFence("105");
    expect(await current(harness)).not.toHaveProperty("token");
    expect(await lead(harness, "106", SECOND, undefined)).not.toBe("foreign");
    expect(await current(harness)).toMatchObject({ token: SECOND });
  });

  it("a checkpoint returns the greatest version that any run has written through", async ({ harness }) => {
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    await harness.store.add(harness.epoch, "replicaset", RS, 0);
    const { run } = await harness.taken("replicaset", RS);
    await harness.writeThrough(run, "pods", [put(cachedPod({ resourceVersion: "300" }))], { ownerUid: rs.metadata.uid });
    await harness.writeThrough(run, "pods", [put(cachedPod({ name: "b", uid: "b", resourceVersion: "299" }))], {
      ownerUid: rs.metadata.uid,
    });
    const answer = await beat(harness, "101", 2, FIRST);
    const written = answer.kind === "ok" ? answer.resources.map(({ resource, written: version }) => [resource, version]) : answer;
    expect(written).toContainEqual(["pods", "300"]);
    expect(written).toContainEqual(["deployments", undefined]);
  });
}
