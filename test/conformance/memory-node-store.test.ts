/** The memory NodeStore: the port's suite, and the immediate detection of a row that was changed in place. */
import { describe, expect, it } from "vitest";

import { createMemoryNodeStore } from "../../shared/node-agent/memory/node-store.ts";
import { nodeStoreConformance } from "./node-store.ts";

nodeStoreConformance("memory", async () => ({ store: createMemoryNodeStore(), close: async () => {} }));

describe("the memory node store", () => {
  it("NS3 freezes its rows", async () => {
    const store = createMemoryNodeStore();
    await store.update("staticPods", "web_shop", () => ({ waitingUids: ["u1"] }));
    const row = await store.read("staticPods", "web_shop");
    expect(() => Object.assign(row?.waitingUids ?? [], ["u2"])).toThrow(TypeError);
  });

  it("returns rows that later changes do not modify", async () => {
    const store = createMemoryNodeStore();
    await store.update("staticPods", "web_shop", () => ({ waitingUids: ["u1"] }));
    const before = await store.rows("staticPods");
    await store.update("staticPods", "web_shop", () => ({ waitingUids: ["u2"] }));
    await store.update("staticPods", "db_shop", () => ({ waitingUids: [] }));
    const after = await store.rows("staticPods");
    await store.update("staticPods", "db_shop", () => undefined);
    expect([before, after, await store.rows("staticPods")]).toEqual([
      new Map([["web_shop", { waitingUids: ["u1"] }]]),
      new Map([
        ["web_shop", { waitingUids: ["u2"] }],
        ["db_shop", { waitingUids: [] }],
      ]),
      new Map([["web_shop", { waitingUids: ["u2"] }]]),
    ]);
  });
});
