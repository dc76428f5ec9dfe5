/**
 * Turns changed objects into items that the Store can apply in one step (informer §11.2). An item has the row to replace, the keys to
 * enqueue, the intents to settle, and the versions and counts that these were computed from. Applier and write-through share this code, so
 * a change has the same effects on both paths.
 */
import type { Cached, CachedPod, CachedReplicaSet, OwnerId, View, ObjectKey } from "@deltaloop/kube/objects";
import { controllerIn, isActive, isOwnView, splitKey } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { Log } from "@deltaloop/base";
import { LEFT_FIELD } from "@deltaloop/store/ports";
import type { Effect, Forged, IndexRequest, IndexStore, IndexView, ItemChange, NamespaceCount, Row } from "@deltaloop/store/ports";
import type { Delta, Lookups } from "./affected-keys.ts";
import { isOutside, sliceOf } from "./cache-registry.ts";
import type { CacheRegistry } from "./cache-registry.ts";

/**
 * A put or delete from a message, a response or a live read. A delete may contain the deleted object. `gone` is a live read that found
 * nothing.
 */
export interface Change {
  readonly type: ItemChange["type"];
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  readonly object: Cached<View> | undefined;
  /** From an ADDED event: the object has no row yet, unless write-through has already stored it. */
  readonly isNew?: boolean;
  /** The forged value that this change replaces (A14); its object was read live after that value was found. */
  readonly forged?: readonly Forged[];
}

export interface Prepared {
  readonly items: readonly ItemChange[];
  readonly counts: readonly NamespaceCount[];
  /** Forged rows among the look-ups (A14): effects were computed as if these rows were absent. */
  readonly forged: readonly Forged[];
  /** Items that are cached without enqueuing a key: an event handler threw, or returned an invalid key. */
  readonly faults: readonly Fault[];
}

export interface Fault {
  readonly key: ObjectKey;
  readonly why: string;
}

export interface PrepareOptions {
  readonly known?: KnownRows;
  /** Stored rows that the Store returned with its last response; they are not read again. */
  readonly found?: Pick<IndexView, "rows" | "current">;
  /** The changes are objects of a list at this version. */
  readonly listRV?: string;
  /** Reads the object live, for a cached row that is forged. */
  readonly live: (key: ObjectKey) => Promise<Change>;
}

/** Rows already read, by key; `undefined`: no row existed. The Store compares them with its own, so an outdated row only costs a retry. */
export type KnownRows = ReadonlyMap<ObjectKey, Row | undefined>;

/** Longest chain of look-ups: a pod's ReplicaSet, its Deployment, and a namespace's primaries. */
const LOOKUP_ROUNDS_MAX = 5;
/** An error may quote a name from a message, whose length is not limited. */
const WHY_LENGTH_MAX = 500;

/**
 * Prepares items with the rows that they replace.
 *
 * @throws {Error} when a decision still requests rows after LOOKUP_ROUNDS_MAX rounds: a bug in an events table.
 */
export async function prepareChanges(
  store: Pick<IndexStore, "readIndex">,
  registry: CacheRegistry,
  resource: View,
  changes: readonly Change[],
  { known = new Map(), found, listRV, live }: PrepareOptions,
): Promise<Prepared> {
  const seen = new Seen(store);
  if (found) seen.wasFound(resource, changes, found);
  else await seen.readRows(resource, changes, known, listRV);
  const believed = await Promise.all(changes.map((change) => believable(change, seen.forgedAt(resource, change.key), live)));
  for (let round = 0; round < LOOKUP_ROUNDS_MAX; round++) {
    const faults: Fault[] = [];
    const tables: Tables = { registry, resource, lookups: seen, faults };
    const items = believed.map((change) => itemChange(tables, change, seen));
    if (await seen.readMissing()) continue;
    const own = new Set(changes.map(({ key }) => key));
    const forged = seen.forged().filter((each) => each.resource !== resource || !own.has(each.key));
    return { items, counts: seen.counts(), forged, faults };
  }
  throw new Error(`the event handlers of ${resource} requested more than ${LOOKUP_ROUNDS_MAX} rounds of look-ups`);
}

/**
 * Prepares items without reading their rows (IX10), because most events are of new objects or of objects that were already written through.
 * For a new object the effects are computed. Any other item either equals its stored row, or the Store returns the row and the item is
 * prepared again. Look-ups are read as usual.
 */
export async function prepareUnread(
  store: Pick<IndexStore, "readIndex">,
  registry: CacheRegistry,
  resource: View,
  changes: readonly Change[],
  { live }: Pick<PrepareOptions, "live">,
): Promise<Prepared> {
  const added = changes.filter(({ isNew }) => isNew);
  const nothing: KnownRows = new Map(added.map(({ key }) => [key, undefined]));
  const prepared = await prepareChanges(store, registry, resource, added, { known: nothing, live });
  const news = new Map(prepared.items.map((item) => [item.key, item]));
  const items = changes.map((change) => ({
    ...(news.get(change.key) ?? notNew(registry, resource, change)),
    unread: true,
  }));
  return { ...prepared, items };
}

/** Returns the change, or the live object if stored values of the key are forged and must be replaced. */
async function believable(change: Change, forged: readonly Forged[], live: PrepareOptions["live"]): Promise<Change> {
  if (forged.length === 0) return change;
  const all = [...(change.forged ?? []), ...forged];
  const distinct = [...new Map(all.map((each) => [`${each.where} ${each.slice}`, each])).values()];
  return { ...(change.forged ? change : await live(change.key)), forged: distinct };
}

/** The controllers' events tables and their look-ups. */
interface Tables {
  readonly registry: CacheRegistry;
  readonly resource: View;
  readonly lookups: Lookups;
  readonly faults: Fault[];
}

function itemChange(tables: Tables, change: Change, seen: Seen): ItemChange {
  const { registry, resource } = tables;
  const row = seen.row(resource, change.key);
  const current = change.type === "put" && !change.forged ? seen.current(resource, change.key) : undefined;
  if (current) return unchanged(tables, change, current);
  const put = change.type === "put" ? change.object : undefined;
  const owner = put && sliceOf(registry, resource, put);
  return {
    type: change.type,
    key: change.key,
    uid: change.uid,
    rv: change.rv,
    ...(put && { object: put }),
    ...(owner !== undefined && { owner }),
    ...(put && isOutside(registry, resource, put) && { isOutside: true }),
    ...(row && { expected: { rv: row.rv, uid: row.uid, ...(row.owner !== undefined && { owner: row.owner }) } }),
    effects: effectsOf(tables, change, row),
    counted:
      controllerIn(registry.catalog, resource) !== undefined &&
      change.type !== "gone" &&
      (change.forged !== undefined || isCounted(tables, row, put)),
    ...(change.forged && { forged: change.forged }),
    lowers: resource === "pods" ? lowersOf(row, put as CachedPod | undefined, { owner, isGone: change.type === "gone" }) : [],
  };
}

/**
 * A put that is not newer than its row changes nothing (A4). If the row no longer exists when the Store applies the put, the expected
 * version differs and the item is retried.
 */
function unchanged({ registry, resource }: Tables, change: Change, { rv, uid, owner }: Omit<Row, "object">): ItemChange {
  return { ...bare(registry, resource, change), expected: { rv, uid, ...(owner !== undefined && { owner }) } };
}

/** Returns the item without effects, on the assumption that it equals its row. If it does not, the Store returns the row (IX10). */
function notNew(registry: CacheRegistry, resource: View, change: Change): ItemChange {
  const item = bare(registry, resource, change);
  const { type, uid, rv, owner } = item;
  return type === "put" ? { ...item, expected: { rv, uid, ...(owner !== undefined && { owner }) } } : item;
}

/** Returns the item without effects. A delete also has an owner, because the Store looks for the row in that owner's slice. */
function bare(registry: CacheRegistry, resource: View, { type, key, uid, rv, object }: Change): ItemChange {
  const owner = object && sliceOf(registry, resource, object);
  return {
    type,
    key,
    uid,
    rv,
    ...(type === "put" && object && { object }),
    ...(owner !== undefined && { owner }),
    effects: [],
    counted: false,
    lowers: [],
  };
}

/**
 * An event handler is synchronous, so an error is caused by the change itself and would recur on each redelivery. The object is cached all
 * the same (AP1), because a manifest removes all unlisted rows or none (informer §11.5). Only the resync then enqueues the affected keys.
 */
function effectsOf(tables: Tables, change: Change, row: Row | undefined): readonly Effect[] {
  try {
    const effects = decided(tables, change, row);
    for (const { key } of effects) splitKey(key);
    return effects;
  } catch (error) {
    tables.faults.push({ key: change.key, why: describeError(error).slice(0, WHY_LENGTH_MAX) });
    return [];
  }
}

export function reportFaults(log: Log, resource: View, faults: readonly Fault[]): void {
  for (const { key, why } of faults) log.error("event handler failed; object cached, no keys enqueued", { key, resource, why });
}

/** A replaced object is a delete and an add in one item (A10); a delete of an uncached object uses the message (A9). */
function decided({ registry, resource, lookups }: Tables, change: Change, row: Row | undefined): readonly Effect[] {
  const before = row?.object ?? (change.type === "delete" ? change.object : undefined);
  const after = change.type === "put" ? change.object : undefined;
  const deltas =
    before && after && row?.uid !== change.uid
      ? [delta(resource, before, undefined), delta(resource, undefined, after)]
      : [delta(resource, before, after)];
  return deltas.flatMap((each) => registry.affectedKeys.flatMap((affectedKeys) => affectedKeys(each, lookups)));
}

function delta(resource: View, before: Cached<View> | undefined, after: Cached<View> | undefined): Delta {
  // `resource` determines the type of both objects, which TypeScript cannot infer here.
  return { resource, ...(before && { old: before }), ...(after && { new: after }) } as Delta;
}

function isCounted({ registry, resource }: Tables, row: Row | undefined, put: Cached<View> | undefined): boolean {
  if (!row || !put) return row !== undefined || put !== undefined;
  const [before, after] = [row.object as CachedReplicaSet, put as CachedReplicaSet];
  if (row.uid !== after.metadata.uid || row.owner !== sliceOf(registry, resource, put)) return true;
  // Look-ups of user controllers read no selectors.
  return !isOwnView(resource) && JSON.stringify(before.spec.selector) !== JSON.stringify(after.spec.selector);
}

/** The intents that a pod's event settles, identified by the pod's name or uid. Upstream counts events instead (informer §13). */
function lowersOf(
  row: Row | undefined,
  put: CachedPod | undefined,
  { owner, isGone }: { readonly owner: OwnerId | undefined; readonly isGone: boolean },
): ItemChange["lowers"] {
  const lowers: { owner: OwnerId; op: string }[] = [];
  if (put && owner !== undefined) {
    lowers.push({ owner, op: `c:${put.name}` });
    if (put.deletionTimestamp !== undefined) lowers.push({ owner, op: `d:${put.uid}` });
  }
  if (row?.owner === undefined) return lowers;
  const isSame = row.uid === put?.uid;
  if (!isSame) lowers.push({ owner: row.owner, op: `d:${row.uid}` });
  const ended = !isGone && isActive(row.object as CachedPod) && !(isSame && isActive(put)); // only pods have these counters
  if (ended) lowers.push({ owner: row.owner, op: LEFT_FIELD });
  return lowers;
}

/** The rows read so far, and the requested rows that do not exist. */
class Seen implements Lookups {
  readonly #store: Pick<IndexStore, "readIndex">;
  readonly #rows = new Map<string, Row | undefined>();
  readonly #current = new Map<string, Omit<Row, "object">>();
  readonly #primaries = new Map<string, readonly Row[]>();
  readonly #counts = new Map<string, NamespaceCount>();
  #forged: readonly Forged[] = [];
  #missingRows = new Map<string, { readonly resource: View; readonly key: ObjectKey }>();
  #missingPrimaries = new Map<string, { readonly resource: View; readonly namespace: string }>();

  constructor(store: Pick<IndexStore, "readIndex">) {
    this.#store = store;
  }

  row(resource: View, key: ObjectKey): Row | undefined {
    return this.#rows.get(`${resource} ${key}`);
  }

  /** The row of the key, if it is at least as new as the change. */
  current(resource: View, key: ObjectKey): Omit<Row, "object"> | undefined {
    return this.#current.get(`${resource} ${key}`);
  }

  forged(): readonly Forged[] {
    return this.#forged;
  }

  forgedAt(resource: View, key: ObjectKey): readonly Forged[] {
    return this.#forged.filter((each) => each.resource === resource && each.key === key);
  }

  counts(): readonly NamespaceCount[] {
    return [...this.#counts.values()];
  }

  wasFound(resource: View, changes: readonly Change[], found: Pick<IndexView, "rows" | "current">): void {
    this.#learn(
      changes.map(({ key }) => ({ resource, key })),
      found,
    );
  }

  async readRows(resource: View, changes: readonly Change[], known: KnownRows, listRV: string | undefined): Promise<void> {
    for (const [key, row] of known) this.#rows.set(`${resource} ${key}`, row);
    const unread = new Map(changes.filter(({ key }) => !known.has(key)).map((change) => [change.key, change]));
    const list = listRV === undefined ? {} : { listRV };
    if (unread.size > 0)
      await this.#read({
        rows: [...unread.values()].map(({ type, key, rv }) => ({ resource, key, ...(type === "put" && { put: rv, ...list }) })),
      });
  }

  /** Reads the rows that look-ups missed. Returns whether there were any. */
  async readMissing(): Promise<boolean> {
    if (this.#missingRows.size === 0 && this.#missingPrimaries.size === 0) return false;
    const rows = [...this.#missingRows.values()];
    const counts = rows
      .filter(({ resource }) => resource !== "pods")
      .map(({ resource, key }) => ({ resource, namespace: splitKey(key).namespace }));
    const request = { rows, primaries: [...this.#missingPrimaries.values()], counts };
    this.#missingRows = new Map();
    this.#missingPrimaries = new Map();
    await this.#read(request);
    return true;
  }

  get<R extends View>(resource: R, key: ObjectKey): Cached<R> | undefined {
    const id = `${resource} ${key}`;
    if (!this.#rows.has(id)) {
      splitKey(key); // throws only if the caller passes an invalid key
      this.#missingRows.set(id, { resource, key });
    }
    return this.#rows.get(id)?.object as Cached<R> | undefined; // the id contains the resource
  }

  primaries<R extends View>(resource: R, namespace: string): readonly Cached<R>[] {
    const id = `${resource} ${namespace}`;
    const rows = this.#primaries.get(id);
    if (!rows) this.#missingPrimaries.set(id, { resource, namespace });
    return (rows ?? []).map((row) => row.object as Cached<R>); // the id contains the resource
  }

  async #read(request: IndexRequest): Promise<void> {
    const view = await this.#store.readIndex(request);
    this.#learn(request.rows ?? [], view);
    this.#forged = [...this.#forged, ...(view.forged ?? [])];
    for (const { resource, namespace, rows } of view.primaries) this.#primaries.set(`${resource} ${namespace}`, rows);
    for (const count of view.counts) {
      const id = `${count.resource} ${count.namespace}`;
      if (!this.#counts.has(id)) this.#counts.set(id, count); // keeps the first count, which was read before the look-ups
    }
  }

  #learn(asked: NonNullable<IndexRequest["rows"]>, { rows, current = [] }: Pick<IndexView, "rows" | "current">): void {
    for (const { resource, key } of asked) this.#rows.set(`${resource} ${key}`, undefined);
    for (const { resource, row } of current) {
      const id = `${resource} ${row.key}`;
      this.#current.set(id, row);
      this.#rows.delete(id); // the row exists, but was read without its object: a look-up reads it
    }
    for (const { resource, row } of rows) this.#rows.set(`${resource} ${row.key}`, row);
  }
}
