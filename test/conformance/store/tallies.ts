/** The item counters: received items and their outcomes (informer §16, TY1). */
import { expect, it as base } from "vitest";

import type { LaneTally } from "../../../shared/store/ports/store.ts";
import { countsOf, unbalanced } from "../../support/account.ts";
import { cachedPod, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import type { StoreHarness } from "../../harness/store/store.ts";

const pod = (name: string, resourceVersion: string) => cachedPod({ name, resourceVersion });

/** Returns the counts of pods after checking their sum. */
async function counted(harness: StoreHarness): Promise<Readonly<Record<string, number>>> {
  const tallies: readonly LaneTally[] = await harness.store.tallies();
  expect(unbalanced(tallies)).toEqual([]);
  return countsOf(tallies);
}

export function tallyCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("TY1 counts nothing without messages", async ({ harness }) => {
    expect(await harness.store.tallies()).toEqual([]);
  });

  it("TY1 counts each received item under exactly one outcome", async ({ harness }) => {
    const sequence = harness.nextSequence("pods");
    const items = [put(pod("a", "10")), put(pod("b", "11")), put(pod("c", "12"))];
    await harness.deliver("pods", items, { sequence });
    expect(await counted(harness)).toEqual({ "pods:0 applied": 3 });
    await harness.deliver("pods", items, { sequence });
    expect(await counted(harness)).toEqual({ "pods:0 applied": 3, "pods:0 duplicate": 3 });
    // Items that rules A4, A6 and A9 reject as outdated.
    await harness.deliver("pods", [put(pod("a", "10")), put(pod("gone", "5")), remove(pod("b", "11"), "20")]);
    expect(await counted(harness)).toEqual({ "pods:0 applied": 4, "pods:0 duplicate": 3, "pods:0 superseded": 2 });
    await harness.deliver("pods", items.slice(0, 2), { fence: "99", sequence: 1 });
    await harness.deliver("pods", items.slice(0, 1), { epoch: "e0", sequence: 1 });
    expect(await counted(harness)).toEqual({
      "pods:0 applied": 4,
      "pods:0 duplicate": 3,
      "pods:0 superseded": 2,
      "pods:0 fenced": 2,
      "pods:0 otherEpoch": 1,
    });
    const [tally] = await harness.store.tallies();
    expect(tally).toMatchObject({ resource: "pods", lane: 0, received: 12 });
  });

  it("TY1 does not count an item that is returned to the queue or repeated", async () => {
    const harness = await open();
    await harness.deliver("pods", [put(pod("a", "10"))]);
    await harness.synced();
    await harness.deliver("pods", [put(pod("a", "10"))], { fence: "101", sequence: 1 });
    expect(await counted(harness)).toEqual({});
    await harness.seed("pods", [put(pod("b", "10"))]);
    // The lookup of the second item is outdated.
    const stale = { ...put(pod("b", "30")), expected: { rv: "9", uid: "other" } };
    expect(await harness.deliver("pods", [put(pod("a", "20")), stale, put(pod("c", "31"))], { asRead: true })).toMatchObject({
      kind: "retry",
      index: 1,
    });
    expect(await counted(harness)).toEqual({ "pods:0 applied": 2 });
  });

  it("TY1 counts rows that a manifest removes, not rows that it only lists", async ({ harness }) => {
    await harness.seed("pods", [put(pod("a", "10")), put(pod("b", "11"))]);
    await harness.openGeneration("pods");
    expect((await harness.manifest("pods", [{ key: "shop/a", uid: pod("a", "10").uid, rv: "10" }], "90")).kind).toBe("applied");
    expect(await counted(harness)).toEqual({ "pods:0 applied": 3 });
    await harness.deliver("pods", [], { kind: "W", watermark: "95" });
    expect(await counted(harness)).toEqual({ "pods:0 applied": 3 });
  });

  it("TY1 counts quarantined and dead items as received, except those of an unknown lane", async ({ harness }) => {
    const entry = { what: "x", where: "y", why: "z", atMs: 0 };
    await harness.store.quarantine(entry);
    await harness.store.quarantine(entry, { resource: "deployments", lane: 0, fate: "quarantined", items: 1 });
    await harness.store.quarantine(entry, { resource: "pods", lane: 7, fate: "dead", items: 12 });
    await harness.store.quarantine(entry, { fate: "dead", items: 1 });
    expect(await counted(harness)).toEqual({ "deployments:0 quarantined": 1, "pods:7 dead": 12, "unknown:0 dead": 1 });
  });

  it("TY1 keeps all counts in a new epoch, and separates them by cluster", async ({ harness }) => {
    await harness.seed("pods", [put(pod("a", "10"))]);
    const record = await harness.store.epoch();
    if (record) await harness.store.openEpoch({ ...record, epoch: "e2" }, record.epoch);
    expect(await counted(harness)).toEqual({ "pods:0 applied": 1 });
    const other = await harness.fixture.beside({ cluster: "another" });
    expect(await other.tallies()).toEqual([]);
  });
}
