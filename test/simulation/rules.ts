/**
 * Switches the Store's rules off one by one, to show that the simulation depends on them: a check that also passes without the rule that it
 * covers is useless. Each wrapper makes the smallest change with that effect; no product code refers to it.
 */
import { LEASE_MS } from "../../shared/base/times.ts";
import type { OwnerId } from "../../shared/kube/objects/owner-id.ts";
import { compareResourceVersions, maxResourceVersion } from "../../shared/kube/objects/resource-version.ts";
import type { ObjectKey } from "../../shared/kube/objects/resources.ts";
import type { LaneData, MemoryData, ResourceData, StoredIntent } from "../../shared/store/memory/store/data.ts";
import type { AnyTaken, Intent, ItemChange, PackHeader, Row, Store } from "../../shared/store/ports/store.ts";

export const RULES = [
  "A1",
  "A2",
  "A3",
  "A4",
  "A5",
  "A6",
  "A7",
  "A8",
  "A9",
  "A11",
  "A13",
  "A15",
  "manifestOrder",
  "manifestParts",
  "sweep",
  "floor",
  "generation",
  "fence",
  "suspect",
  "needed",
  "gate",
  "hole",
  "expected",
  "counts",
  "unread",
  "resume",
  "intents",
  "names",
  "planned",
  "mayLand",
  "recover",
  "deadline",
  "restamp",
  "lowers",
  "settled",
  "ownerOfIntents",
  "uidOfIntents",
  "writeThrough",
  "effects",
  "flag",
  "ownStatus",
  "lease",
  "renewal",
  "stolen",
  "addDuring",
  "retry",
  "requeue",
  "early",
  "abandoned",
  "bells",
  "backoff",
  "sweeper",
  "beat",
  "primary",
  "damage",
  // kube.ts and world.ts switch these off.
  "deletePrecondition",
  "livePods",
  "stop",
  "signature",
  "full",
  "identity",
] as const;
export type Rule = (typeof RULES)[number];

export function isRule(text: string): text is Rule {
  return RULES.some((rule) => rule === text);
}

/** Returns `store` without the rules in `off`. */
export function withoutRules(store: Store, data: MemoryData, off: ReadonlySet<Rule>): Store {
  let left = store;
  for (const rule of off) left = { ...left, ...wrappers[rule]?.(left, data) };
  return left;
}

const wrappers: { readonly [R in Rule]?: (store: Store, data: MemoryData) => Partial<Store> } = {
  A1: (store, data) => {
    const current = <P extends { readonly epoch: string }>(pack: P): P => ({ ...pack, epoch: data.epoch?.record.epoch ?? pack.epoch });
    return {
      applyPack: (pack, items, options) => store.applyPack(current(pack), items, options),
      applyManifest: (pack, manifest) => store.applyManifest(current(pack), manifest),
      take: (run, known) => store.take(current(run), known),
    };
  },
  A3: (store, data) => ({
    applyPack: (pack, items, options) => {
      const lane = laneOfPack(data, pack);
      const isRepeated = lane !== undefined && pack.sequence <= lane.last;
      return store.applyPack(isRepeated ? { ...pack, sequence: lane.last + 1 } : pack, items, options);
    },
  }),
  A4: (store, data) => ({
    applyPack: (pack, items, options) => {
      const rows = laneOfPack(data, pack)?.rows;
      const asOld = (item: ItemChange): ItemChange => {
        const row = rows?.get(item.key);
        if (item.type !== "put" || !row || compareResourceVersions(row.rv, item.rv) <= 0) return item;
        rows?.set(item.key, { ...row, rv: "1" });
        return { ...item, unread: false, expected: expectationOf({ ...row, rv: "1" }) };
      };
      return store.applyPack(pack, items.map(asOld), options);
    },
  }),
  A7: (store, data) => ({
    applyPack: async (pack, items, options) => {
      const result = await store.applyPack(pack, items, options);
      const resource = data.epoch?.resources.get(pack.resource);
      for (const { key } of items) for (const lane of resource?.lanes ?? []) replaceRow(resource, lane, key, { gone: false });
      return result;
    },
  }),
  A8: (store, data) => ({
    applyPack: (pack, items, options) => {
      const rows = laneOfPack(data, pack)?.rows;
      const asNew = (item: ItemChange): ItemChange => {
        const row = item.type === "delete" ? rows?.get(item.key) : undefined;
        if (!row || compareResourceVersions(row.rv, item.rv) <= 0) return item;
        return { ...item, unread: false, rv: row.rv, expected: expectationOf(row) };
      };
      return store.applyPack(pack, items.map(asNew), options);
    },
  }),
  A9: (store, data) => ({
    applyPack: async (pack, items, options) => {
      const result = await store.applyPack(pack, items, options);
      for (const { type, key, rv } of items) {
        const tombstones = laneOfPack(data, pack)?.tombstones;
        if (type === "delete" && tombstones?.has(key)) tombstones.set(key, rv);
      }
      return result;
    },
  }),
  manifestOrder: (store, data) => ({
    applyManifest: (pack, manifest) => {
      const lane = laneOfPack(data, pack);
      return store.applyManifest(lane ? { ...pack, sequence: Math.max(pack.sequence, lane.last + 1) } : pack, manifest).then((result) => {
        if (lane && pack.sequence > lane.last + 1 && result.kind === "applied") lane.last = pack.sequence;
        return result;
      });
    },
  }),
  manifestParts: (store, data) => ({
    applyManifest: (pack, manifest) => {
      const rows = laneOfPack(data, pack)?.rows;
      return store.applyManifest(pack, { ...manifest, rows: manifest.rows.filter(({ key }) => rows?.has(key) === true) });
    },
  }),
  sweep: (store, data) => ({
    // A manifest deletes nothing: rows that the list lacks remain.
    applyManifest: (pack, manifest) => {
      const rows = [...(laneOfPack(data, pack)?.rows.values() ?? [])];
      const listed = new Set(manifest.rows.map(({ key }) => key));
      const kept = rows.filter(({ key }) => !listed.has(key)).map(({ key, uid, rv }) => ({ key, uid, rv }));
      return store.applyManifest(pack, { ...manifest, rows: [...manifest.rows, ...kept], sweep: [] });
    },
  }),
  floor: (store) => ({
    openGeneration: async (request) => {
      const opened = await store.openGeneration(request);
      return opened.kind === "open" ? { ...opened, floor: "0" } : opened;
    },
  }),
  // A list after a SUSPECT mark reuses the number of the previous list.
  generation: (store, data) => ({
    openGeneration: async (request) => {
      const resource = data.epoch?.resources.get(request.resource);
      const before = resource?.generation ?? 0;
      const opened = await store.openGeneration(request);
      if (opened.kind !== "open" || !resource || before === 0) return opened;
      resource.generation = before;
      return { ...opened, generation: before };
    },
  }),
  // An older fence replaces a newer one.
  fence: (store, data) => ({
    openFence: (request) => {
      const resource = data.epoch?.resources.get(request.resource);
      if (resource && compareResourceVersions(request.fence, resource.fence) < 0) resource.fence = "1";
      return store.openFence(request);
    },
  }),
  suspect: (store, data) => ({
    checkpoint: async (request) => {
      const result = await store.checkpoint(request);
      for (const resource of data.epoch?.resources.values() ?? []) if (resource.state === "SUSPECT") resource.state = "SYNCED";
      return result;
    },
    openFence: async (request) => {
      const result = await store.openFence(request);
      const resource = data.epoch?.resources.get(request.resource);
      if (resource?.state === "SUSPECT") resource.state = "SYNCED";
      return result.kind === "open" && resource ? { ...result, state: resource.state } : result;
    },
  }),
  // Frozen lanes are not reported, so nothing lists them again.
  needed: (store) => ({
    checkpoint: async (request) => {
      const result = await store.checkpoint(request);
      if (result.kind !== "ok") return result;
      return { ...result, resources: result.resources.map((each) => ({ ...each, frozenLanes: [], needed: [] })) };
    },
  }),
  gate: (store, data) => ({
    take: (run, known) => {
      const resources = [...(data.epoch?.resources.values() ?? [])];
      const before = resources.map(({ state, syncedGeneration }) => ({ state, syncedGeneration }));
      for (const resource of resources) {
        [resource.state, resource.syncedGeneration] = ["SYNCED", Math.max(1, resource.syncedGeneration)];
        for (const lane of resource.lanes) lane.contiguousAtMs ??= 0;
      }
      try {
        return store.take(run, known);
      } finally {
        for (const [i, resource] of resources.entries()) Object.assign(resource, before[i]);
      }
    },
  }),
  hole: (store, data) => ({
    take: (run, known) => (forgetHoles(data), store.take(run, known)),
    checkpoint: (request) => (forgetHoles(data), store.checkpoint(request)),
  }),
  // A row that changed since it was read is replaced.
  expected: (store, data) => ({
    applyPack: (pack, items, options) => {
      const rows = laneOfPack(data, pack)?.rows;
      const asRead = (item: ItemChange): ItemChange => {
        const row = rows?.get(item.key);
        const { expected: _, ...rest } = item;
        return item.unread ? item : { ...rest, ...(row && { expected: expectationOf(row) }) };
      };
      return store.applyPack(pack, items.map(asRead), options);
    },
  }),
  mayLand: (store) => ({
    writeThrough: (run, write) => store.writeThrough(run, { ...write, plan: write.plan.map((op) => ({ ...op, mayLand: false })) }),
  }),
  // Looks up the operations of a dead run before the API server must have executed their calls.
  deadline: (store, data) => ({
    take: (run, known) => {
      for (const op of intentsOf(data)) changeIntent(data, op, { deadlineMs: 0 });
      return store.take(run, known);
    },
  }),
  restamp: (store, data) => ({
    writeThrough: async (run, write) => {
      const before = intentsOf(data);
      const result = await store.writeThrough(run, write);
      for (const op of intentsOf(data)) {
        const earlier = before.find(({ owner, stored }) => owner === op.owner && stored.intent.id === op.stored.intent.id);
        if (earlier) changeIntent(data, op, { deadlineMs: earlier.stored.intent.deadlineMs });
      }
      return result;
    },
  }),
  // Events from the stream settle no intent.
  lowers: (store) => ({
    applyPack: (pack, items, options) =>
      store.applyPack(
        pack,
        items.map((item) => ({ ...item, lowers: [] })),
        options,
      ),
  }),
  // The responses to a run's own writes settle no intent.
  settled: (store) => ({ writeThrough: (run, write) => store.writeThrough(run, { ...write, lower: [] }) }),
  // Intents remain after their owner is deleted.
  ownerOfIntents: (store, data) => {
    const keeping = async <T>(step: () => Promise<T>): Promise<T> => {
      const before = new Map([...(data.epoch?.intents ?? [])].map(([owner, ops]) => [owner, new Map(ops)]));
      const result = await step();
      for (const [owner, ops] of before)
        if (ops.size > 0 && data.epoch && !data.epoch.intents.has(owner)) data.epoch.intents.set(owner, ops);
      return result;
    };
    return {
      applyPack: (pack, items, options) =>
        pack.resource === "pods" ? store.applyPack(pack, items, options) : keeping(() => store.applyPack(pack, items, options)),
      applyManifest: (pack, manifest) =>
        pack.resource === "pods" ? store.applyManifest(pack, manifest) : keeping(() => store.applyManifest(pack, manifest)),
    };
  },
  // Intents are registered for a primary that has been replaced.
  uidOfIntents: (store, data) => ({
    registerIntents: (run, ownerUid, intents) => {
      const primaries = data.epoch?.queues[run.controller]?.primaries;
      const primary = primaries?.get(run.key);
      if (!primary || primary.uid === ownerUid) return store.registerIntents(run, ownerUid, intents);
      primaries?.set(run.key, { ...primary, uid: ownerUid });
      return store.registerIntents(run, ownerUid, intents).finally(() => primaries?.set(run.key, primary));
    },
  }),
  // The confirmation of a delete does not set the flag `gone`.
  flag: (store) => ({ writeThrough: (run, write) => store.writeThrough(run, { ...write, gone: [] }) }),
  ownStatus: (store) => ({ writeThrough: (run, write) => store.writeThrough(run, { ...write, ownStatus: false }) }),
  renewal: (_, data) => ({
    renew: async ({ controller, key, token }) => {
      const run = data.epoch?.queues[controller]?.runs.get(key);
      return run?.token === token ? run.leaseUntilMs + LEASE_MS : undefined;
    },
  }),
  // A run whose key was taken over can register intents and end the key.
  stolen: (store, data) => {
    const asHolder = <R extends Pick<AnyTaken, "controller" | "key" | "token">>(run: R): R => ({
      ...run,
      token: data.epoch?.queues[run.controller]?.runs.get(run.key)?.token ?? run.token,
    });
    return {
      registerIntents: (run, ownerUid, intents) => store.registerIntents(asHolder(run), ownerUid, intents),
      done: (run, outcome) => store.done(asHolder(run), outcome),
    };
  },
  // An add during a run has no effect after the run ends.
  addDuring: (store, data) => ({
    done: (run, outcome) => {
      data.epoch?.queues[run.controller]?.ready.delete(run.key);
      return store.done(run, outcome);
    },
  }),
  retry: (store) => ({ done: (run, outcome) => store.done(run, outcome.kind === "retry" ? { kind: "ok" } : outcome) }),
  requeue: (store) => ({ done: (run, outcome) => store.done(run, outcome.kind === "requeueAfter" ? { kind: "ok" } : outcome) }),
  // `take` returns a key before it is due.
  early: (store, data) => ({
    take: (run, known) => {
      const ready = data.epoch?.queues[run.controller]?.ready;
      if (ready?.has(run.key)) ready.set(run.key, 0);
      return store.take(run, known);
    },
  }),
  // `take` never returns a key whose run has died.
  abandoned: (store, data) => ({
    take: async (run, known) => {
      const held = data.epoch?.queues[run.controller]?.runs.get(run.key);
      return held && held.token !== run.token ? { kind: "busy" } : store.take(run, known);
    },
  }),
  // No call returns a doorbell, so only the sweeper sends them.
  bells: (store) => ({
    applyPack: async (pack, items, options) => ({ ...(await store.applyPack(pack, items, options)), bells: [] }),
    writeThrough: async (run, write) => ({ ...(await store.writeThrough(run, write)), bells: [] }),
  }),
  backoff: (store, data) => ({
    done: (run, outcome) => {
      data.epoch?.queues[run.controller]?.failures.delete(run.key);
      return store.done(run, outcome);
    },
  }),
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
    // A6 exempts only listed objects.
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
  A15: (store) => ({
    applyPack: (pack, items, { after: _, ...options }) => store.applyPack(pack, items, options),
  }),
  counts: (store) => ({
    applyPack: (pack, items, options) => store.applyPack(pack, items, { ...options, counts: [] }),
    writeThrough: (run, write) => store.writeThrough(run, { ...write, counts: [] }),
  }),
  // Assumes that an item without a lookup is cached if a row exists.
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
  // Each run numbers names by itself, whatever the Store has counted.
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
      data.epoch?.queues[run.controller]?.runs.delete(run.key);
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

function laneOfPack(data: MemoryData, { resource, lane }: Pick<PackHeader, "resource" | "lane">): LaneData | undefined {
  return data.epoch?.resources.get(resource)?.lanes[lane];
}

function expectationOf({ rv, uid, owner }: Row): NonNullable<ItemChange["expected"]> {
  return { rv, uid, ...(owner !== undefined && { owner }) };
}

function replaceRow(resource: ResourceData | undefined, lane: LaneData, key: ObjectKey, change: Partial<Row>): void {
  const row = lane.rows.get(key);
  if (!row || !resource) return;
  const changed = { ...row, ...change };
  lane.rows.set(key, changed);
  for (const rows of resource.slices.values()) if (rows.get(key) === row) rows.set(key, changed);
}

function forgetHoles(data: MemoryData): void {
  for (const lane of lanesOf(data)) lane.holeSinceMs = undefined;
}

interface FoundIntent {
  readonly owner: OwnerId;
  readonly stored: StoredIntent;
}

function intentsOf(data: MemoryData): readonly FoundIntent[] {
  return [...(data.epoch?.intents ?? [])].flatMap(([owner, ops]) => [...ops.values()].map((stored) => ({ owner, stored })));
}

function changeIntent(data: MemoryData, { owner, stored }: FoundIntent, change: Partial<Intent>): void {
  data.epoch?.intents.get(owner)?.set(stored.intent.id, { ...stored, intent: { ...stored.intent, ...change } });
}

/** Each verb of the memory Store is one synchronous step, so no other caller sees the temporary change. */
function withLanes<T>(data: MemoryData, change: (lane: LaneData) => void, step: () => T): T {
  const before = lanesOf(data).map((lane) => ({ lane, watermark: lane.watermark }));
  for (const lane of lanesOf(data)) change(lane);
  try {
    return step();
  } finally {
    for (const { lane, watermark } of before) lane.watermark = watermark;
  }
}
