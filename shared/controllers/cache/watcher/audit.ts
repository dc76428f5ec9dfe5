/**
 * Compares the cache with the API server (informer §15). Streams, lists and A14 repair the rows that they touch. The audit finds the rest: a
 * row that was removed, or an object that never changes. It reports differences; the caller repairs them.
 *
 * AU1 a difference counts only if events at or below the lane's watermark cannot explain it: the event of a newer object, or the delete of
 *     an object that is not listed, may still be in flight.
 * AU2 differences that an event between list and read could explain are listed a second time, by a quorum read: a server that lags may list
 *     an object whose delete the cache has applied.
 * AU3 it holds the objects of a few lanes at a time in memory, and of each object only key, versions and two short texts.
 *
 * It compares existence, uid, version, controller owner, labels and deletionTimestamp. The rest of a row is covered by its MAC alone. It
 * does not check what `strip` caches, rows above the watermark, intents or the work queue.
 */
import type {
  Cached,
  CachedPod,
  CachedReplicaSet,
  OwnerId,
  CachedResource,
  ControllerName,
  ObjectKey,
  Labels,
  ObjectMeta,
} from "@deltaloop/kube/objects";
import { laneOf } from "@deltaloop/store/ports";
import {
  controllerRef,
  referencedKey,
  ownerOfCached,
  CONTROLLER_INFO,
  controllerOf,
  CONTROLLERS,
  objectKey,
  RESOURCES,
  compareResourceVersions,
} from "@deltaloop/kube/objects";
import type { Clock } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";
import { createPager } from "@deltaloop/kube/client";
import type { CachedEntry, Forged, Row, Store } from "@deltaloop/store/ports";

/** An object as a metadata list shows it. */
export interface ListedMeta {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  readonly owner?: OwnerId;
  /** Labels and deletionTimestamp as one text. */
  readonly visible: string;
  /** The controller owner, if one of deltaloop's controllers syncs it. */
  readonly primary?: Primary;
}

export interface Primary {
  readonly controller: ControllerName;
  readonly key: ObjectKey;
}

/** Snapshot of one lane of the cache. */
export interface LaneView {
  /** Every event up to it has been applied. */
  readonly watermark: string;
  readonly rows: ReadonlyMap<ObjectKey, Pick<Row, "uid" | "rv">>;
  /** Slice entries by key. A row with an invalid MAC counts as missing, so `entries` may have a key that `rows` lacks. */
  readonly entries: ReadonlyMap<ObjectKey, CachedEntry>;
}

/**
 * | kind | difference |
 * |---|---|
 * | missing | the object exists without a row |
 * | surplus | the row exists without an object |
 * | older | the row is older, although its lane has applied the newer version |
 * | ahead | the row's version is unknown to a later list: it is from a lost history |
 * | other | another owner, labels or deletionTimestamp at the same version |
 * | unbelieved | the row or its entry has an invalid MAC, or the entry is missing or has another version |
 * | ghost | an entry without its row |
 */
export type DifferenceKind = "missing" | "surplus" | "older" | "ahead" | "other" | "unbelieved" | "ghost";

export interface Difference {
  readonly kind: DifferenceKind;
  readonly resource: CachedResource;
  readonly key: ObjectKey;
  /** `other`, `unbelieved`, `ghost`: the stored text, which the live object replaces (A14). */
  readonly stands?: Forged;
  /** The primary to enqueue after the repair. */
  readonly primary?: Primary;
}

export interface Audit {
  readonly resource: CachedResource;
  readonly differences: readonly Difference[];
  /** Number of objects compared. */
  readonly compared: number;
  /** Lanes whose watermark did not reach the list's version in time; surplus rows in them were not detected. */
  readonly unsettledLanes: number;
}

/**
 * Returns the differences between `listed` (all objects of the lane at `listRV`) and `lane`, which was read later. Sorted by key, rows
 * before entries.
 */
export function compareLane(
  resource: CachedResource,
  listed: ReadonlyMap<ObjectKey, ListedMeta>,
  listRV: string,
  { watermark, rows, entries }: LaneView,
): readonly Difference[] {
  const hasSeen = (rv: string): boolean => compareResourceVersions(rv, watermark) <= 0;
  const isSettled = hasSeen(listRV);
  const kindOf = (key: ObjectKey): DifferenceKind | undefined => {
    const object = listed.get(key);
    const row = rows.get(key);
    const entry = entries.get(key);
    if (entry && !entry.row) return "unbelieved";
    if (!row) return object && hasSeen(object.rv) ? "missing" : undefined;
    const isOfList = compareResourceVersions(row.rv, listRV) <= 0;
    if (!object) return isSettled && isOfList ? "surplus" : undefined;
    const order = compareResourceVersions(row.rv, object.rv);
    if (order < 0) return hasSeen(object.rv) ? "older" : undefined;
    if (order > 0) return isOfList ? "ahead" : undefined;
    return row.uid !== object.uid || (entry?.row?.rv === object.rv && showsOther(resource, object, entry.row)) ? "other" : undefined;
  };
  return [...new Set([...listed.keys(), ...rows.keys(), ...entries.keys()])].toSorted().flatMap((key) => {
    const kind = kindOf(key);
    if (kind === undefined) return [];
    const stands = kind === "other" || kind === "unbelieved" ? entries.get(key)?.stands : undefined;
    const primary = listed.get(key)?.primary;
    return [{ kind, resource, key, ...(stands && { stands }), ...(primary && { primary }) }];
  });
}

function showsOther(resource: CachedResource, { owner, visible }: ListedMeta, { object }: Row): boolean {
  const cached = resource === "pods" ? (object as CachedPod) : (object as CachedReplicaSet).metadata; // the shape follows `resource`
  return ownerOfCached(resource, object) !== owner || visibleOf(cached) !== visible;
}

function visibleOf({ labels = {}, deletionTimestamp = "" }: { readonly labels?: Labels; readonly deletionTimestamp?: string }): string {
  return JSON.stringify([Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)), deletionTimestamp]);
}

/** An item of a list; undefined if its metadata is unusable. The stream quarantines such an object. */
export function listedMeta(resource: CachedResource, item: unknown): ListedMeta | undefined {
  const { metadata } = item as { readonly metadata?: Partial<ObjectMeta> };
  const { namespace, name, uid, resourceVersion } = metadata ?? {};
  if (!metadata || !namespace || !name || !uid || !resourceVersion) return undefined;
  const reference = controllerRef(metadata as ObjectMeta); // has the fields that controllerRef reads
  // The fields that ownerOfCached reads, for either shape.
  const cached = (resource === "pods" ? { namespace, ...(reference && { owner: reference }) } : { metadata }) as unknown as Cached;
  const owner = ownerOfCached(resource, cached);
  const controller = CONTROLLERS.find((each) => {
    const { dependents, primary } = CONTROLLER_INFO[each];
    return dependents === resource && RESOURCES[primary].kind === reference?.kind;
  });
  const primary = reference && referencedKey(namespace, reference);
  return {
    key: objectKey(namespace, name),
    uid,
    rv: resourceVersion,
    ...(owner !== undefined && { owner }),
    visible: visibleOf(metadata),
    ...(controller && primary !== undefined && { primary: { controller, key: primary } }),
  };
}

export interface AuditPorts {
  readonly kube: Pick<KubeWatch, "listPage">;
  readonly store: Pick<Store, "readLane" | "readEntries" | "readGhosts">;
  readonly clock: Clock;
}

/** Lanes compared at a time, each with its own list; bounds memory (AU3). */
const LANES_AT_ONCE = 4;
const ENTRIES_PER_READ = 500;
/** Interval of checks of the watermarks, which move with heartbeats (every 15 s) and bookmarks. */
const SETTLE_POLL_MS = 5_000;

/**
 * Compares all objects of `resource` and changes nothing. `settleMs`: how long to wait until the lanes' watermarks reach the list's version;
 * 0 compares at once.
 *
 * @throws {Error} if listing or reading fails
 */
export async function auditResource(ports: AuditPorts, resource: CachedResource, settleMs: number, signal: AbortSignal): Promise<Audit> {
  const differences: Difference[] = [];
  let compared = 0;
  let unsettledLanes = 0;
  const { lanes: count } = await ports.store.readLane(resource, 0);
  for (let first = 0; first < count; first += LANES_AT_ONCE) {
    const lanes = { count, numbers: Array.from({ length: Math.min(LANES_AT_ONCE, count - first) }, (_, i) => first + i) };
    const found = await compareLanes(ports, resource, lanes, { settleMs, isQuorum: false }, signal);
    compared += found.compared;
    unsettledLanes += found.unsettled;
    const doubtful = new Set(found.differences.filter(isDoubtful).map(({ key }) => key));
    // AU2. The second comparison does not wait for watermarks: the longer it takes, the more events come between list and read.
    const again =
      doubtful.size > 0 ? (await compareLanes(ports, resource, lanes, { settleMs: 0, isQuorum: true }, signal)).differences : [];
    differences.push(
      ...found.differences.filter((each) => !isDoubtful(each)),
      ...again.filter((each) => isDoubtful(each) && doubtful.has(each.key)),
    );
  }
  for (const { stands, owner } of await ports.store.readGhosts(resource))
    differences.push({ kind: "ghost", resource, key: stands.key, stands, ...(owner && { primary: owner }) });
  return { resource, differences, compared, unsettledLanes };
}

/**
 * Whether a second comparison is needed (AU2): the object may have been deleted after the list, or changed between the reads of its row and
 * its entry.
 */
function isDoubtful({ kind }: Difference): boolean {
  return kind === "missing" || kind === "unbelieved";
}

/** Some of the `count` lanes of a resource. */
interface AuditedLanes {
  readonly count: number;
  readonly numbers: readonly number[];
}

async function compareLanes(
  ports: AuditPorts,
  resource: CachedResource,
  lanes: AuditedLanes,
  { settleMs, isQuorum }: { readonly settleMs: number; readonly isQuorum: boolean },
  signal: AbortSignal,
): Promise<{ readonly differences: readonly Difference[]; readonly compared: number; readonly unsettled: number }> {
  const { clock, store } = ports;
  const floor = isQuorum ? "0" : await greatestWatermark(store, resource, lanes);
  const { rv, objects } = await listMetadata(ports, resource, floor, lanes, signal);
  const untilMs = clock.now() + settleMs;
  const differences: Difference[] = [];
  let unsettled = 0;
  for (const lane of lanes.numbers) {
    const isBehind = async (): Promise<boolean> => compareResourceVersions((await store.readLane(resource, lane)).watermark, rv) < 0;
    while (clock.now() < untilMs && (await isBehind())) await clock.after(Math.min(SETTLE_POLL_MS, untilMs - clock.now()), signal);
    const view = await viewOf(store, resource, lane);
    if (view.lanes !== lanes.count) throw new Error(`the lanes of ${resource} have grown during the audit`);
    if (compareResourceVersions(view.watermark, rv) < 0) unsettled++;
    differences.push(...compareLane(resource, objects.get(lane) ?? new Map(), rv, view));
  }
  const compared = [...objects.values()].reduce((sum, { size }) => sum + size, 0);
  return { differences, compared, unsettled };
}

async function greatestWatermark(store: AuditPorts["store"], resource: CachedResource, { numbers }: AuditedLanes): Promise<string> {
  const watermarks = await Promise.all(numbers.map(async (lane) => (await store.readLane(resource, lane)).watermark));
  return watermarks.reduce((a, b) => (compareResourceVersions(a, b) < 0 ? b : a));
}

async function viewOf(store: AuditPorts["store"], resource: CachedResource, lane: number): Promise<LaneView & { readonly lanes: number }> {
  const { rows, forged, watermark, lanes } = await store.readLane(resource, lane);
  const keys = [...rows, ...forged.filter(({ where }) => where === "row")].map(({ key }) => key);
  const entries = new Map<ObjectKey, CachedEntry>();
  for (let at = 0; at < keys.length; at += ENTRIES_PER_READ)
    for (const entry of await store.readEntries(resource, keys.slice(at, at + ENTRIES_PER_READ))) entries.set(entry.key, entry);
  return { watermark, lanes, rows: new Map(rows.map((row) => [row.key, row])), entries };
}

/** The listed objects of `lanes`, by lane, at least at version `floor`, so that the list is not older than the whole cache; "0": a quorum read. */
async function listMetadata(
  { kube }: AuditPorts,
  resource: CachedResource,
  floor: string,
  lanes: AuditedLanes,
  signal: AbortSignal,
): Promise<{ readonly rv: string; readonly objects: ReadonlyMap<number, Map<ObjectKey, ListedMeta>> }> {
  const objects = new Map(lanes.numbers.map((lane) => [lane, new Map<ObjectKey, ListedMeta>()]));
  const start = floor === "0" ? {} : ({ resourceVersion: floor, resourceVersionMatch: "NotOlderThan" } as const);
  const pager = createPager();
  let rv = "0";
  let next: string | undefined;
  do {
    const query = next === undefined ? start : { continue: next };
    const page = await pager((limit) => kube.listPage(resource, { metadataOnly: true, limit, ...query }, signal));
    for (const item of page.items) {
      const object = listedMeta(resource, item);
      if (object) objects.get(laneOf(object.key, lanes.count))?.set(object.key, object);
    }
    rv = page.resourceVersion;
    next = page.continue;
  } while (next !== undefined && next !== "");
  return { rv, objects };
}

/** The keys to enqueue after repair.ts has repaired a difference: the object itself, its owner, or none. */
export function primaryToEnqueue({ resource, key, primary }: Difference): Primary {
  return primary ?? { controller: controllerOf(resource) ?? "replicaset", key };
}
