/**
 * The Store's rules, one by one switched off, to see that the simulation notices: a check that stays green without the rule
 * that it is there for says nothing. Each wrapper is the smallest lie that has the effect; no product code knows of it.
 */
import { compareResourceVersions, maxResourceVersion } from "../../shared/kube/objects/resource-version.ts";
import type { LaneData, MemoryData } from "../../shared/store/memory/store/data.ts";
import type { ItemChange, Store } from "../../shared/store/ports/store.ts";

export const RULES = [
  "A2",
  "A5",
  "A6",
  "A11",
  "A13",
  "counts",
  "unread",
  "resume",
  "intents",
  "names",
  "planned",
  "recover",
  "writeThrough",
  "effects",
  "lease",
  "sweeper",
  "beat",
  "primary",
  "damage",
  // These two are switched off elsewhere (kube.ts, world.ts).
  "deletePrecondition",
  "livePods",
] as const;
export type Rule = (typeof RULES)[number];

export function isRule(text: string): text is Rule {
  return RULES.some((rule) => rule === text);
}

/** `store` over `data` without the rules in `off`. */
export function withoutRules(store: Store, data: MemoryData, off: ReadonlySet<Rule>): Store {
  let left = store;
  for (const rule of off) left = { ...left, ...wrappers[rule]?.(left, data) };
  return left;
}

const wrappers: { readonly [R in Rule]?: (store: Store, data: MemoryData) => Partial<Store> } = {
  A2: (store, data) => ({
    applyPack: (pack, items, options) =>
      store.applyPack({ ...pack, fence: data.epoch?.resources.get(pack.resource)?.fence ?? pack.fence }, items, options),
  }),
  A5: (store, data) => ({
    applyPack: async (pack, items, options) => {
      const result = await store.applyPack(pack, items, options);
      for (const lane of lanesOf(data)) lane.tombstones.clear();
      return result;
    },
  }),
  A6: (store, data) => ({
    // Listed objects are the one source that A6 exempts.
    applyPack: (pack, items, options) => store.applyPack(pack.kind === "D" ? { ...pack, kind: "L" } : pack, items, options),
    writeThrough: (run, write) =>
      withLanes(
        data,
        (lane) => (lane.watermark = "0"),
        () => store.writeThrough(run, write),
      ),
  }),
  A11: (store, data) => ({
    applyPack: async (pack, items, options) => {
      const result = await store.applyPack(pack, items, options);
      const lane = data.epoch?.resources.get(pack.resource)?.lanes[pack.lane];
      const { watermark } = options.commit ?? {};
      if (lane && watermark !== undefined && result.kind === "applied") lane.watermark = maxResourceVersion(lane.watermark, watermark);
      return result;
    },
  }),
  A13: (store, data) => ({
    applyManifest: async (pack, manifest) => {
      const result = await store.applyManifest(pack, manifest);
      for (const lane of lanesOf(data)) lane.frozen = false;
      return result;
    },
  }),
  counts: (store) => ({
    applyPack: (pack, items, options) => store.applyPack(pack, items, { ...options, counts: [] }),
    writeThrough: (run, write) => store.writeThrough(run, { ...write, counts: [] }),
  }),
  // An unread item counts as cached if a row exists.
  unread: (store, data) => ({
    applyPack: (pack, items, options) => {
      const rows = data.epoch?.resources.get(pack.resource)?.lanes[pack.lane]?.rows;
      const taken = (item: ItemChange): ItemChange => {
        const row = item.unread && item.type === "put" ? rows?.get(item.key) : undefined;
        return row ? { ...item, unread: false, uid: row.uid, rv: row.rv } : item;
      };
      return store.applyPack(pack, items.map(taken), options);
    },
  }),
  resume: (store) => ({
    openFence: async (request) => {
      const opened = await store.openFence(request);
      if (opened.kind !== "open") return opened;
      const greatest =
        opened.lanes
          .map(({ watermark }) => watermark)
          .toSorted(compareResourceVersions)
          .at(-1) ?? "0";
      return { ...opened, lanes: opened.lanes.map((lane) => ({ ...lane, watermark: greatest })) };
    },
  }),
  intents: (store) => ({ registerIntents: (run, ownerUid, _, drawn) => store.registerIntents(run, ownerUid, [], drawn) }),
  // Each run draws from a number of its own, whatever the Store has counted.
  names: (store) => ({
    take: async (run, known) => {
      const result = await store.take(run, known);
      if (result.kind !== "ok") return result;
      const drawn = Array.from(run.token, (letter) => letter.charCodeAt(0)).reduce((number, code) => (number * 31 + code) % 1e9, 1);
      return { ...result, snapshot: { ...result.snapshot, drawn } };
    },
  }),
  planned: (store) => ({
    writeThrough: (run, write) =>
      store.writeThrough(run, { ...write, lower: [...write.lower, ...write.plan.map(({ id }) => id)], plan: [] }),
  }),
  recover: (store, data) => ({
    take: (run, known) => {
      for (const [uid, ops] of data.epoch?.intents ?? []) {
        for (const [id, { intent }] of ops) if (intent.state === "pending") ops.delete(id);
        if (ops.size === 0) data.epoch?.intents.delete(uid);
      }
      return store.take(run, known);
    },
  }),
  writeThrough: (store) => ({ writeThrough: (run, write) => store.writeThrough(run, { ...write, items: [], gone: [] }) }),
  effects: (store) => ({
    writeThrough: (run, write) =>
      store.writeThrough(run, { ...write, items: write.items.map((item): ItemChange => ({ ...item, effects: [] })) }),
  }),
  lease: (store, data) => ({
    take: (run, known) => {
      data.epoch?.queues[run.controller].runs.delete(run.key);
      return store.take(run, known);
    },
  }),
  sweeper: () => ({ sweep: async () => [] }),
  beat: (store) => ({ checkpoint: (request) => store.checkpoint({ ...request, answered: 0 }) }),
  primary: (store, data) => {
    const unbound = (): void => data.epoch?.resources.forEach((resource) => (resource.primary = data.primary));
    return {
      take: (run, known) => (unbound(), store.take(run, known)),
      openFence: (request) => (unbound(), store.openFence(request)),
      checkpoint: (request) => (unbound(), store.checkpoint({ ...request, answered: 0 })),
    };
  },
  damage: (store) => ({
    checkpoint: async (request) => {
      const result = await store.checkpoint(request);
      return result.kind === "damaged" ? { kind: "ok", resources: [] } : result;
    },
  }),
};

function lanesOf(data: MemoryData): readonly LaneData[] {
  return [...(data.epoch?.resources.values() ?? [])].flatMap(({ lanes }) => lanes);
}

/** Each verb of the memory Store is one synchronous step, so no other caller sees changes around it. */
function withLanes<T>(data: MemoryData, change: (lane: LaneData) => void, step: () => T): T {
  const before = lanesOf(data).map((lane) => ({ lane, watermark: lane.watermark }));
  for (const lane of lanesOf(data)) change(lane);
  try {
    return step();
  } finally {
    for (const { lane, watermark } of before) lane.watermark = watermark;
  }
}
