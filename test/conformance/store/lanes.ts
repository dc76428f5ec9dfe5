/** Messages of a lane: fences, sequences, watermarks (informer §11.3 A1–A3, A11–A13; IX5, IX6). */
import { expect, it as base } from "vitest";

import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { ItemChange } from "../../../shared/store/ports/store.ts";
import { cachedPod, cachedReplicaSet, effect, listed, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { ONE_LANE, outcomes, rung, type StoreHarness } from "../../harness/store/store.ts";

const pod = (resourceVersion: string) => cachedPod({ resourceVersion });

export function laneCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  it("IX5 [informer A1] drops a message of another epoch, and returns it to the queue while there is no epoch", async () => {
    const harness = await open();
    expect(await harness.deliver("pods", [put(pod("10"))])).toEqual({ kind: "noEpoch" });
    await harness.synced();
    expect(await harness.deliver("pods", [put(pod("10"))], { epoch: "e0" })).toEqual({ kind: "dropped", why: "epoch" });
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
  });

  it("IX5 [informer A2] [informer T54] drops a message with an older fence, and returns one with a newer fence to the queue", async ({
    harness,
  }) => {
    const before = { ...(await harness.health("pods")) };
    for (const fence of ["99", "9"]) {
      expect(await harness.deliver("pods", [put(pod("10"))], { fence, sequence: 2 })).toEqual({ kind: "dropped", why: "fence" });
      expect(await harness.manifest("pods", [], "90", { fence, sequence: 2 })).toEqual({ kind: "dropped", why: "fence" });
      expect(await harness.store.stashManifest(harness.header("pods", { fence, sequence: 2, lane: 0 }), [])).toEqual({
        kind: "dropped",
        why: "fence",
      });
      expect(await harness.deliver("pods", [], { fence, sequence: 2, kind: "W", watermark: "90" })).toEqual({
        kind: "dropped",
        why: "fence",
      });
    }
    for (const fence of ["101", "1000"])
      expect(await harness.deliver("pods", [put(pod("10"))], { fence, sequence: 1 })).toEqual({ kind: "notOpen" });
    expect(await harness.health("pods")).toEqual(before);
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
  });

  it("[informer A2] returns messages of a resource whose fence was never opened to the queue", async () => {
    const harness = await open();
    await harness.store.openEpoch({
      epoch: harness.epoch,
      clusterUid: "c",
      projection: 1,
      digestPrefix: "k1.f1",
      hashLayout: "v1.36",
      fence: harness.fence,
    });
    expect(await harness.deliver("pods", [put(pod("10"))])).toEqual({ kind: "notOpen" });
  });

  it("IX5 [informer A3] [informer T28] [informer T67] a redelivered message changes nothing, and returns doorbells for keys still queued", async ({
    harness,
  }) => {
    const [clean, dirty] = [cachedReplicaSet({ name: "clean" }), cachedReplicaSet({ name: "dirty" })];
    await harness.seed("replicasets", [put(clean, { counted: true }), put(dirty, { counted: true })]);
    const sequence = harness.nextSequence("pods");
    const items = [put(pod("10"), { effects: [effect("replicaset", clean), effect("replicaset", dirty)] })];
    expect(rung(await harness.deliver("pods", items, { sequence }))).toEqual(["replicaset shop/clean", "replicaset shop/dirty"]);
    const { run } = await harness.taken("replicaset", "shop/clean");
    await harness.store.done(run, { kind: "ok" });

    await harness.seed("pods", [remove(pod("10"), "11")]);
    const again = await harness.deliver("pods", items, { sequence });
    expect(again.kind).toBe("duplicate");
    expect(rung(again)).toEqual(["replicaset shop/dirty"]);
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
    expect(await harness.dirty("replicaset")).toEqual(["shop/dirty"]);
  });

  it("[informer A3] treats a message that was already applied out of order as a duplicate", async ({ harness }) => {
    const sequence = harness.nextSequence("pods") + 1;
    const items = [put(pod("10"))];
    expect(outcomes(await harness.deliver("pods", items, { sequence, kind: "L" }))).toEqual(["changed"]);
    await harness.seed("pods", [remove(pod("10"), "11")], { sequence: sequence + 1 });
    expect(await harness.deliver("pods", items, { sequence, kind: "L" })).toMatchObject({ kind: "duplicate" });
    expect(await harness.row("pods", "shop/web-1")).toBeUndefined();
  });

  it("[informer T25b] applies a half-applied message again; its effects occur once, and the sequence advances by one", async ({
    harness,
  }) => {
    const rss = [1, 2, 3, 4, 5].map((index) => cachedReplicaSet({ name: `rs-${index}` }));
    await harness.seed(
      "replicasets",
      rss.map((rs) => put(rs, { counted: true })),
    );
    const items = rss.map((rs, index) =>
      put(cachedPod({ name: `web-${index}`, resourceVersion: `${index + 10}` }), { effects: [effect("replicaset", rs)] }),
    );
    const sequence = harness.nextSequence("pods");
    await harness.seed("pods", items.slice(0, 2), { sequence, commit: false }); // the applier is then killed
    expect(await harness.watermark("pods")).toBe("0");
    for (const key of await harness.dirty("replicaset"))
      await harness.store.done((await harness.taken("replicaset", key)).run, { kind: "ok" });

    const whole = await harness.deliver("pods", items, { sequence });
    expect(outcomes(whole)).toEqual(["same", "same", "changed", "changed", "changed"]);
    expect(rung(whole)).toEqual(["replicaset shop/rs-3", "replicaset shop/rs-4", "replicaset shop/rs-5"]);
    expect(await harness.watermark("pods")).toBe("14");
    expect(await laneOf(harness)).toMatchObject({ last: sequence });
  });

  it("[informer A15] a call changes nothing if the preceding call of its message is missing from the Store", async ({ harness }) => {
    const { store } = harness;
    const header = harness.header("pods", { lane: 0 });
    const [first, second] = [put(cachedPod({ name: "a", resourceVersion: "10" })), put(cachedPod({ name: "b", resourceVersion: "11" }))];
    const commit = { watermark: "11" };
    expect(await store.applyPack(header, [first], { counts: [], part: "1" })).toMatchObject({ kind: "applied" });
    expect(await store.applyPack(header, [second], { counts: [], commit, part: "3", after: "2" })).toEqual({ kind: "setBack" });
    expect(await harness.row("pods", "shop/b")).toBeUndefined();
    const repeated = await store.applyPack(header, [first], { counts: [], part: "1", after: "0" });
    expect(repeated, "sent again by a client that reconnected").toMatchObject({ kind: "applied", outcomes: ["same"] });
    expect(await store.applyPack(header, [second], { counts: [], commit, part: "2", after: "1" })).toMatchObject({ kind: "applied" });
    expect(await harness.watermark("pods")).toBe("11");
    expect(await store.applyPack(header, [second], { counts: [], commit, part: "3", after: "2" })).toMatchObject({ kind: "duplicate" });
  });

  it("[informer A15] a call that commits or applies no item is not recorded as the preceding call", async ({ harness }) => {
    const { store } = harness;
    const next = () => harness.header("pods", { lane: 0, sequence: harness.nextSequence("pods") });
    const stale: ItemChange = { ...put(pod("10")), expected: { rv: "9", uid: "other" } };
    const retried = await store.applyPack(next(), [stale], { counts: [], part: "1" });
    expect(retried).toMatchObject({ kind: "retry", index: 0 });
    expect(await store.applyPack(next(), [put(pod("10"))], { counts: [], after: "1" })).toEqual({ kind: "setBack" });
    const half = [put(cachedPod({ name: "a", resourceVersion: "10" })), stale];
    expect(await store.applyPack(next(), half, { counts: [], part: "1" })).toMatchObject({ kind: "retry", index: 1 });
    const whole = { counts: [], commit: {}, part: "2", after: "1" };
    expect(await store.applyPack(next(), [], whole)).toMatchObject({ kind: "applied" });
    expect(await store.applyPack({ ...next(), sequence: 9 }, [], { counts: [], after: "2" })).toEqual({ kind: "setBack" });
  });

  it("IX6 [informer A11] [informer T26] [informer T32] the watermark follows the last message without a gap before it, in any order of delivery", async ({
    harness,
  }) => {
    const first = harness.nextSequence("pods");
    const at = (offset: number) => ({ sequence: first + offset });
    // The events of one pod in reverse order: deleted, modified, added.
    await harness.seed("pods", [remove(pod("2"), "3")], at(2));
    expect([await harness.row("pods", "shop/web-1"), await harness.watermark("pods")]).toEqual([undefined, "0"]);
    expect(outcomes(await harness.deliver("pods", [put(pod("2"))], at(1)))).toEqual(["late"]);
    expect([await harness.row("pods", "shop/web-1"), await harness.watermark("pods")]).toEqual([undefined, "0"]);
    expect(outcomes(await harness.deliver("pods", [put(pod("1"))], at(0)))).toEqual(["late"]);
    expect([await harness.row("pods", "shop/web-1"), await harness.watermark("pods")]).toEqual([undefined, "3"]);
    // Sequences 4, 5 and 7 of a batch whose entries 3 and 6 were rejected and sent again.
    for (const [offset, want] of [
      [4, "3"],
      [5, "3"],
      [7, "3"],
      [3, "15"],
      [6, "17"],
    ] as const) {
      await harness.deliver("pods", [put(cachedPod({ name: `p${offset}`, resourceVersion: `${offset + 10}` }))], at(offset));
      expect(await harness.watermark("pods")).toBe(want);
    }
    expect(await laneOf(harness)).toMatchObject({ last: first + 7 });
  });

  it("IX6 [informer A11] events and bookmarks raise the watermark, listed objects do not, and it never falls", async ({ harness }) => {
    await harness.seed("pods", [], { kind: "W", watermark: "50" });
    await harness.seed("pods", [], { kind: "W", watermark: "9" });
    expect(await harness.watermark("pods")).toBe("50");
    await harness.seed("pods", [put(pod("60"))], { kind: "L" });
    expect(await harness.watermark("pods")).toBe("50");
    await harness.seed("pods", [put(pod("70"))]);
    expect(await harness.watermark("pods")).toBe("70");
  });

  it("IX6 a lane's sequence and watermark do not affect other lanes", async () => {
    const harness = await (await open({ ...ONE_LANE, pods: 3 })).synced();
    await harness.seed("pods", [], { kind: "W", lane: 1, watermark: "50" });
    expect((await harness.health("pods"))?.watermarks).toEqual(["0", "50", "0"]);
  });

  it("[informer A12] [informer T32] keeps a tombstone until the watermark has reached it", async ({ harness }) => {
    const first = harness.nextSequence("pods");
    await harness.seed("pods", [remove(pod("3"), "3")], { sequence: first + 2 });
    expect(outcomes(await harness.deliver("pods", [put(pod("1"))], { sequence: first }))).toEqual(["late"]);
    expect(await harness.watermark("pods")).toBe("1");
    expect(outcomes(await harness.deliver("pods", [put(pod("2"))], { sequence: first + 1 }))).toEqual(["late"]);
    expect([await harness.row("pods", "shop/web-1"), await harness.watermark("pods")]).toEqual([undefined, "3"]);
  });

  it("[informer A12] removes a tombstone that was applied out of order when the watermark passes it", async ({ harness }) => {
    const first = harness.nextSequence("pods");
    await harness.seed("pods", [remove(pod("10"), "30")], { sequence: first + 1 });
    expect(outcomes(await harness.deliver("pods", [put(pod("20"))], { kind: "L", sequence: first, commit: false }))).toEqual(["late"]);
    await harness.seed("pods", [], { kind: "W", watermark: "5", sequence: first });
    expect(await harness.watermark("pods")).toBe("30");
    // Applies only to a listed object: A6 does not apply to it, and its tombstone no longer blocks it.
    expect(outcomes(await harness.deliver("pods", [put(pod("20"))], { kind: "L" }))).toEqual(["changed"]);
  });

  it("IX6 [informer A13] [informer T05] a failed manifest freezes the watermark, not the sequence; an applied manifest unfreezes it", async ({
    harness,
  }) => {
    await harness.openGeneration("pods");
    const missing = pod("20");
    expect(await harness.manifest("pods", [listed(missing)], "30")).toEqual({ kind: "needed", keys: ["shop/web-1"] });
    expect(await harness.health("pods")).toMatchObject({ frozenLanes: [0], needed: ["shop/web-1"], watermarks: ["0"] });
    await harness.seed("pods", [put(cachedPod({ name: "late", resourceVersion: "40" }))]);
    expect(await harness.watermark("pods")).toBe("0");
    expect(await laneOf(harness)).toMatchObject({ last: harness.nextSequence("pods") - 1, frozen: true });
    // An event within the window was missed, so that an object missing at the watermark may still exist.
    expect(outcomes(await harness.deliver("pods", [put(missing)], { kind: "L" }))).toEqual(["changed"]);
    expect((await harness.manifest("pods", [listed(missing)], "30")).kind).toBe("applied");
    expect(await harness.health("pods")).toMatchObject({ frozenLanes: [], needed: [], watermarks: ["30"] });
  });

  it("[informer A13] messages after a gap in a frozen lane do not advance the watermark", async ({ harness }) => {
    await harness.openGeneration("pods");
    const first = harness.nextSequence("pods");
    await harness.seed("pods", [put(cachedPod({ name: "ahead", resourceVersion: "40" }))], { sequence: first + 1 });
    expect((await harness.manifest("pods", [listed(pod("20"))], "30", { sequence: first })).kind).toBe("needed");
    expect(await laneOf(harness)).toMatchObject({ last: first + 1, watermark: "0" });
  });

  it("[informer T33] messages in any order and repetition lead to the same rows, and their effects occur once", async () => {
    const rs = cachedReplicaSet();
    const lives: readonly (readonly ItemChange[])[] = ["a", "b", "c"].map((name, index) => {
      const at = (offset: number) => `${100 * index + 10 + offset}`;
      const life = [
        put(cachedPod({ name, resourceVersion: at(0) })),
        put(cachedPod({ name, resourceVersion: at(1) })),
        remove(cachedPod({ name }), at(2)),
        put(cachedPod({ name, uid: "again", resourceVersion: at(3) })),
      ];
      return life.slice(0, 2 + index).map((item) => ({ ...item, effects: [effect("replicaset", rs)] }));
    });
    for (let seed = 1; seed <= 10; seed++) {
      const harness = await (await open()).synced();
      await harness.seed("replicasets", [put(rs, { counted: true })]);
      const first = harness.nextSequence("pods");
      const messages = lives.flat().map((item, index) => ({ item, sequence: first + index }));
      const storm = shuffled([...messages, ...messages, ...messages, ...messages, ...messages], seed);
      let changes = 0;
      for (const { item, sequence } of storm) {
        const answer = await harness.deliver("pods", [item], { sequence });
        if (answer.kind === "applied") changes++;
        else expect(answer.kind).toBe("duplicate");
      }
      expect(changes, `seed ${seed}`).toBe(messages.length);
      const rows = (await harness.store.readLane("pods", 0)).rows;
      expect(
        rows.map((row) => [row.key, row.rv, row.uid]),
        `seed ${seed}`,
      ).toEqual([
        ["shop/a", "11", "uid-a"],
        ["shop/c", "213", "again"],
      ]);
      expect(await harness.watermark("pods")).toBe("213");
    }
  });
}

async function laneOf(harness: StoreHarness) {
  const answer = await harness.openFence("pods");
  if (answer.kind !== "open") throw new Error(answer.kind);
  return answer.lanes[0];
}

function shuffled<T>(values: readonly T[], seed: number): readonly T[] {
  const random = createSeededRandom(seed);
  return values
    .map((value) => ({ value, at: random.next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
