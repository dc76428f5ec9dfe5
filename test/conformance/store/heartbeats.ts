/** Heartbeats of quiet lanes (HB1–HB4). Each was broken in test/simulation/heartbeats before it was built. */
import { expect, it } from "vitest";
import type { OpenStore } from "../store.ts";
import type { Heartbeat, HeartbeatLane } from "../../../shared/store/ports/store.ts";
import { cachedPod, listed, put, remove } from "../../support/builders.ts";
import { HOLE_LIMIT_MS, outcomes } from "../../harness/store/store.ts";
import type { StoreHarness } from "../../harness/store/store.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";

const SILENT_MS = 61_000;

export function heartbeatCases(open: OpenStore): void {
  const synced = async (): Promise<StoreHarness> => await (await open()).synced();

  it("HB3 keeps gates open and raises the watermark of lanes whose messages are all applied", async () => {
    const harness = await synced();
    await harness.fixture.clock.advance(SILENT_MS);
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
    expect(await beat(harness, { lanes: lanesOf(harness, "70") })).toEqual({ kind: "applied", ahead: [] });
    await harness.health("pods");
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
    expect(await harness.watermark("pods")).toBe("70");
    expect(await beat(harness, { lanes: lanesOf(harness, "60") })).toMatchObject({ kind: "applied" });
    expect(await harness.watermark("pods"), "it never falls").toBe("70");
  });

  it("HB3 consumes no sequence number", async () => {
    const harness = await synced();
    const sequence = harness.nextSequence("pods");
    await beat(harness, { lanes: lanesOf(harness, "70") });
    expect(await harness.health("pods")).toMatchObject({ applied: [sequence - 1] });
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "80" }))], { sequence });
    expect(await harness.watermark("pods")).toBe("80");
  });

  it("HB3 [informer A12] removes tombstones up to the watermark", async () => {
    const harness = await synced();
    const pod = cachedPod({ resourceVersion: "10" });
    await harness.deliver("pods", [remove(pod, "30")], { kind: "L", listRV: "5" });
    expect(outcomes(await harness.deliver("pods", [put(pod)], { kind: "L", listRV: "10" }))).toEqual(["late"]);
    await beat(harness, { lanes: lanesOf(harness, "30") });
    expect(outcomes(await harness.deliver("pods", [put(pod)], { kind: "L", listRV: "10" }))).toEqual(["changed"]);
  });

  it("HB3 does not move the watermark of a frozen lane", async () => {
    const harness = await synced();
    await harness.openGeneration("pods");
    expect(await harness.manifest("pods", [listed(cachedPod({ resourceVersion: "20" }))], "30")).toMatchObject({ kind: "needed" });
    expect(await beat(harness, { lanes: lanesOf(harness, "40") })).toEqual({ kind: "applied", ahead: [] });
    expect(await harness.watermark("pods")).toBe("0");
  });

  it("HB4 opens a hole in a lane whose earlier messages are missing, and neither its gate nor its watermark", async () => {
    const harness = await synced();
    await harness.fixture.clock.advance(SILENT_MS);
    const lanes = lanesOf(harness, "70");
    const ahead = lanes.map((each) => (each.resource === "pods" ? { ...each, sequence: each.sequence + 1 } : each));
    expect(await beat(harness, { lanes: ahead })).toEqual({ kind: "applied", ahead: ahead.filter(({ resource }) => resource === "pods") });
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false, reason: expect.stringContaining("silent") as string });
    expect(await harness.health("pods")).toMatchObject({ holeForMs: 0, watermarks: ["0"], applied: [lanes.at(-1)?.sequence] });
    expect(await harness.watermark("replicasets"), "other lanes of the heartbeat are applied").toBe("70");
    await harness.fixture.clock.advance(HOLE_LIMIT_MS);
    await beat(harness, { lanes: ahead });
    expect((await harness.health("pods"))?.holeForMs, "the hole keeps its age").toBe(HOLE_LIMIT_MS);
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "65" }))]);
    expect((await harness.health("pods"))?.holeForMs).toBeUndefined();
    expect(await harness.store.gate("replicaset")).toEqual({ open: true });
  });

  it("HB3 a heartbeat that newer messages have overtaken changes nothing", async () => {
    const harness = await synced();
    const lanes = lanesOf(harness, "70");
    await harness.seed("pods", [put(cachedPod({ resourceVersion: "65" }))]);
    expect(await beat(harness, { lanes })).toEqual({ kind: "applied", ahead: [] });
    expect(await harness.watermark("pods")).toBe("65");
  });

  it("HB2 applies a heartbeat once, and none that is older than an applied one of its fence", async () => {
    const harness = await synced();
    const first: Heartbeat = { epoch: harness.epoch, fence: harness.fence, sentMs: 5_000, lanes: lanesOf(harness, "70") };
    expect(await harness.store.heartbeat(first)).toMatchObject({ kind: "applied" });
    await harness.fixture.clock.advance(SILENT_MS);
    expect(await harness.store.heartbeat(first)).toEqual({ kind: "late" });
    expect(await harness.store.heartbeat({ ...first, sentMs: 4_999 })).toEqual({ kind: "late" });
    expect(await harness.store.gate("replicaset")).toMatchObject({ open: false });
    await harness.raiseFence("200");
    expect(await harness.store.heartbeat({ ...first, fence: "200", sentMs: 1, lanes: lanesOf(harness, "70") })).toMatchObject({
      kind: "applied",
    });
  });

  it("HB1 drops the heartbeat of another epoch or fence, which then hides no later one", async () => {
    const harness = await open();
    const lanes = lanesOf(harness, "70");
    expect(await beat(harness, { lanes })).toEqual({ kind: "noEpoch" });
    await harness.synced();
    expect(await beat(harness, { lanes, epoch: "e-other" })).toEqual({ kind: "dropped", why: "epoch" });
    for (const fence of ["99", "101"])
      expect(await beat(harness, { lanes: lanesOf(harness, "70"), fence })).toEqual({ kind: "dropped", why: "fence" });
    expect(await harness.watermark("pods")).toBe("0");
    const sentMs = 7_000;
    const own = { epoch: harness.epoch, fence: harness.fence, sentMs, lanes: lanesOf(harness, "70") };
    expect(await harness.store.heartbeat(own)).toMatchObject({ kind: "applied" });
    expect(await harness.store.heartbeat({ ...own, fence: "99", sentMs: sentMs + 1 })).toEqual({ kind: "dropped", why: "fence" });
    expect(await harness.store.heartbeat(own)).toEqual({ kind: "late" });
  });

  it("HB1 applies the lanes of the heartbeat's fence and skips the others", async () => {
    const harness = await synced();
    await harness.openFence("pods", "200");
    expect(await beat(harness, { lanes: lanesOf(harness, "70") })).toEqual({ kind: "applied", ahead: [] });
    expect(await harness.store.readLane("pods", 0)).toMatchObject({ watermark: "0" });
    expect(await harness.store.readLane("replicasets", 0)).toMatchObject({ watermark: "70" });
  });
}

let times = 10_000;

/** Sends a heartbeat that is later than all before. */
async function beat(
  harness: StoreHarness,
  given: Pick<Heartbeat, "lanes"> & Partial<Heartbeat>,
): ReturnType<StoreHarness["store"]["heartbeat"]> {
  return await harness.store.heartbeat({ epoch: harness.epoch, fence: harness.fence, sentMs: ++times, ...given });
}

/** Every resource's lane at its last sequence number. */
function lanesOf(harness: StoreHarness, rv: string): readonly HeartbeatLane[] {
  return CACHED_RESOURCES.map((resource) => ({ resource, lane: 0, sequence: harness.nextSequence(resource) - 1, rv }));
}
