/** The memory Store: the conformance suite of Stores. */
import { describe, expect, it } from "vitest";

import { createMemoryData, type MemoryData } from "../../shared/store/memory/store/data.ts";
import { spoil } from "../../shared/store/memory/store/forged.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import { cachedPod, put } from "../support/builders.ts";
import { storeDifferential } from "./store-differential.ts";
import { storeConformance, type StoreFixture, type StoreFixtureOptions } from "./store.ts";
import { createServerClock } from "../harness/store/server-clock.ts";
import { HOLE_LIMIT_MS, IDENTITY, StoreHarness } from "../harness/store/store.ts";

/** 2026-03-01T10:00:00Z. */
const START_MS = 1_772_359_200_000;

async function memoryFixture(options: StoreFixtureOptions): Promise<StoreFixture> {
  const clock = createServerClock(START_MS);
  const data: MemoryData = createMemoryData();
  return {
    store: createMemoryStore({ ...options, clock }, data),
    clock,
    beside: async ({ cluster, ...extra }) =>
      createMemoryStore({ ...options, ...extra, clock }, cluster === undefined ? data : createMemoryData()),
    spoil: async (forged) => spoil(data, forged),
    flush: async () => {
      data.epoch = undefined;
      data.forgeries = [];
      data.events = createMemoryData().events;
      data.tallies.clear();
      data.guard = createMemoryData().guard;
    },
    snapshot: async () => {
      const [copy, tallies, { guard }] = [structuredClone(data.epoch), [...data.tallies], data];
      return async () => {
        data.epoch = copy;
        data.guard = guard;
        data.tallies.clear();
        for (const [place, tally] of tallies) data.tallies.set(place, tally);
      };
    },
    failOver: async () => void (data.primary += "'"),
    lose: async (resource) => void data.epoch?.resources.delete(resource),
    kept: async (epoch) => (data.epoch?.record.epoch === epoch ? data.epoch.resources.size : 0),
    close: async () => {},
  };
}

storeConformance("memory", memoryFixture);
// Compares the memory Store with itself, to check that it is deterministic and that the random history runs. Other adapters are compared
// with it elsewhere.
storeDifferential("memory", memoryFixture, memoryFixture, { seeds: [1, 2, 3], steps: 300 });

describe("the memory Store", () => {
  const harness = async () =>
    new StoreHarness(await memoryFixture({ deployment: "d", cluster: "c", identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS })).synced();

  it("throws when created without a clock", () => {
    expect(() => createMemoryStore({ deployment: "d", cluster: "c", identity: IDENTITY, holeLimitMs: 1 })).toThrow(TypeError);
  });

  it("[informer T85] freezes its inputs and outputs", async () => {
    const object = cachedPod({ resourceVersion: "10", labels: { app: "web" } });
    const opened = await harness();
    await opened.deliver("pods", [put(object)]);
    expect(() => Object.assign(object.labels ?? {}, { app: "evil" })).toThrow(TypeError);
    const row = await opened.row("pods", "shop/web-1");
    expect(() => Object.assign(row ?? {}, { rv: "999" })).toThrow(TypeError);
  });

  it("rejects two items with one key, too many items, and a put without its object", async () => {
    const opened = await harness();
    const { object: _, ...bare } = put(cachedPod({ resourceVersion: "10" }));
    await expect(opened.deliver("pods", [put(cachedPod()), put(cachedPod())])).rejects.toThrow(RangeError);
    await expect(
      opened.deliver(
        "pods",
        Array.from({ length: 101 }, (_each, index) => put(cachedPod({ name: `p${index}` }))),
      ),
    ).rejects.toThrow(RangeError);
    await expect(opened.deliver("pods", [bare])).rejects.toThrow(TypeError);
  });
});
