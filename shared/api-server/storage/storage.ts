/**
 * The counterpart of etcd: one revision counter, and one history per resource.
 *
 * AS1 every write takes the next revision, which becomes the object's resourceVersion.
 * AS2 stored objects never change, and are frozen by default; a write stores a new one.
 * AS3 listeners are called before a write returns, in revision order.
 */
import { deepFreeze, clone, ensureObject, type JsonObject, nameOf, namespaceOf } from "@deltaloop/base";
import { type StorageEvent, WatchHistory } from "./watch-history.ts";

export interface StorageOptions {
  /** Events kept per resource; older ones are compacted. */
  readonly historyEvents: number;
  readonly firstRevision: bigint;
  /** Whether a change of a stored object throws (AS2). */
  readonly freezes: boolean;
}

export class Storage {
  readonly #options: StorageOptions;
  readonly #objects = new Map<string, Map<string, Map<string, JsonObject>>>();
  readonly #histories = new Map<string, WatchHistory>();
  readonly #listeners = new Set<(event: StorageEvent) => void>();
  #revision: bigint;

  constructor(options: StorageOptions) {
    this.#options = options;
    this.#revision = options.firstRevision;
  }

  get revision(): bigint {
    return this.#revision;
  }

  get(resource: string, namespace: string, name: string): JsonObject | undefined {
    return this.#objects.get(resource)?.get(namespace)?.get(name);
  }

  /** Objects in key order (namespace, then name, by code unit), as etcd lists them. An empty namespace means all. */
  list(resource: string, namespace: string): JsonObject[] {
    const byNamespace = this.#objects.get(resource);
    if (byNamespace === undefined) return [];
    const names = namespace === "" ? [...byNamespace.keys()].sort() : [namespace];
    return names.flatMap((one) => {
      const byName = byNamespace.get(one);
      if (byName === undefined) return [];
      return [...byName].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
    });
  }

  count(resource: string, namespace: string): number {
    return this.#objects.get(resource)?.get(namespace)?.size ?? 0;
  }

  /** Creates or replaces; takes ownership of `object`. */
  put(resource: string, object: JsonObject): JsonObject {
    const previous = this.get(resource, namespaceOf(object), nameOf(object));
    const revision = this.#next();
    ensureObject(object, "metadata")["resourceVersion"] = String(revision);
    this.load(resource, object);
    this.#commit({
      type: previous === undefined ? "ADDED" : "MODIFIED",
      resource,
      revision,
      object,
      ...(previous === undefined ? {} : { previous }),
    });
    return object;
  }

  /** Stores an object with the version that it has, without an event; takes ownership of it. */
  load(resource: string, object: JsonObject): void {
    if (this.#options.freezes) deepFreeze(object);
    const byNamespace = getOrCreate(this.#objects, resource, () => new Map<string, Map<string, JsonObject>>());
    getOrCreate(byNamespace, namespaceOf(object), () => new Map<string, JsonObject>()).set(nameOf(object), object);
  }

  /** Deletes the object. Returns its last state with the revision of the deletion. */
  delete(resource: string, namespace: string, name: string): JsonObject | undefined {
    const previous = this.get(resource, namespace, name);
    if (previous === undefined) return undefined;
    this.#objects.get(resource)?.get(namespace)?.delete(name);
    const revision = this.#next();
    const object = clone(previous);
    ensureObject(object, "metadata")["resourceVersion"] = String(revision);
    if (this.#options.freezes) deepFreeze(object);
    this.#commit({ type: "DELETED", resource, revision, object, previous });
    return object;
  }

  history(resource: string): WatchHistory {
    return getOrCreate(this.#histories, resource, () => new WatchHistory(this.#options.historyEvents, this.#options.firstRevision));
  }

  /** Drops all history: older watches and pages get 410. */
  compact(): void {
    for (const resource of this.#objects.keys()) this.history(resource).compact(this.#revision);
  }

  /** Saves the state. @returns a function that restores it, revision included, without notifying listeners */
  backup(): () => void {
    const revision = this.#revision;
    const objects = [...this.#objects].map(
      ([resource, byNamespace]) => [resource, [...byNamespace].map(([namespace, byName]) => [namespace, [...byName]] as const)] as const,
    );
    return () => {
      this.#revision = revision;
      this.#objects.clear();
      this.#histories.clear();
      for (const [resource, byNamespace] of objects) {
        this.#objects.set(resource, new Map(byNamespace.map(([namespace, byName]) => [namespace, new Map(byName)])));
        this.#histories.set(resource, new WatchHistory(this.#options.historyEvents, revision));
      }
    };
  }

  /** @returns a function that unsubscribes */
  subscribe(listener: (event: StorageEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #next(): bigint {
    this.#revision += 1n;
    return this.#revision;
  }

  #commit(event: StorageEvent): void {
    this.history(event.resource).add(event);
    for (const listener of this.#listeners) listener(event);
  }
}

function getOrCreate<K, V>(map: Map<K, V>, key: K, create: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = create();
    map.set(key, value);
  }
  return value;
}
