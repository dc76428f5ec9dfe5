/** The API server of a schedule: three kinds, with their history by version, without HTTP. */
import type { Cached, CachedPod, CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import { splitKey } from "../../../shared/kube/objects/resources.ts";
import type { ObjectKey } from "../../../shared/kube/objects/resources.ts";
import { cachedDeployment, cachedPod, cachedReplicaSet, ownedBy } from "../../support/builders.ts";

export const KINDS = ["deployments", "replicasets", "pods"] as const;
export type Kind = (typeof KINDS)[number];

export interface Event {
  readonly kind: Kind;
  readonly type: "put" | "delete";
  readonly isNew?: boolean;
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: number;
  readonly object: Cached;
}

/** A Recreate Deployment, the owner of the ReplicaSet `shop/a`. */
const DEPLOYMENT = "shop/d" as ObjectKey;
const SIZES_KEPT_MS = 100_000;

export class Api {
  readonly events: Event[] = [];
  readonly objects: { readonly [K in Kind]: Map<ObjectKey, Cached> } = { deployments: new Map(), replicasets: new Map(), pods: new Map() };
  /** The sizes of each ReplicaSet with their times, by its uid. */
  readonly #adoptedMs = new Map<string, number>();
  readonly #sizes = new Map<string, { readonly atMs: number; readonly size: number }[]>();
  /** Names of all pods that ever existed. */
  readonly names = new Set<string>();
  readonly #now: () => number;
  #version: number;
  #uids = 0;
  refusesCreates = false;

  constructor(now: () => number, firstVersion: number) {
    this.#now = now;
    this.#version = firstVersion;
  }

  get version(): number {
    return this.#version;
  }

  /** Simulates a write to an unwatched resource, such as a Lease. */
  tick(): number {
    return ++this.#version;
  }

  /** The state at a version, for lists of lagging servers. */
  at(kind: Kind, version: number): ReadonlyMap<ObjectKey, Event> {
    const state = new Map<ObjectKey, Event>();
    for (const event of this.events) {
      if (event.kind !== kind || event.rv > version) continue;
      if (event.type === "put") state.set(event.key, event);
      else state.delete(event.key);
    }
    return state;
  }

  replicaSet(key: ObjectKey): CachedReplicaSet | undefined {
    return this.objects.replicasets.get(key) as CachedReplicaSet | undefined; // a ReplicaSet
  }

  pod(key: ObjectKey): CachedPod | undefined {
    return this.objects.pods.get(key) as CachedPod | undefined; // a Pod
  }

  pods(): readonly CachedPod[] {
    return [...this.objects.pods.values()] as readonly CachedPod[]; // Pods
  }

  /** Pods of a ReplicaSet that are not being deleted. */
  ownedBy(uid: string): readonly CachedPod[] {
    return this.pods().filter(({ owner, deletionTimestamp }) => owner?.uid === uid && deletionTimestamp === undefined);
  }

  sizes(uid: string): readonly number[] {
    const all = this.#sizes.get(uid) ?? [];
    return all.filter((_, i) => (all[i + 1]?.atMs ?? Infinity) > this.#now() - SIZES_KEPT_MS).map(({ size }) => size);
  }

  createDeployment(): void {
    const resourceVersion = String(this.tick());
    this.#put(
      "deployments",
      DEPLOYMENT,
      cachedDeployment({ name: "d", uid: `d${++this.#uids}`, resourceVersion, strategy: { type: "Recreate" } }),
    );
  }

  createReplicaSet(key: ObjectKey, replicas: number): void {
    const { name } = splitKey(key);
    const deployment = this.objects.deployments.get(DEPLOYMENT);
    const owner = name === "a" && deployment && "metadata" in deployment ? ownedBy("Deployment", deployment) : undefined;
    const uid = `r${++this.#uids}`;
    this.#size(uid, replicas);
    const resourceVersion = String(this.tick());
    this.#put(
      "replicasets",
      key,
      cachedReplicaSet({ name, uid, resourceVersion, replicas, selector: { app: name }, ...(owner && { owner }) }),
    );
  }

  scale(key: ObjectKey, replicas: number): void {
    const rs = this.replicaSet(key);
    if (!rs) return;
    this.#size(rs.metadata.uid, replicas);
    const metadata = { ...rs.metadata, generation: (rs.metadata.generation ?? 0) + 1, resourceVersion: String(this.tick()) };
    this.#put("replicasets", key, { ...rs, metadata, spec: { ...rs.spec, replicas } });
  }

  /** @returns the changed object, or undefined if its version is not `resourceVersion` */
  status(key: ObjectKey, resourceVersion: string, replicas: number): CachedReplicaSet | undefined {
    const rs = this.replicaSet(key);
    if (rs?.metadata.resourceVersion !== resourceVersion) return undefined;
    const now = { ...rs, metadata: { ...rs.metadata, resourceVersion: String(this.tick()) }, status: { ...rs.status, replicas } };
    this.#put("replicasets", key, now);
    return now;
  }

  deleteReplicaSet(key: ObjectKey, orphan: boolean): void {
    const rs = this.replicaSet(key);
    if (!rs) return;
    this.#delete("replicasets", key);
    for (const pod of this.pods().filter(({ owner }) => owner?.uid === rs.metadata.uid)) {
      if (orphan) this.setOwner(podKey(pod), undefined);
      else this.#delete("pods", podKey(pod));
    }
  }

  createPod(name: string, rs: CachedReplicaSet): CachedPod | "exists" {
    const key = `shop/${name}` as ObjectKey;
    if (this.objects.pods.has(key)) return "exists";
    const owner = ownedBy("ReplicaSet", rs);
    const labels = { app: rs.metadata.name };
    const pod = cachedPod({ name, uid: `p${++this.#uids}`, resourceVersion: String(this.tick()), labels, owner });
    this.names.add(name);
    this.#put("pods", key, pod);
    return pod;
  }

  /** @returns the pod while it terminates, or undefined */
  deletePod(key: ObjectKey, uid: string | undefined, graceful: boolean): CachedPod | undefined {
    const pod = this.pod(key);
    if (!pod || (uid !== undefined && pod.uid !== uid)) return undefined;
    if (graceful && pod.deletionTimestamp === undefined) {
      const leaving = { ...pod, deletionTimestamp: "2026-03-01T10:00:30Z", resourceVersion: String(this.tick()) };
      this.#put("pods", key, leaving);
      return leaving;
    }
    this.#delete("pods", key);
    return undefined;
  }

  /** Simulates a status update by the kubelet. */
  touch(pod: CachedPod | undefined): void {
    if (pod) this.#put("pods", podKey(pod), { ...pod, resourceVersion: String(this.tick()) });
  }

  setOwner(key: ObjectKey, rs: CachedReplicaSet | undefined): CachedPod | undefined {
    const pod = this.pod(key);
    if (!pod || (rs && pod.owner)) return undefined;
    const { owner: _, ...orphan } = pod;
    const changed = { ...orphan, resourceVersion: String(this.tick()), ...(rs && { owner: ownedBy("ReplicaSet", rs) }) };
    this.#put("pods", key, changed);
    if (rs) this.#adoptedMs.set(pod.uid, this.#now());
    return changed;
  }

  /** Whether the pod has been adopted since the time. */
  isAdoptedSince({ uid }: CachedPod, atMs: number): boolean {
    return (this.#adoptedMs.get(uid) ?? Number.NEGATIVE_INFINITY) > atMs;
  }

  #size(uid: string, size: number): void {
    this.#sizes.set(uid, [...(this.#sizes.get(uid) ?? []), { atMs: this.#now(), size }]);
  }

  #put(kind: Kind, key: ObjectKey, object: Cached): void {
    const isNew = !this.objects[kind].has(key);
    this.objects[kind].set(key, object);
    this.events.push({ kind, type: "put", isNew, key, uid: uidOf(object), rv: Number(versionOf(object)), object });
  }

  #delete(kind: Kind, key: ObjectKey): void {
    const object = this.objects[kind].get(key);
    if (!object) return;
    this.objects[kind].delete(key);
    this.events.push({ kind, type: "delete", key, uid: uidOf(object), rv: this.tick(), object });
  }
}

export function podKey({ namespace, name }: CachedPod): ObjectKey {
  return `${namespace}/${name}`;
}

export function uidOf(object: Cached): string {
  return "metadata" in object ? object.metadata.uid : object.uid;
}

function versionOf(object: Cached): string {
  return "metadata" in object ? object.metadata.resourceVersion : object.resourceVersion;
}
