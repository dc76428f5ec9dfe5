/** The names of KEYS and ARGV of every script, as plain data: bundles contain it compressed (infra/build/inline-scripts.ts). */

/** Keys that scripts use together. The first key is at the base slot and needs no constant. */
export const BLOCKS = {
  queue: ["q", "p", "f", "u", "b", "z"],
  lane: ["l", "v", "t", "h", "mp"],
} as const;

export type KeyKind = "key" | "keys" | keyof typeof BLOCKS;
export type ArgKind = "text" | "number" | "flag" | readonly string[];

/** The gate (lib/gate.lua). `stopSlot`: 0 for a caller that ignores stops (GD7). */
export const GATE = {
  holeLimitMs: "number",
  projection: "text",
  digestPrefix: "text",
  hashLayout: "text",
  releases: "text",
  stopSlot: "number",
  openedSlot: "number",
  gate: ["resource", "metaSlot", "lanesBase", "lanes"],
} as const;

/** Controllers and the resources that they read. */
export const READERS = { readers: ["queueBase", "resources"] } as const;

/** Arguments of changes of the index (lib/index.lua). */
export const CHANGES = {
  ownBase: "number",
  ownCountsSlot: "number",
  loweredQueues: "text",
  items: ["key", "value", "entry", "expected", "meta"],
  effects: ["meta", "key"],
  lowers: ["item", "intentsSlot", "op"],
  counts: ["countsSlot", "namespace", "count"],
  forged: ["item", "where", "sliceSlot", "text"],
} as const;

export const LAYOUTS = {
  // work-queue
  add: { keys: { queue: "queue" }, args: { key: "text", delayMs: "number" } },
  done: { keys: { queue: "queue", limiter: "key" }, args: { key: "text", token: "text", outcome: "text", delayMs: "number" } },
  dueIn: { keys: {}, args: READERS },
  parked: { keys: { queue: "queue" }, args: {} },
  queued: { keys: { queue: "queue" }, args: {} },
  renew: { keys: { queue: "queue", stop: "key" }, args: { key: "text", token: "text", heedsStop: "flag" } },
  resync: { keys: { queue: "queue" }, args: { spreadMs: "number" } },
  sweep: { keys: {}, args: { ...GATE, ...READERS } },
  take: {
    keys: { queue: "queue", primarySlice: "key", dependents: "key", orphans: "key", intents: "key", primaryRows: "key", counts: "key" },
    args: { key: "text", token: "text", known: "text", ...GATE, more: ["slot"] },
  },

  // index
  applyManifest: {
    keys: { lane: "lane", meta: "key", needed: "key", tally: "key" },
    args: {
      fence: "text",
      generation: "number",
      sequence: "number",
      listRV: "text",
      resource: "text",
      lanePrefix: "text",
      isWhole: "flag",
      rows: ["key", "rv"],
      absent: ["where", "key", "text"],
      ...GATE,
      ...READERS,
      ...CHANGES,
    },
  },
  applyPack: {
    keys: { lane: "lane", tally: "key", meta: "key" },
    args: {
      fence: "text",
      projection: "text",
      kind: "text",
      sequence: "number",
      mark: "text",
      listRV: "text",
      historyLostReason: "text",
      place: "text",
      leavesOut: "flag",
      part: "text",
      after: "text",
      ...CHANGES,
      metas: ["slot"],
    },
  },
  readEntries: { keys: { slices: "keys" }, args: { sizes: ["keys"], entries: ["key"] } },
  readIndex: {
    keys: {},
    args: {
      resources: ["name", "metaSlot", "lanes"],
      counts: ["slot", "namespace"],
      lanes: ["rowsBase", "rows"],
      rows: ["key"],
      namespaces: ["primariesSlot", "ownersSlot"],
    },
  },
  readLane: { keys: { lane: "lane", meta: "key" }, args: {} },
  readManifest: { keys: { lane: "lane" }, args: { generation: "text", fence: "text" } },
  readSlices: { keys: { slices: "keys" }, args: {} },
  replace: {
    keys: { meta: "key" },
    args: { resource: "text", laneCount: "text", texts: ["hashSlot", "field", "old", "new", "rowsSlot", "row"] },
  },
  stashManifest: { keys: { lane: "lane", meta: "key" }, args: { fence: "text", generation: "text", sequence: "number", part: "text" } },

  // intents
  registerIntents: {
    keys: { queue: "queue", intents: "key" },
    args: {
      key: "text",
      token: "text",
      ownerUid: "text",
      controller: "text",
      term: "text",
      termFence: "text",
      marks: "text",
      drawn: "text",
      ops: ["id", "verb", "name", "uid", "mayLandUntilMs"],
    },
  },
  writeThrough: {
    keys: { queue: "queue", intents: "key", meta: "key", limiter: "key" },
    args: {
      key: "text",
      token: "text",
      resource: "text",
      term: "text",
      termFence: "text",
      ownStatus: "flag",
      laneCount: "text",
      outcome: "text",
      delayMs: "number",
      lowered: ["op"],
      planned: ["op", "state"],
      gone: ["key", "uid", "laneBase"],
      slices: ["owner", "slot"],
      left: "number",
      marks: ["queueBase", "key", "uid", "intentsSlot", "text"],
      records: ["uid", "field", "text"],
      ...CHANGES,
    },
  },

  // epochs
  checkpoint: {
    keys: {},
    args: {
      fence: "text",
      beat: "number",
      answered: "number",
      leaderNow: "number",
      term: "text",
      termCount: "number",
      confirmed: "number",
      release: "text",
      queues: ["base"],
      resources: ["name", "metaSlot", "neededSlot", "lanesBase", "lanes", "rowsSlot", "sentRV"],
    },
  },
  beat: {
    keys: {},
    args: { id: "text", body: "text", moves: "text", silentMs: "number", forgetMs: "number", movesMax: "number" },
  },
  heartbeat: { keys: {}, args: { fence: "text", sentMs: "number", lanes: ["stateSlot", "tombstonesSlot", "sequence", "rv"] } },
  claimPeriodicJobs: { keys: { jobs: "key" }, args: { turns: ["job", "afterMs"] } },
  forget: { keys: { stale: "keys" }, args: {} },
  gate: { keys: {}, args: GATE },
  markSuspect: { keys: { meta: "key" }, args: { reason: "text" } },
  openEpoch: {
    keys: { opened: "key" },
    args: {
      over: "text",
      overLineage: "text",
      clusterUid: "text",
      projection: "text",
      digestPrefix: "text",
      hashLayout: "text",
      release: "text",
      fence: "text",
      term: "text",
      termCount: "text",
      laneCount: "text",
    },
  },
  openFence: {
    keys: { meta: "key", lanes: "keys" },
    args: {
      fence: "text",
      laneCount: "text",
      grows: "flag",
      isBoundToPrimary: "flag",
      resource: "text",
      term: "text",
      termCount: "text",
      expected: "text",
      proofTerm: "text",
      proofCount: "number",
      proofFence: "text",
      proofNumber: "number",
      isProofExact: "flag",
      unprovenReason: "text",
    },
  },
  lineage: { keys: { opened: "key" }, args: {} },
  forgetOpened: { keys: { opened: "key" }, args: {} },
  openGeneration: { keys: { meta: "key", needed: "key", lanes: "keys" }, args: { fence: "text", resource: "text", laneCount: "text" } },
  scan: { keys: {}, args: { cursor: "text", pattern: "text", batch: "text" } },

  // audit
  correlateEvents: {
    keys: { groups: "key", groupsOrder: "key", events: "key", eventsOrder: "key", budgets: "key", budgetsOrder: "key" },
    args: { sources: ["source", "group"], happenings: ["source", "key", "nanos"] },
  },
  forgeries: { keys: { forgeries: "key" }, args: { kept: "number" } },
  noteForgery: { keys: { forgeries: "key" }, args: { entry: "text", kept: "number" } },
  quarantine: { keys: { quarantine: "key", tally: "key" }, args: { entry: "text", place: "text", fate: "text", ended: "number" } },
  quarantined: { keys: { quarantine: "key" }, args: {} },
  tallies: { keys: { tally: "key" }, args: {} },

  // foreign-writes
  readStop: { keys: { stop: "key" }, args: {} },
  setStop: { keys: { stop: "key" }, args: { texts: ["field", "old", "new"] } },
} as const satisfies Readonly<
  Record<string, { readonly keys: Readonly<Record<string, KeyKind>>; readonly args: Readonly<Record<string, ArgKind>> }>
>;
