/**
 * What the memory Store remembers. Several Stores may be made over one `MemoryData`, as several functions look at one Redis;
 * every verb changes it in one synchronous step.
 */
import { noCorrelations } from "@deltaloop/kube/events";
import type { CorrelatorMemory } from "@deltaloop/kube/events";
import { laneOf } from "../../lane.ts";
import { NOTHING_STOPPED } from "../../ports/guard-store.ts";
import type { OwnerId, CachedResource, Controller, ObjectKey } from "@deltaloop/kube/objects";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type {
  DecisionMark,
  EpochRecord,
  Forged,
  Forgery,
  GuardState,
  Checkpoint,
  Intent,
  ManifestRow,
  LaneTally,
  QuarantineEntry,
  ResourceState,
  Row,
  TermToken,
} from "../../ports/store.ts";
import type { CheckedClock } from "./store-time.ts";

export interface MemoryData {
  /** Identity of this memory: another one models another primary (SL1, SL2). */
  primary: string;
  epoch: EpochData | undefined;
  forgeries: readonly Forgery[];
  /** Events that each controller has sent. */
  events: { readonly [C in Controller]: CorrelatorMemory };
  /** `<resource>:<lane>` to what became of the items that came. */
  readonly tallies: Map<string, LaneTally>;
  /** Outside of epochs (GD2). */
  guard: GuardState;
  /** When the last epochs were opened (LN5). */
  openedMs: readonly number[];
}

export interface EpochData {
  record: EpochRecord;
  readonly resources: Map<CachedResource, ResourceData>;
  /** Of which resources a fence was opened. */
  readonly opened: Set<CachedResource>;
  readonly queues: { readonly [C in Controller]: QueueData };
  /** By the owner, then by op id. */
  readonly intents: Map<OwnerId, Map<string, StoredIntent>>;
  quarantine: readonly QuarantineEntry[];
  /** By the owner, like `intents`, and deleted with them. */
  readonly marks: Map<OwnerId, DecisionMark>;
  readonly left: Map<OwnerId, number>;
  /** When it is the turn of what is done seldom. */
  readonly turns: Map<string, number>;
  /** The last checkpoint, and of which fence. */
  checkpoint: Checkpoint | undefined;
  clock: CheckedClock | undefined;
  token: TermToken | undefined;
  /** The fence that the token came with. */
  tokenFence: string;
  /** LN2: whether the token's leader had a proof. */
  isProven: boolean;
  /** SUSPECT marks so far. */
  suspectMarks: number;
}

export interface ResourceData {
  fence: string;
  /** The primary that the fence was opened on. */
  primary: string;
  /** The term that opened the fence. */
  term: string | undefined;
  /** The greatest version that a run has written through. */
  written: string | undefined;
  /** Last one opened. */
  generation: number;
  /** Last one that every lane has reached. */
  syncedGeneration: number;
  state: ResourceState;
  suspectReason: string | undefined;
  /** The generation that was open when it became suspect: a later one ends that. */
  suspectGeneration: number;
  /** How often it became suspect. */
  suspects: number;
  /** resourceVersion up to which the watcher has everything in the queue. */
  sent: string | undefined;
  readonly lanes: readonly LaneData[];
  /** Slice name (sliceName) to rows. */
  readonly slices: Map<string, Map<ObjectKey, Row>>;
  /** Namespace to rows. For primaries only: no caller lists all pods of a namespace. */
  readonly namespaces: Map<string, Map<ObjectKey, Row>>;
  /** Namespace to how often a primary of it appeared, disappeared or changed what look-ups rest on. */
  readonly counts: Map<string, number>;
  /** Primaries that are gone, with the version by which they were, the latest first to go. */
  predecessors: readonly { readonly key: ObjectKey; readonly rv: string }[];
  /** The greatest version of those that were dropped. */
  predecessorsFloor: string;
  /** Keys whose payload a manifest found missing. */
  readonly needed: Set<ObjectKey>;
  /** Tampered entries (forged.ts), by their place. */
  readonly forged: Map<string, Forged>;
  /** Since when rows are flagged `gone`. */
  readonly goneSinceMs: Map<ObjectKey, number>;
}

export interface LaneData {
  /** Last contiguous sequence of the fence. */
  last: number;
  watermark: string;
  generation: number;
  frozen: boolean;
  /** Sequences applied out of order, with the watermark that each carries. */
  readonly holes: Map<number, string | undefined>;
  holeSinceMs: number | undefined;
  /** When a message was last applied in its turn. */
  contiguousAtMs: number | undefined;
  readonly rows: Map<ObjectKey, Row>;
  /** Key to the resourceVersion of deletes above the watermark. */
  readonly tombstones: Map<ObjectKey, string>;
  stash: { readonly generation: number; readonly rows: readonly ManifestRow[]; readonly parts: number } | undefined;
}

export interface QueueData {
  /** Key to when it may run. */
  readonly ready: Map<ObjectKey, number>;
  /** `unended`: the starts right before it that never ended. */
  readonly runs: Map<ObjectKey, { readonly token: string; readonly leaseUntilMs: number; readonly unended: number }>;
  readonly failures: Map<ObjectKey, number>;
  /** The primaries as indexed. */
  readonly primaries: Map<ObjectKey, PrimaryId>;
  /** The outstanding doorbell of a key. */
  readonly bells: Map<ObjectKey, { readonly rungAtMs: number; readonly dueMs: number; readonly rings: number }>;
  /** When the last run ended. */
  readonly endedAtMs: Map<ObjectKey, number>;
  /** Keys of primaries whose last run gave up, and after how many failures in a row. */
  readonly parked: Map<ObjectKey, number>;
  /** When the token bucket is full again, seen from its last withdrawal. */
  bucketMs: number;
}

/** uid of a primary, and its controller owner. */
export interface PrimaryId {
  readonly uid: string;
  readonly owner: OwnerId | undefined;
}

/** An intent and the key whose run registered it: lowering by the stream queues that key. */
export interface StoredIntent {
  readonly intent: Intent;
  readonly controller: Controller;
  readonly key: ObjectKey;
}

export function createMemoryData(): MemoryData {
  return {
    primary: "memory",
    epoch: undefined,
    forgeries: [],
    events: tableOf(CONTROLLERS, noCorrelations),
    tallies: new Map(),
    guard: NOTHING_STOPPED,
    openedMs: [],
  };
}

export function newEpoch(record: EpochRecord, token?: TermToken): EpochData {
  return {
    record,
    resources: new Map(),
    opened: new Set(),
    queues: tableOf(CONTROLLERS, newQueue),
    intents: new Map(),
    marks: new Map(),
    left: new Map(),
    quarantine: [],
    turns: new Map(),
    checkpoint: undefined,
    clock: undefined,
    token,
    tokenFence: record.fence,
    isProven: true,
    suspectMarks: 0,
  };
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

function newLane(): LaneData {
  return {
    last: 0,
    watermark: "0",
    generation: 0,
    frozen: false,
    holes: new Map(),
    holeSinceMs: undefined,
    contiguousAtMs: undefined,
    rows: new Map(),
    tombstones: new Map(),
    stash: undefined,
  };
}

/** @throws {RangeError} for a lane that the resource does not have: the caller counts lanes otherwise than its epoch. */
export function laneAt(resource: ResourceData, lane: number): LaneData {
  const data = resource.lanes[lane];
  if (!data) throw new RangeError(`no lane ${lane}: there are ${resource.lanes.length} lanes`);
  return data;
}

export function laneOfKey(resource: ResourceData, key: ObjectKey): LaneData {
  return laneAt(resource, laneOf(key, resource.lanes.length));
}

/** An OwnerId never starts with a dash; a namespace's orphans are under `-<namespace>`. */
export function sliceName(owner: OwnerId | undefined, namespace: string): string {
  return owner ?? `-${namespace}`;
}

/** Rows of a slice in the order of their keys, so that two reads are equal. */
export function readSlice(resource: ResourceData | undefined, slice: string): readonly Row[] {
  return sortedRows(resource?.slices.get(slice));
}

export function sortedRows(rows: ReadonlyMap<ObjectKey, Row> | undefined): readonly Row[] {
  return [...(rows?.values() ?? [])].sort(byKey);
}

/** Adds to a map of maps; `removeFrom` leaves no empty one behind. */
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
