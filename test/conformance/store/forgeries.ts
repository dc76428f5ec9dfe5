/** The record of forged messages: it identifies their senders' messages, is bounded, and does not depend on the cache. */
import { expect, it } from "vitest";
import type { OpenStore } from "../store.ts";
import { EPOCH } from "../../harness/store/store.ts";

const entry = (index: number) => ({
  messageId: `m${index}`,
  where: "delta queue",
  why: "its MAC is wrong",
  bytes: index,
  atMs: 1_000 + index,
});

export function forgeryCases(open: OpenStore): void {
  it("keeps the last 1,000 records of forged messages, oldest first", async () => {
    const { store } = await (await open()).open();
    expect(await store.forgeries()).toEqual([]);
    for (let index = 0; index < 1_003; index++) await store.noteForgery(entry(index));
    const kept = await store.forgeries();
    expect(kept).toHaveLength(1_000);
    expect([kept[0], kept.at(-1)]).toEqual([entry(3), entry(1_002)]);
  });

  it("truncates every text of a record, so that no sender can fill the Store", async () => {
    const { store } = await (await open()).open();
    const long = "x".repeat(100_000);
    await store.noteForgery({ ...entry(1), messageId: long, where: long, why: long });
    const cut = "x".repeat(200);
    expect(await store.forgeries()).toEqual([{ ...entry(1), messageId: cut, where: cut, why: cut }]);
  });

  it("keeps the records across epochs, separately from the quarantine", async () => {
    const harness = await open();
    await harness.store.noteForgery(entry(1));
    await harness.open();
    await harness.store.quarantine({ what: "pods shop/a", where: "lane 1, sequence 1", why: "no uid", atMs: 0 });
    await harness.store.noteForgery(entry(2));
    expect(await harness.store.openEpoch({ ...EPOCH, epoch: "e2" }, "e1")).toEqual({ kind: "opened" });
    expect(await harness.store.forgeries()).toEqual([entry(1), entry(2)]);
    expect(await harness.store.quarantined()).toEqual([]);
  });

  it("does not return records of another cluster", async () => {
    const harness = await (await open()).open();
    const beside = await harness.fixture.beside({ cluster: "cluster-of-another" });
    await beside.noteForgery(entry(1));
    expect(await harness.store.forgeries()).toEqual([]);
    expect(await beside.forgeries()).toEqual([entry(1)]);
    await beside.close();
  });
}
