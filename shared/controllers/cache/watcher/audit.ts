/**
 * Whether the cache is what the API server has (informer §15). Streams, lists and A14 mend what they come upon; what nobody comes upon,
 * a row that was taken away and an object on which nothing changes, is found here. Nothing is changed here: who calls decides.
 *
 * AU1 a row is only judged by what its lane says it has seen: an object that was listed at a version above the lane's watermark may be
 *    on its way, and one that is not listed may have gone with an event that is.
 * AU2 what an event between list and look could explain is listed a second time.
 * AU3 at most some lanes' objects are kept at once, and of each its key, versions and two short texts.
 *
 * It sees metadata: that an object is there, its uid, version, controller owner, labels and deletionTimestamp. That the rest of a row
 * is what we wrote at its version is said by its MAC alone. So it does not see a projection that was wrong when it was made, nor rows
 * above the watermark, nor intents and the work queue.
 */
import type {
  Cached,
  CachedPod,
  CachedReplicaSet,
  OwnerId,
  CachedResource,
  Controller,
  ObjectKey,
  Labels,
  ObjectMeta,
} from "@deltaloop/kube/objects";
import { laneOf, LANES } from "@deltaloop/store/ports";
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

/** An object as a list of metadata shows it. */
export interface ListedMeta {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  readonly owner?: OwnerId;
  /** Labels and deletionTimestamp as one text. */
  readonly visible: string;
  /** Whose dependent it is, if one of our controllers' primaries owns it. */
  readonly primary?: Primary;
}

export interface Primary {
  readonly controller: Controller;
  readonly key: ObjectKey;
}

/** One lane of the cache in one moment. */
export interface LaneView {
  /** Every event up to it has been applied. */
  readonly watermark: string;
  readonly rows: ReadonlyMap<ObjectKey, Pick<Row, "uid" | "rv">>;
  /** Rows that fail their MAC are no rows; they are among these, without one. */
  readonly entries: ReadonlyMap<ObjectKey, CachedEntry>;
}

/**
 * | kind | what differs |
 * |---|---|
 * | missing | the object exists, and there is no row |
 * | surplus | a row, and the object does not exist |
 * | older | the row is of an older version, and its lane says that it has seen the newer one |
 * | ahead | the row is of a version that the list at its own, later version does not know: of a history that is no more |
 * | other | another owner, labels or deletionTimestamp, though of the same version |
 * | unbelieved | the row or its entry fails its MAC, or the entry is missing or of another version |
 * | ghost | an entry without its row |
 */
export type DifferenceKind = "missing" | "surplus" | "older" | "ahead" | "other" | "unbelieved" | "ghost";

export interface Difference {
  readonly kind: DifferenceKind;
  readonly resource: CachedResource;
  readonly key: ObjectKey;
  /** `other`, `unbelieved`, `ghost`: what stands there, to be replaced by what is read live (A14). */
  readonly stands?: Forged;
  /** Who is to look once it is mended. */
  readonly primary?: Primary;
}

export interface Audit {
  readonly resource: CachedResource;
  readonly differences: readonly Difference[];
  /** Objects that were compared. */
  readonly compared: number;
  /** Lanes that had not come as far as the list when time was up: what is surplus there was not seen. */
  readonly unsettledLanes: number;
}

/** What `listed` (all objects of the lane at `listRV`) and `lane`, read after it, differ in. In the order of keys, rows before entries. */
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
  const cached = resource === "pods" ? (object as CachedPod) : (object as CachedReplicaSet).metadata; // `resource` says so
  return ownerOfCached(resource, object) !== owner || visibleOf(cached) !== visible;
}

function visibleOf({ labels = {}, deletionTimestamp = "" }: { readonly labels?: Labels; readonly deletionTimestamp?: string }): string {
  return JSON.stringify([Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)), deletionTimestamp]);
}

/** An item of a list; undefined: it has no metadata to go by, and the stream has it in quarantine. */
export function listedMeta(resource: CachedResource, item: unknown): ListedMeta | undefined {
  const { metadata } = item as { readonly metadata?: Partial<ObjectMeta> };
  const { namespace, name, uid, resourceVersion } = metadata ?? {};
  if (!metadata || !namespace || !name || !uid || !resourceVersion) return undefined;
  const reference = controllerRef(metadata as ObjectMeta); // the fields that matter are there
  // What ownerOfCached reads of either shape.
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

/** Objects that are kept at once are of that many lanes: AU3, and a list each. */
const LANES_AT_ONCE = 4;
const ENTRIES_PER_READ = 500;
/** Watermarks move by heartbeats, every 15 s, and bookmarks. */
const SETTLE_POLL_MS = 5_000;

/**
 * Compares all of `resource`, and changes nothing. `settleMs`: how long to wait for lanes that have not come as far as the list; 0 looks
 * at once.
 *
 * @throws {Error} when it cannot be listed or read
 */
export async function auditResource(ports: AuditPorts, resource: CachedResource, settleMs: number, signal: AbortSignal): Promise<Audit> {
  const differences: Difference[] = [];
  let compared = 0;
  let unsettledLanes = 0;
  for (let first = 0; first < LANES[resource]; first += LANES_AT_ONCE) {
    const lanes = Array.from({ length: Math.min(LANES_AT_ONCE, LANES[resource] - first) }, (_, i) => first + i);
    const found = await compareLanes(ports, resource, lanes, settleMs, signal);
    compared += found.compared;
    unsettledLanes += found.unsettled;
    const doubtful = new Set(found.differences.filter(isDoubtful).map(({ key }) => key));
    // AU2. A second look that settles nothing is one more chance for an event, so it does not wait.
    const again = doubtful.size > 0 ? (await compareLanes(ports, resource, lanes, 0, signal)).differences : [];
    differences.push(
      ...found.differences.filter((each) => !isDoubtful(each)),
      ...again.filter((each) => isDoubtful(each) && doubtful.has(each.key)),
    );
  }
  for (const { stands, owner } of await ports.store.readGhosts(resource))
    differences.push({ kind: "ghost", resource, key: stands.key, stands, ...(owner && { primary: owner }) });
  return { resource, differences, compared, unsettledLanes };
}

/** It may have been deleted after the list, or changed between the reads of its row and of its entry. */
function isDoubtful({ kind }: Difference): boolean {
  return kind === "missing" || kind === "unbelieved";
}

async function compareLanes(
  ports: AuditPorts,
  resource: CachedResource,
  lanes: readonly number[],
  settleMs: number,
  signal: AbortSignal,
): Promise<{ readonly differences: readonly Difference[]; readonly compared: number; readonly unsettled: number }> {
  const { clock, store } = ports;
  const watermarks = await Promise.all(lanes.map(async (lane) => (await store.readLane(resource, lane)).watermark));
  const floor = watermarks.reduce((a, b) => (compareResourceVersions(a, b) < 0 ? b : a));
  const { rv, objects } = await listMetadata(ports, resource, floor, new Set(lanes), signal);
  const untilMs = clock.now() + settleMs;
  const differences: Difference[] = [];
  let unsettled = 0;
  for (const lane of lanes) {
    const isBehind = async (): Promise<boolean> => compareResourceVersions((await store.readLane(resource, lane)).watermark, rv) < 0;
    while (clock.now() < untilMs && (await isBehind())) await clock.after(Math.min(SETTLE_POLL_MS, untilMs - clock.now()), signal);
    const view = await viewOf(store, resource, lane);
    if (compareResourceVersions(view.watermark, rv) < 0) unsettled++;
    differences.push(...compareLane(resource, objects.get(lane) ?? new Map(), rv, view));
  }
  const compared = [...objects.values()].reduce((sum, { size }) => sum + size, 0);
  return { differences, compared, unsettled };
}

async function viewOf(store: AuditPorts["store"], resource: CachedResource, lane: number): Promise<LaneView> {
  const { rows, forged, watermark } = await store.readLane(resource, lane);
  const keys = [...rows, ...forged.filter(({ where }) => where === "row")].map(({ key }) => key);
  const entries = new Map<ObjectKey, CachedEntry>();
  for (let at = 0; at < keys.length; at += ENTRIES_PER_READ)
    for (const entry of await store.readEntries(resource, keys.slice(at, at + ENTRIES_PER_READ))) entries.set(entry.key, entry);
  return { watermark, rows: new Map(rows.map((row) => [row.key, row])), entries };
}

/** Of the objects in `lanes`, by lane. Not older than `floor`, so that what is cached is not of a later time than all of it. */
async function listMetadata(
  { kube }: AuditPorts,
  resource: CachedResource,
  floor: string,
  lanes: ReadonlySet<number>,
  signal: AbortSignal,
): Promise<{ readonly rv: string; readonly objects: ReadonlyMap<number, Map<ObjectKey, ListedMeta>> }> {
  const objects = new Map([...lanes].map((lane) => [lane, new Map<ObjectKey, ListedMeta>()]));
  const start = floor === "0" ? {} : ({ resourceVersion: floor, resourceVersionMatch: "NotOlderThan" } as const);
  const pager = createPager();
  let rv = "0";
  let next: string | undefined;
  do {
    const query = next === undefined ? start : { continue: next };
    const page = await pager((limit) => kube.listPage(resource, { metadataOnly: true, limit, ...query }, signal));
    for (const item of page.items) {
      const object = listedMeta(resource, item);
      if (object) objects.get(laneOf(object.key, LANES[resource]))?.set(object.key, object);
    }
    rv = page.resourceVersion;
    next = page.continue;
  } while (next !== undefined && next !== "");
  return { rv, objects };
}

/** Who is queued when a difference that repair.ts mends is mended: itself, its owner, or nobody who exists. */
export function wokenBy({ resource, key, primary }: Difference): Primary {
  return primary ?? { controller: controllerOf(resource) ?? "replicaset", key };
}
