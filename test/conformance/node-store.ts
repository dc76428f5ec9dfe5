/** The conformance suite of NodeStore (shared/node-agent/ports/node-store.ts). */
import { afterEach, describe, expect, it } from "vitest";

import type { Agenda, CachedStatus, NodeStore, NodeTable, NodeTables, WorkerRecord } from "../../shared/node-agent/ports/node-store.ts";

export interface NodeStoreUnderTest {
  /** An empty store. */
  readonly store: NodeStore;
  close(): Promise<void>;
}

const AGENDAS: readonly Agenda[] = ["pods", "probes"];

const WORKER: WorkerRecord = {
  fullName: "web_shop",
  isStatic: false,
  syncedAtMs: 1_772_359_200_000,
  gracePeriodSeconds: 0,
  pending: { kind: "create", sinceMs: 1_772_359_200_000 },
  abnormalTerminations: [{ phase: "Failed", reason: "Evicted", message: 'süß, "quoted"\nand {braces}', isDisruption: true }],
  token: 7,
};

const STATUS: CachedStatus = {
  status: { phase: "Running", podIPs: [{ ip: "10.1.0.7" }], containerStatuses: [], conditions: [{ type: "Ready", status: "True" }] },
  version: 2,
  sentVersion: 1,
  changedAtMs: 1_772_359_200_123,
};

const ROWS: { readonly [T in NodeTable]: NodeTables[T] } = {
  workers: WORKER,
  staticPods: { startedUid: "u1", waitingUids: ["u2", "u3"] },
  statuses: STATUS,
  reasons: { app: { reason: "ErrImagePull", message: "" } },
  restarts: { app: "ab12", constructor: "cd34" },
  allocations: {
    containers: { app: { allocated: { requests: { cpu: "100m" } }, actuated: {} } },
    pending: { reason: "Deferred", message: "no room", observedGeneration: 2, sinceMs: 1_772_359_200_000 },
  },
  backOffs: { delayMs: 20_000, lastUpdateMs: 1_772_359_200_000, cause: "ErrImagePull: none" },
  probes: { containerId: "", run: 0 },
};
const TABLES = Object.keys(ROWS) as readonly NodeTable[]; // ROWS has exactly these keys

export function nodeStoreConformance(name: string, factory: () => Promise<NodeStoreUnderTest>): void {
  describe(`node store on ${name}`, () => {
    const opened: NodeStoreUnderTest[] = [];
    const open = async (): Promise<NodeStore> => {
      const underTest = await factory();
      opened.push(underTest);
      return underTest.store;
    };
    afterEach(async () => {
      for (const underTest of opened.splice(0)) await underTest.close();
    });
    const put = <T extends NodeTable>(store: NodeStore, table: T, key: string, row: NodeTables[T]) => store.update(table, key, () => row);
    const delayed = (delayMs: number) => ({ delayMs, lastUpdateMs: 1 });

    it("NS1 creates a row, updates it, and returns its state", async () => {
      const store = await open();
      expect(await store.update("backOffs", "k", (row) => row ?? delayed(10))).toEqual(delayed(10));
      expect(await store.update("backOffs", "k", (row) => delayed((row?.delayMs ?? 0) * 2))).toEqual(delayed(20));
      expect(await store.read("backOffs", "k")).toEqual(delayed(20));
    });

    it("NS1 executes a change atomically", async () => {
      const store = await open();
      const increment = () => store.update("backOffs", "k", (row) => delayed((row?.delayMs ?? 0) + 1));
      const answers = await Promise.all(Array.from({ length: 50 }, increment));
      expect(answers.map((row) => row?.delayMs).sort((a = 0, b = 0) => a - b)).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
      expect(await store.read("backOffs", "k")).toEqual(delayed(50));
    });

    it("NS1 removes a row when the function returns undefined, and ignores a missing row", async () => {
      const store = await open();
      await put(store, "workers", "u1", WORKER);
      for (const key of ["u1", "u1", "never"]) expect(await store.update("workers", key, () => undefined)).toBeUndefined();
      expect([...(await store.rows("workers"))]).toEqual([]);
    });

    it("NS1 keeps a row when the function returns the same value", async () => {
      const store = await open();
      await put(store, "workers", "u1", WORKER);
      expect(await store.update("workers", "u1", (row) => row)).toEqual(WORKER);
      expect(await store.read("workers", "u1")).toEqual(WORKER);
    });

    it("NS1 changes nothing when a change fails", async () => {
      const store = await open();
      await put(store, "workers", "u1", WORKER);
      const failing = store.update("workers", "u1", () => {
        throw new Error("the change was not reported");
      });
      await expect(failing).rejects.toThrow("the change was not reported");
      expect(await store.read("workers", "u1")).toEqual(WORKER);
    });

    it("NS2 accepts writes with the worker's token", async () => {
      const store = await open();
      await put(store, "workers", "u1", WORKER);
      const fence = { uid: "u1", token: 7 };
      expect(await store.update("statuses", "u1", () => STATUS, fence)).toEqual(STATUS);
      expect(await store.update("statuses", "u1", () => undefined, fence)).toBeUndefined();
      expect(await store.update("workers", "u1", (row) => row && { ...row, token: 8 }, fence)).toEqual({ ...WORKER, token: 8 });
      expect(await store.update("workers", "u1", (row) => row && { ...row, finished: true }, fence)).toBe("refused");
    });

    it.each([
      { what: "an older token", fence: { uid: "u1", token: 6 } },
      { what: "a newer token", fence: { uid: "u1", token: 8 } },
      { what: "the token of another pod", fence: { uid: "u2", token: 7 } },
      { what: "the token of a pod without a record", fence: { uid: "gone", token: 7 } },
    ])("NS2 rejects $what, and changes nothing", async ({ fence }) => {
      const store = await open();
      await put(store, "workers", "u1", WORKER);
      await put(store, "workers", "u2", { ...WORKER, token: 9 });
      await put(store, "statuses", "u1", STATUS);
      expect(await store.update("workers", fence.uid, () => ({ ...WORKER, finished: true }), fence)).toBe("refused");
      expect(await store.update("statuses", "u1", () => undefined, fence)).toBe("refused");
      expect(await store.update("backOffs", "k", () => delayed(1), fence)).toBe("refused");
      expect(await store.rows("workers")).toEqual(
        new Map([
          ["u1", WORKER],
          ["u2", { ...WORKER, token: 9 }],
        ]),
      );
      expect(await store.read("statuses", "u1")).toEqual(STATUS);
      expect(await store.read("backOffs", "k")).toBeUndefined();
    });

    it("NS2 accepts only one of two sync iterations that take the same token concurrently", async () => {
      const store = await open();
      await put(store, "workers", "u1", WORKER);
      const take = () => store.update("workers", "u1", (row) => row && { ...row, token: row.token + 1 }, { uid: "u1", token: 7 });
      const answers = await Promise.all(Array.from({ length: 10 }, take));
      expect(answers.filter((answer) => answer !== "refused")).toEqual([{ ...WORKER, token: 8 }]);
    });

    it.each(TABLES)("NS3 returns rows of %s exactly as they were stored", async (table) => {
      const store = await open();
      expect(await store.read(table, "a")).toBeUndefined();
      expect(await put(store, table, "a", ROWS[table])).toEqual(ROWS[table]);
      expect(await store.read(table, "a")).toEqual(ROWS[table]);
      expect(JSON.parse(JSON.stringify(await store.read(table, "a")))).toEqual(ROWS[table]);
      expect(await store.read(table, "A")).toBeUndefined();
      for (const other of TABLES) expect((await store.rows(other)).size, other).toBe(other === table ? 1 : 0);
    });

    it("NS3 returns rows that are independent of the caller's objects", async () => {
      const store = await open();
      const row = structuredClone(WORKER);
      await put(store, "workers", "u1", row);
      const spoil = (target: WorkerRecord | undefined) => {
        try {
          Object.assign(target?.pending ?? {}, { kind: "kill" });
        } catch {
          // A frozen row throws on the write; a copied row accepts it.
        }
      };
      spoil(row);
      spoil(await store.read("workers", "u1"));
      spoil((await store.rows("workers")).get("u1"));
      expect(await store.read("workers", "u1")).toEqual(WORKER);
    });

    it("NS3 accepts any string as a key", async () => {
      const store = await open();
      const keys = ["web_shop", "u1/app/readiness", "__proto__", "constructor", "süß:{x}", ""];
      for (const [index, key] of keys.entries()) await put(store, "backOffs", key, delayed(index));
      for (const [index, key] of keys.entries()) expect(await store.read("backOffs", key)).toEqual(delayed(index));
      expect([...(await store.rows("backOffs")).keys()].sort()).toEqual(keys.toSorted());
    });

    it("NS4 returns each due key once, and keeps keys that are due later", async () => {
      const store = await open();
      for (const [key, dueMs] of [
        ["a", 10],
        ["b", 20],
        ["c", 21],
      ] as const)
        await store.schedule("pods", key, dueMs);
      expect(await store.takeDue("pods", 9)).toEqual([]);
      expect([...(await store.takeDue("pods", 20))].sort()).toEqual(["a", "b"]);
      expect(await store.takeDue("pods", 20)).toEqual([]);
      expect(await store.agenda("pods")).toEqual(new Map([["c", 21]]));
      await store.schedule("pods", "a", 5);
      expect([...(await store.takeDue("pods", 100))].sort()).toEqual(["a", "c"]);
    });

    it("NS4 keeps the last written time of a key, even if it is later", async () => {
      const store = await open();
      await store.schedule("pods", "a", 10);
      await store.schedule("pods", "a", 30);
      expect(await store.takeDue("pods", 20)).toEqual([]);
      await store.schedule("pods", "a", 5);
      expect(await store.agenda("pods")).toEqual(new Map([["a", 5]]));
      expect(await store.takeDue("pods", 20)).toEqual(["a"]);
    });

    it("NS4 returns each due key to one of several concurrent callers", async () => {
      const store = await open();
      for (let key = 0; key < 30; key++) await store.schedule("probes", `${key}`, key);
      const taken = await Promise.all(Array.from({ length: 5 }, () => store.takeDue("probes", 100)));
      expect(taken.flat()).toHaveLength(30);
      expect(new Set(taken.flat()).size).toBe(30);
    });

    it("NS4 removes a key, ignores a missing one, and keeps the schedules of other kinds separate", async () => {
      const store = await open();
      for (const agenda of AGENDAS) await store.schedule(agenda, "a", 10);
      for (const key of ["a", "a", "never"]) await store.unschedule("pods", key);
      expect(await store.takeDue("pods", 100)).toEqual([]);
      expect(await store.agenda("probes")).toEqual(new Map([["a", 10]]));
    });

    it("NS5 returns a snapshot of all rows", async () => {
      const store = await open();
      for (const key of ["a", "b", "c"]) await put(store, "backOffs", key, delayed(1));
      const before = await store.rows("backOffs");
      await put(store, "backOffs", "a", delayed(2));
      await store.update("backOffs", "b", () => undefined);
      expect(before).toEqual(new Map(["a", "b", "c"].map((key) => [key, delayed(1)])));
      expect(await store.rows("backOffs")).toEqual(
        new Map([
          ["a", delayed(2)],
          ["c", delayed(1)],
        ]),
      );
    });
  });
}
