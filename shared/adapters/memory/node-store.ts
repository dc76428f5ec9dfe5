/** The NodeStore in memory: what a node agent uses by default, and its tests. Losing it is a restart (node-agent §18.9). */
import { deepFreeze } from "../../api/freeze.ts";
import type { Agenda, Fence, NodeRow, NodeStore, NodeTable, RowChange } from "../../ports/node-store.ts";

type Tables = { readonly [T in NodeTable]: Map<string, NodeRow<T>> };

/** Each verb is one synchronous step behind a promise, so it is atomic by construction. Rows are handed out as they are, frozen. */
export function createMemoryNodeStore(): NodeStore {
  const tables: Tables = {
    workers: new Map(),
    staticPods: new Map(),
    statuses: new Map(),
    reasons: new Map(),
    restarts: new Map(),
    allocations: new Map(),
    backOffs: new Map(),
    probes: new Map(),
  };
  const agendas: { readonly [A in Agenda]: Map<string, number> } = { pods: new Map(), probes: new Map() };

  function update<T extends NodeTable>(table: T, key: string, change: RowChange<T>): Promise<NodeRow<T> | undefined>;
  function update<T extends NodeTable>(
    table: T,
    key: string,
    change: RowChange<T>,
    fence: Fence,
  ): Promise<NodeRow<T> | "refused" | undefined>;
  async function update<T extends NodeTable>(
    table: T,
    key: string,
    change: RowChange<T>,
    fence?: Fence,
  ): Promise<NodeRow<T> | "refused" | undefined> {
    if (fence !== undefined && tables.workers.get(fence.uid)?.token !== fence.token) return "refused";
    const rows: Map<string, NodeRow<T>> = tables[table];
    const after = change(rows.get(key));
    if (after === undefined) rows.delete(key);
    else rows.set(key, deepFreeze(after));
    return after;
  }

  return {
    read: async (table, key) => tables[table].get(key),
    update,
    rows: async (table) => new Map(tables[table]),
    schedule: async (agenda, key, dueMs) => void agendas[agenda].set(key, dueMs),
    unschedule: async (agenda, key) => void agendas[agenda].delete(key),
    async takeDue(agenda, nowMs) {
      const due = [...agendas[agenda]].filter(([, dueMs]) => dueMs <= nowMs).map(([key]) => key);
      for (const key of due) agendas[agenda].delete(key);
      return due;
    },
    agenda: async (agenda) => new Map(agendas[agenda]),
  };
}
