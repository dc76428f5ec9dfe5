/** The state of the API server after each event, for the checks, and its recent history. Filled by watches of its own, which never fail. */
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import type { WatchEvent, WatchStream } from "../../shared/api-server/rest/watch.ts";
import { compareResourceVersions } from "../../shared/kube/objects/resource-version.ts";
import { controllerRef } from "../../shared/kube/objects/owner-references.ts";
import { CACHED_RESOURCES, RESOURCES, objectKey } from "../../shared/kube/objects/resources.ts";
import type { CachedResource, ObjectKey } from "../../shared/kube/objects/resources.ts";
import type { Deployment, KubeObject, Pod, ReplicaSet } from "../../shared/kube/objects/wire.ts";
import type { Clock } from "../../shared/base/clock.ts";

export type Objects = {
  readonly pods: Pod;
  readonly replicasets: ReplicaSet;
  readonly deployments: Deployment;
  readonly replicationcontrollers: ReplicaSet;
};

export interface Change {
  readonly resource: CachedResource;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly before: KubeObject | undefined;
  readonly object: KubeObject;
}

/** The controller that a dependent references, and its namespace. */
export interface OwnerName {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

export class Mirror {
  readonly #clock: Clock;
  readonly #streams: { readonly resource: CachedResource; readonly stream: WatchStream }[] = [];
  readonly #objects = new Map(CACHED_RESOURCES.map((resource) => [resource, new Map<ObjectKey, KubeObject>()]));
  /** Versions with the time they were seen, by uid. */
  readonly #history = new Map<string, { readonly atMs: number; readonly object: KubeObject }[]>();
  readonly #owners = new Set<string>();
  readonly #onChange: (change: Change) => void;

  constructor(clock: Clock, onChange: (change: Change) => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  async start(server: ApiServer): Promise<void> {
    for (const resource of CACHED_RESOURCES) await this.#watch(server, resource);
  }

  /** Watches a server that was restored, and reports the difference as changes. */
  async restart(server: ApiServer): Promise<void> {
    this.update();
    this.#streams.length = 0;
    for (const resource of CACHED_RESOURCES) {
      const response = await server.request({ method: "GET", path: `/${RESOURCES[resource].path}/${resource}` });
      if (response.kind !== "object") throw new Error("no list");
      // A list of these resources.
      const list = response.body as unknown as { readonly metadata: { readonly resourceVersion: string }; readonly items: KubeObject[] };
      await this.#watch(server, resource, list.metadata.resourceVersion);
      const uids = new Set(list.items.map(({ metadata }) => metadata.uid));
      for (const object of [...this.#of(resource).values()])
        if (!uids.has(object.metadata.uid)) this.#apply({ resource, type: "DELETED", object });
      for (const object of list.items) this.#apply({ resource, type: "MODIFIED", object });
    }
  }

  async #watch(server: ApiServer, resource: CachedResource, resourceVersion?: string): Promise<void> {
    const query = { watch: true, timeoutSeconds: 1_000_000, ...(resourceVersion !== undefined && { resourceVersion }) };
    const response = await server.request({ method: "GET", path: `/${RESOURCES[resource].path}/${resource}`, query });
    if (response.kind !== "watch") throw new Error("no watch");
    this.#streams.push({ resource, stream: response.stream });
  }

  /** Reads the events since the last call in the server's order. */
  update(): void {
    const events: (Omit<Change, "before" | "type"> & Pick<WatchEvent, "type">)[] = [];
    for (const { resource, stream } of this.#streams) {
      // Watches of these resources deliver objects with the fields that every object has.
      for (const { type, object } of stream.take()) events.push({ resource, type, object: object as unknown as KubeObject });
    }
    if (events.length > 1)
      events.sort((a, b) => compareResourceVersions(a.object.metadata.resourceVersion, b.object.metadata.resourceVersion));
    for (const { resource, type, object } of events) {
      if (type === "ADDED" || type === "MODIFIED" || type === "DELETED") this.#apply({ resource, type, object });
    }
  }

  #apply({ resource, type, object }: Omit<Change, "before">): void {
    const key = objectKey(object.metadata.namespace ?? "", object.metadata.name);
    const objects = this.#of(resource);
    const before = objects.get(key);
    if (type === "DELETED") objects.delete(key);
    else {
      objects.set(key, object);
      this.#owners.add(textOf(ownerName(resource, object)));
      const history = this.#history.get(object.metadata.uid) ?? [];
      history.push({ atMs: this.#clock.now(), object });
      this.#history.set(object.metadata.uid, history);
    }
    this.#onChange({ resource, type, before, object });
  }

  get<R extends CachedResource>(resource: R, key: ObjectKey): (Objects[R] & KubeObject) | undefined {
    return this.#of(resource).get(key) as (Objects[R] & KubeObject) | undefined; // all values of that resource have its type
  }

  all<R extends CachedResource>(resource: R): readonly (Objects[R] & KubeObject)[] {
    return [...this.#of(resource).values()] as (Objects[R] & KubeObject)[]; // all values of that resource have its type
  }

  /** Dependents of `owner`, matched as shared/kube/objects/owner-id.ts does it; implemented again here, so that a bug there is found. */
  controlledBy<R extends CachedResource>(resource: R, owner: OwnerName): readonly (Objects[R] & KubeObject)[] {
    return this.all(resource).filter(({ metadata }) => {
      const ref = controllerRef(metadata);
      if (ref?.uid !== owner.uid || metadata.namespace !== owner.namespace) return false;
      return resource !== "pods" || (ref.kind === owner.kind && ref.name === owner.name);
    });
  }

  /** Returns whether such an owner exists, or ever existed. */
  isOwner(owner: OwnerName): boolean {
    return this.#owners.has(textOf(owner));
  }

  /** The versions of `uid` within the last `ms`, including the one at the start. */
  lately<T extends KubeObject>(uid: string, ms: number): readonly T[] {
    const history = this.#history.get(uid) ?? [];
    const since = this.#clock.now() - ms;
    // all objects with one uid have the same kind
    return history.filter((_, i) => i === history.length - 1 || (history[i + 1]?.atMs ?? 0) > since).map(({ object }) => object as T);
  }

  #of(resource: CachedResource): Map<ObjectKey, KubeObject> {
    const objects = this.#objects.get(resource);
    if (!objects) throw new Error(resource);
    return objects;
  }
}

/** The reference by which dependents name the object. */
export function ownerName(resource: CachedResource, { metadata }: KubeObject): OwnerName {
  return { namespace: metadata.namespace ?? "", kind: RESOURCES[resource].kind, name: metadata.name, uid: metadata.uid };
}

function textOf({ namespace, kind, name, uid }: OwnerName): string {
  return JSON.stringify([namespace, kind, name, uid]);
}

/** Returns whether a pod has neither ended nor is being deleted. */
export function isActive({ metadata, status }: Pod): boolean {
  return metadata?.deletionTimestamp === undefined && status?.phase !== "Succeeded" && status?.phase !== "Failed";
}
