/** Lanes that grow (LG1 to LG3 of shared/store/lane.ts; informer §10.9). */
import { expect, it } from "vitest";

import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { laneOf } from "../../../shared/store/lane.ts";
import { cachedPod, cachedReplicaSet, listed, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { EPOCH, FIRST_BEAT, IDENTITY, ONE_LANE, StoreHarness } from "../../harness/store/store.ts";
import type { Lanes } from "../../harness/store/store.ts";

const FOUR: Lanes = { ...ONE_LANE, pods: 4 };
const pod = (number: number, resourceVersion = "10") => cachedPod({ name: `web-${number}`, resourceVersion });
const keyOf = (number: number) => `shop/web-${number}`;
const NUMBERS = Array.from({ length: 12 }, (_, number) => number);

/** Raises the fence of all resources; one lane of pods grows to four. Returns a harness with the new numbers. */
async function grown(harness: StoreHarness, fence = "101") {
  const opened = await harness.store.openFence({ epoch: harness.epoch, fence, resource: "pods", lanes: 1, lanesMax: 4, grows: true });
  if (opened.kind !== "open") throw new Error(JSON.stringify(opened));
  const after = new StoreHarness(harness.fixture, opened.lanes.length === 4 ? FOUR : ONE_LANE);
  Object.assign(after, { epoch: harness.epoch, fence });
  for (const resource of CACHED_RESOURCES) if (resource !== "pods") await after.openFence(resource, fence);
  return { after, opened };
}

async function rowsOf({ store }: StoreHarness): Promise<readonly (readonly string[])[]> {
  const lanes: string[][] = [];
  for (let lane = 0, count = 1; lane < count; lane++) {
    const read = await store.readLane("pods", lane);
    count = read.lanes;
    lanes.push(read.rows.map(({ key }) => key));
  }
  return lanes;
}

export function laneGrowthCases(open: OpenStore): void {
  it("LG1 the epoch's record keeps the number of lanes with which it begins, and an older build's has none", async () => {
    const { store } = await open();
    await store.openEpoch(EPOCH);
    expect(await store.epoch()).not.toHaveProperty("lanes");
    await store.openEpoch({ ...EPOCH, epoch: "e2", lanes: 1 }, "e1");
    expect(await store.epoch()).toMatchObject({ epoch: "e2", lanes: 1 });
    await store.openEpoch({ ...EPOCH, epoch: "e3" }, "e2");
    expect(await store.epoch()).not.toHaveProperty("lanes");
  });

  it("LG2 one lane grows to four with the fence: rows, watermark, list and open gate stay", async () => {
    const harness = await (await open()).synced();
    await harness.relist(
      "pods",
      NUMBERS.map((number) => pod(number)),
      "20",
      (object) => put(object as ReturnType<typeof pod>),
    );
    await harness.seed("pods", [remove(pod(3), "30")]);
    expect(await harness.health("pods")).toMatchObject({ rows: 11, watermarks: ["30"], applied: [expect.any(Number)] });
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });

    const { after, opened } = await grown(harness);
    expect(opened).toMatchObject({ state: "SYNCED", syncedGeneration: 2 });
    expect(opened.lanes.map(({ last, watermark, frozen }) => ({ last, watermark, frozen }))).toEqual(
      Array.from({ length: 4 }, () => ({ last: 0, watermark: "30", frozen: false })),
    );
    expect(await rowsOf(after)).toEqual(
      [0, 1, 2, 3].map((lane) =>
        NUMBERS.filter((n) => n !== 3 && laneOf(keyOf(n), 4) === lane)
          .map(keyOf)
          .toSorted(),
      ),
    );
    expect(await after.store.gate("replicaset")).toEqual({ open: true });
    expect(await after.health("pods")).not.toHaveProperty("rows");
    // The stream continues in the new lanes.
    await after.seed("pods", [put(pod(5, "40"))]);
    expect(await after.watermark("pods", laneOf(keyOf(5), 4))).toBe("40");
    expect(await after.row("pods", keyOf(5))).toMatchObject({ rv: "40" });
  });

  it("LG2 drops what was sent for one lane, data, manifests and heartbeats, also again", async () => {
    const harness = await (await open()).synced();
    await harness.seed("pods", [put(pod(1))]);
    const { after } = await grown(harness);
    expect(await harness.deliver("pods", [put(pod(2, "50"))])).toEqual({ kind: "dropped", why: "fence" });
    expect(await harness.deliver("pods", [put(pod(2, "50"))], { sequence: 1 })).toEqual({ kind: "dropped", why: "fence" });
    expect(await harness.manifest("pods", [], "60")).toEqual({ kind: "dropped", why: "fence" });
    const lanes = [{ resource: "pods", lane: 0, sequence: 2, rv: "70" }] as const;
    expect(await harness.store.heartbeat({ epoch: harness.epoch, fence: harness.fence, sentMs: 1, lanes })).toEqual({
      kind: "dropped",
      why: "fence",
    });
    expect((await rowsOf(after)).flat()).toEqual([keyOf(1)]);
    expect(await after.watermark("pods")).toBe("10");
  });

  it("LG2 tombstones move: a late write-through of a deleted object stays out, with the number of lanes before growth", async () => {
    const harness = await (await open()).synced();
    await harness.seed("replicasets", [put(cachedReplicaSet())]);
    await harness.seed("pods", [put(pod(7, "10")), put(pod(8, "10"))]);
    // Applied out of order, so that the watermark stays at 10.
    await harness.deliver("pods", [remove(pod(7), "30"), remove(pod(8), "30")], { sequence: harness.nextSequence("pods") + 1 });
    const beside = await harness.fixture.beside({ identity: IDENTITY }); // has read with one lane
    expect((await beside.readIndex({ rows: [{ resource: "pods", key: keyOf(7) }] })).rows).toEqual([]);
    const { after } = await grown(harness);
    for (const number of [7, 8]) {
      await after.writeThrough(after.run("replicaset", "shop/web"), "pods", [put(pod(number, "20"))], { items: [put(pod(number, "20"))] });
      expect(await after.row("pods", keyOf(number))).toBeUndefined();
    }
    await after.seed("pods", [put(pod(7, "40"))]);
    expect((await beside.readIndex({ rows: [{ resource: "pods", key: keyOf(7) }] })).rows.map(({ row }) => row.rv)).toEqual(["40"]);
  });

  it("LG2 a lane that lacks a listed object stays frozen in all lanes", async () => {
    const harness = await (await open()).synced();
    await harness.openGeneration("pods");
    expect(await harness.manifest("pods", [listed(pod(1))], "20")).toEqual({ kind: "needed", keys: [keyOf(1)] });
    const { after } = await grown(harness);
    expect(await after.health("pods")).toMatchObject({ frozenLanes: [0, 1, 2, 3], watermarks: ["0", "0", "0", "0"] });
    await after.relist("pods", [pod(1)], "20", (object) => put(object as ReturnType<typeof pod>));
    expect(await after.health("pods")).toMatchObject({ frozenLanes: [], needed: [], syncedGeneration: 3 });
  });

  it("LG2 a repeated call changes nothing, the same fence does not grow, and no lane goes away", async () => {
    const harness = await (await open()).synced();
    const request = { epoch: harness.epoch, resource: "pods", lanes: 1, lanesMax: 4, grows: true } as const;
    expect(await harness.store.openFence({ ...request, fence: harness.fence })).toMatchObject({ kind: "open", lanes: [{ lane: 0 }] });
    const { after, opened } = await grown(harness);
    await after.seed("pods", [put(pod(1, "40"))]);
    const lane = laneOf(keyOf(1), 4);
    const again = await harness.store.openFence({ ...request, fence: after.fence });
    expect(again).toMatchObject({ ...opened, lanes: { length: 4, [lane]: { last: 1, watermark: "40" } } });
    for (const grows of [true, false])
      expect(await harness.store.openFence({ ...request, grows, fence: "102" })).toMatchObject({ kind: "open", lanes: { length: 4 } });
  });

  it("LG3 a leader adopts one lane or its own number, and no other build's", async () => {
    const harness = await (await open(FOUR)).synced();
    const request = { epoch: harness.epoch, resource: "pods", fence: "101" } as const;
    expect(await harness.store.openFence({ ...request, lanes: 1, lanesMax: 4 })).toMatchObject({ kind: "open", lanes: { length: 4 } });
    expect(await harness.store.openFence({ ...request, lanes: 8 })).toEqual({ kind: "otherLanes", lanes: 4 });
    for (const grows of [true, false])
      expect(await harness.store.openFence({ ...request, lanes: 1, lanesMax: 8, grows })).toEqual({ kind: "otherLanes", lanes: 4 });
    const small = await (await open()).synced();
    expect(await small.store.openFence({ ...request, lanes: 4 })).toEqual({ kind: "otherLanes", lanes: 1 }); // an older build
    expect(await small.store.openFence({ ...request, lanes: 4, lanesMax: 4 })).toMatchObject({ kind: "open", lanes: { length: 1 } });
  });

  it("LG2 a Store set back to before the growth rejects messages of the new lanes until a leader opens it again", async ({ skip }) => {
    const harness = await (await open()).synced();
    await harness.seed(
      "pods",
      NUMBERS.map((number) => put(pod(number))),
    );
    if (!harness.fixture.snapshot) return skip("the adapter cannot restore a copy");
    const restore = await harness.fixture.snapshot();
    const { after } = await grown(harness);
    await after.seed("pods", [put(pod(1, "40"))]);
    await restore();
    for (const number of NUMBERS) expect(await after.deliver("pods", [put(pod(number, "50"))])).toEqual({ kind: "notOpen" });
    expect(await after.store.checkpoint({ epoch: after.epoch, fence: after.fence, sent: {}, ...FIRST_BEAT })).toMatchObject({
      kind: "setBack",
    });
    const { after: again } = await grown(harness, "103");
    expect((await rowsOf(again)).flat().toSorted()).toEqual(NUMBERS.map(keyOf).toSorted());
    expect(await again.deliver("pods", [put(pod(1, "50"))])).toMatchObject({ kind: "applied", outcomes: ["changed"] });
  });

  it("LG2 once a Store set back to before the growth has a greater fence, it drops messages of the lost fence, also of lanes that it lacks", async ({
    skip,
  }) => {
    const harness = await (await open()).synced();
    if (!harness.fixture.snapshot) return skip("the adapter cannot restore a copy");
    const restore = await harness.fixture.snapshot();
    const { after } = await grown(harness);
    await restore();
    await harness.raiseFence("103");
    expect(await harness.health("pods")).toMatchObject({ watermarks: { length: 1 } });
    const dropped = { kind: "dropped", why: "fence" };
    for (const lane of [0, 1, 2, 3]) {
      expect(await after.deliver("pods", [], { kind: "W", lane, watermark: "50" }), `lane ${lane}`).toEqual(dropped);
      const header = after.header("pods", { lane, generation: 3 });
      expect(await after.store.stashManifest(header, []), `lane ${lane}`).toEqual(dropped);
      expect(await after.store.applyManifest(header, { listRV: "60", rows: [], sweep: [], counts: [] }), `lane ${lane}`).toEqual(dropped);
    }
    for (const number of NUMBERS) expect(await after.deliver("pods", [put(pod(number, "50"))])).toEqual(dropped);
    expect(await harness.health("pods")).toMatchObject({ state: "SYNCED", rows: 0 });
    await harness.seed("pods", [put(pod(1, "50"))]);
  });
}
