/** A NodeStore in memory, which is the node agent's default. Losing it has the same effect as a restart (node-agent §18.9). */
import { deepFreeze } from "@deltaloop/base";
import type { Agenda, Fence, NodeRow, NodeStore, NodeTable, RowChange } from "../ports/node-store.ts";

interface Table<T extends NodeTable> {
  readonly rows: Map<string, NodeRow<T>>;
  /** The last snapshot; valid until a row changes. */
  copy?: ReadonlyMap<string, NodeRow<T>>;
}

type Tables = { readonly [T in NodeTable]: Table<T> };

/** Each method is one synchronous step behind a promise, and therefore atomic. Rows are shared and frozen. */
export function createMemoryNodeStore(): NodeStore {
  const tables: Tables = {
    workers: { rows: new Map() },
    staticPods: { rows: new Map() },
    statuses: { rows: new Map() },
    reasons: { rows: new Map() },
    restarts: { rows: new Map() },
    allocations: { rows: new Map() },
    backOffs: { rows: new Map() },
    probes: { rows: new Map() },
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
    if (fence !== undefined && tables.workers.rows.get(fence.uid)?.token !== fence.token) return "refused";
    const own: Table<T> = tables[table];
    const { rows } = own;
    const before = rows.get(key);
    const after = change(before);
    if (after === before) return after;
    delete own.copy;
    if (after === undefined) rows.delete(key);
    else rows.set(key, deepFreeze(after));
    return after;
  }

  return {
    read: async (table, key) => tables[table].rows.get(key),
    update,
    async rows<T extends NodeTable>(table: T) {
      const own: Table<T> = tables[table];
      return (own.copy ??= new Map(own.rows));
    },
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
