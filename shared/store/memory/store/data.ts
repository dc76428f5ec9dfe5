/**
 * The data of the memory Store. Several Stores may share one `MemoryData`, as several functions share one Redis; every verb changes it in
 * one synchronous step.
 */
import { noCorrelations } from "@deltaloop/kube/events";
import type { CorrelatorMemory } from "@deltaloop/kube/events";
import { laneOf } from "../../lane.ts";
import { NOTHING_STOPPED } from "../../ports/guard-store.ts";
import type { Catalog, OwnerId, View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import { BUILT_IN, tableOf } from "@deltaloop/kube/objects";
import type {
  DecisionMark,
  EpochRecord,
  Forged,
  Forgery,
  GuardState,
  Checkpoint,
  Intent,
  LastWriteRecord,
  ManifestRow,
  LaneTally,
  QuarantineEntry,
  ResourceState,
  Row,
  TermToken,
} from "../../ports/store.ts";
import type { CheckedClock } from "./store-time.ts";

export interface MemoryData {
  /** The controllers whose keys and views this data contains; all Stores of this memory share them. */
  readonly catalog: Catalog;
  /** Identity of this memory: a new identity models a failover to another primary (SL1, SL2). */
  primary: string;
  epoch: EpochData | undefined;
  forgeries: readonly Forgery[];
  /** Events that each controller has sent. */
  events: { readonly [C in ControllerName]: CorrelatorMemory };
  /** The number of items by fate, for each `<resource>:<lane>`. */
  readonly tallies: Map<string, LaneTally>;
  /** The guard's state, which belongs to no epoch (GD2). */
  guard: GuardState;
  /** Times of the last opened epochs (LN5). */
  openedMs: readonly number[];
}

export interface EpochData {
  readonly catalog: Catalog;
  record: EpochRecord;
  readonly resources: Map<View, ResourceData>;
  /** Resources whose fence was opened. */
  readonly opened: Set<View>;
  readonly queues: { readonly [C in ControllerName]: QueueData };
  /** Intents by owner and op id. */
  readonly intents: Map<OwnerId, Map<string, StoredIntent>>;
  quarantine: readonly QuarantineEntry[];
  /** Marks by owner; deleted with the owner's intents. */
  readonly marks: Map<OwnerId, DecisionMark>;
  readonly left: Map<OwnerId, number>;
  readonly drawn: Map<OwnerId, number>;
  readonly records: Map<OwnerId, Map<string, LastWriteRecord>>;
  /** When each periodic job is due next. */
  readonly turns: Map<string, number>;
  /** The last heartbeat that was applied (HB2). */
  heartbeat: { readonly fence: string; readonly sentMs: number } | undefined;
  /** The last checkpoint and its fence. */
  checkpoint: Checkpoint | undefined;
  clock: CheckedClock | undefined;
  token: TermToken | undefined;
  /** The fence that was opened with the token. */
  tokenFence: string;
  /** LN2: whether the token's leader had a proof. */
  isProven: boolean;
  /** Number of SUSPECT marks so far. */
  suspectMarks: number;
}

export interface ResourceData {
  fence: string;
  /** Identity of the memory (MemoryData.primary) when the fence was opened. */
  primary: string;
  /** The term that opened the fence. */
  term: string | undefined;
  /** The greatest version that a run has written through. */
  written: string | undefined;
  /** Number of the last list that was announced (`openGeneration`). */
  generation: number;
  /** Number of the last list whose manifest every lane has applied. */
  syncedGeneration: number;
  state: ResourceState;
  suspectReason: string | undefined;
  /** Number of the last list that was announced before the resource became suspect; a later list ends this state. */
  suspectGeneration: number;
  /** Number of SUSPECT marks of the resource. */
  suspects: number;
  /** Time at which a list ended the last SUSPECT mark. */
  relistedMs: number | undefined;
  /** resourceVersion up to which the watcher has sent everything to the queue. */
  sent: string | undefined;
  lanes: readonly LaneData[];
  /** Rows by slice name (sliceName). */
  readonly slices: Map<string, Map<ObjectKey, Row>>;
  /** Rows by namespace. Only for primaries: no caller lists all pods of a namespace. */
  readonly namespaces: Map<string, Map<ObjectKey, Row>>;
  /** Number of relevant changes per namespace: primaries that were added, removed, or changed in a field that look-ups use. */
  readonly counts: Map<string, number>;
  /** Deleted primaries, each with a version at which it no longer existed; the last entry is dropped next. */
  predecessors: readonly { readonly key: ObjectKey; readonly rv: string }[];
  /** The greatest version among dropped predecessors. */
  predecessorsFloor: string;
  /** Keys whose payload is missing according to a manifest. */
  readonly needed: Set<ObjectKey>;
  /** Forged entries (forged.ts), by location. */
  readonly forged: Map<string, Forged>;
  /** When each row was flagged `gone`. */
  readonly goneSinceMs: Map<ObjectKey, number>;
}

export interface LaneData {
  /** The greatest sequence number of this fence up to which all messages are applied. */
  last: number;
  watermark: string;
  generation: number;
  frozen: boolean;
  /** Sequence numbers applied out of order, each with its message's watermark. */
  readonly holes: Map<number, string | undefined>;
  holeSinceMs: number | undefined;
  /** When a message was last applied in sequence. */
  contiguousAtMs: number | undefined;
  readonly rows: Map<ObjectKey, Row>;
  /** The resourceVersions of deletes above the watermark, by key. */
  readonly tombstones: Map<ObjectKey, string>;
  stash: { readonly generation: number; readonly rows: readonly ManifestRow[]; readonly parts: number } | undefined;
  /** The `part` of the last call that did not complete its message (A15). */
  part: string | undefined;
}

export interface QueueData {
  /** The earliest start of the next run, by key. */
  readonly ready: Map<ObjectKey, number>;
  /** The runs in progress. `unended`: number of consecutive runs directly before this one that never ended. */
  readonly runs: Map<ObjectKey, { readonly token: string; readonly leaseUntilMs: number; readonly unended: number }>;
  readonly failures: Map<ObjectKey, number>;
  /** The primaries in the index. */
  readonly primaries: Map<ObjectKey, PrimaryId>;
  /** The outstanding doorbell of each key. */
  readonly bells: Map<ObjectKey, { readonly rungAtMs: number; readonly dueMs: number; readonly rings: number }>;
  /** When each key's last run ended. */
  readonly endedAtMs: Map<ObjectKey, number>;
  /** Parked primaries, with their number of consecutive failures. */
  readonly parked: Map<ObjectKey, number>;
  /** Time at which the token bucket is full again if no further token is taken. */
  bucketMs: number;
}

/** uid of a primary, its controller owner, and whether lists and resyncs leave it out (ItemChange). */
export interface PrimaryId {
  readonly uid: string;
  readonly owner: OwnerId | undefined;
  readonly isOutside: boolean;
}

/** An intent and the key whose run registered it; the stream queues that key when it settles the intent. */
export interface StoredIntent {
  readonly intent: Intent;
  readonly controller: ControllerName;
  readonly key: ObjectKey;
}

export function createMemoryData(catalog = BUILT_IN): MemoryData {
  return {
    catalog,
    primary: "memory",
    epoch: undefined,
    forgeries: [],
    events: tableOf(catalog.controllers, noCorrelations),
    tallies: new Map(),
    guard: NOTHING_STOPPED,
    openedMs: [],
  };
}

/**
 * The memory for a changed catalog, for a Store that continues the epoch after the Stores of `data` have ended. Rows of views that stay, last-write
 * records and intents are kept. A controller whose primary's view is another one starts with an empty queue, which a list fills.
 */
export function withCatalog(data: MemoryData, catalog: Catalog): MemoryData {
  const { epoch } = data;
  const stays = (view: View): boolean => catalog.views.includes(view);
  const primaryOf = (of: Catalog, name: ControllerName): View | undefined => of.entries.get(name)?.primary;
  return {
    ...data,
    catalog,
    events: tableOf(catalog.controllers, (name) => data.events[name] ?? noCorrelations()),
    epoch: epoch && {
      ...epoch,
      catalog,
      resources: new Map([...epoch.resources].filter(([view]) => stays(view))),
      opened: new Set([...epoch.opened].filter(stays)),
      queues: tableOf(catalog.controllers, (name) =>
        primaryOf(catalog, name) === primaryOf(data.catalog, name) ? (epoch.queues[name] ?? newQueue()) : newQueue(),
      ),
    },
  };
}

export function newEpoch(catalog: Catalog, record: EpochRecord, token?: TermToken): EpochData {
  return {
    catalog,
    record,
    resources: new Map(),
    opened: new Set(),
    queues: tableOf(catalog.controllers, newQueue),
    intents: new Map(),
    marks: new Map(),
    left: new Map(),
    drawn: new Map(),
    records: new Map(),
    quarantine: [],
    turns: new Map(),
    heartbeat: undefined,
    checkpoint: undefined,
    clock: undefined,
    token,
    tokenFence: record.fence,
    isProven: true,
    suspectMarks: 0,
  };
}

export function queueOf({ queues }: Pick<EpochData, "queues">, controller: ControllerName): QueueData {
  return entryOf(queues, controller);
}

export function correlationsOf({ events }: Pick<MemoryData, "events">, controller: ControllerName): CorrelatorMemory {
  return entryOf(events, controller);
}

/** Returns a controller's entry of a table. @throws {RangeError} for a controller that the catalog lacks */
function entryOf<T>(table: { readonly [C in ControllerName]: T }, controller: ControllerName): T {
  const entry = table[controller];
  if (entry === undefined) throw new RangeError(`no controller ${controller}`);
  return entry;
}

function newQueue(): QueueData {
  return {
    ready: new Map(),
    runs: new Map(),
    failures: new Map(),
    primaries: new Map(),
    bells: new Map(),
    endedAtMs: new Map(),
    parked: new Map(),
    bucketMs: 0,
  };
}

export function newResource(fence: string, lanes: number, primary: string): ResourceData {
  return {
    fence,
    primary,
    term: undefined,
    written: undefined,
    generation: 0,
    syncedGeneration: 0,
    state: "INIT",
    suspectReason: undefined,
    suspectGeneration: 0,
    suspects: 0,
    relistedMs: undefined,
    sent: undefined,
    lanes: Array.from({ length: lanes }, newLane),
    slices: new Map(),
    namespaces: new Map(),
    counts: new Map(),
    predecessors: [],
    predecessorsFloor: "",
    needed: new Set(),
    forged: new Map(),
    goneSinceMs: new Map(),
  };
}

/** LG2: the lane becomes the first one of `lanes`. */
export function growLanes(resource: ResourceData, lanes: number): void {
  const [old] = resource.lanes;
  if (!old || resource.lanes.length > 1) return;
  const { watermark, generation, frozen, contiguousAtMs } = old;
  const isIn =
    (lane: number) =>
    ([key]: readonly [ObjectKey, unknown]) =>
      laneOf(key, lanes) === lane;
  resource.lanes = Array.from({ length: lanes }, (_, lane) => ({
    ...newLane(),
    ...{ watermark, generation, frozen, contiguousAtMs },
    rows: new Map([...old.rows].filter(isIn(lane))),
    tombstones: new Map([...old.tombstones].filter(isIn(lane))),
  }));
}

function newLane(): LaneData {
  return {
    last: 0,
    watermark: "0",
    generation: 0,
    frozen: false,
    holes: new Map(),
    holeSinceMs: undefined,
    contiguousAtMs: undefined,
    part: undefined,
    rows: new Map(),
    tombstones: new Map(),
    stash: undefined,
  };
}

/** Returns a lane of a resource. @throws {RangeError} if there is no such lane: the caller uses another number of lanes than the epoch. */
export function laneAt(resource: ResourceData, lane: number): LaneData {
  const data = resource.lanes[lane];
  if (!data) throw new RangeError(`no lane ${lane}: there are ${resource.lanes.length} lanes`);
  return data;
}

export function laneOfKey(resource: ResourceData, key: ObjectKey): LaneData {
  return laneAt(resource, laneOf(key, resource.lanes.length));
}

/** An OwnerId never starts with a dash; the orphans of a namespace have the slice `-<namespace>`. */
export function sliceName(owner: OwnerId | undefined, namespace: string): string {
  return owner ?? `-${namespace}`;
}

/** The keys of primaries that a list or resync enqueues, in order. */
export function primariesInside({ primaries }: QueueData): readonly ObjectKey[] {
  return [...primaries].flatMap(([key, { isOutside }]) => (isOutside ? [] : [key])).sort();
}

/** Rows of a slice in key order, so that reads are repeatable. */
export function readSlice(resource: ResourceData | undefined, slice: string): readonly Row[] {
  return sortedRows(resource?.slices.get(slice));
}

export function sortedRows(rows: ReadonlyMap<ObjectKey, Row> | undefined): readonly Row[] {
  return [...(rows?.values() ?? [])].sort(byKey);
}

/** Adds a value to a map of maps; `removeFrom` also removes inner maps that become empty. */
export function addTo<V>(maps: Map<string, Map<string, V>>, name: string, key: string, value: V): void {
  const map = maps.get(name);
  if (map) map.set(key, value);
  else maps.set(name, new Map([[key, value]]));
}

export function removeFrom<V>(maps: Map<string, Map<string, V>>, name: string, key: string): void {
  const map = maps.get(name);
  map?.delete(key);
  if (map?.size === 0) maps.delete(name);
}

export function byKey(a: { readonly key: ObjectKey }, b: { readonly key: ObjectKey }): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
}
