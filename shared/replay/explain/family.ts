/**
 * Finds the family of an object on the first read of a capture: a Deployment's ReplicaSets and their pods, a ReplicaSet's or
 * ReplicationController's pods. Only current pods, and pods that changed owners, are kept.
 */
import { CACHED_RESOURCES, CONTROLLER_INFO, tableOf } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import { identityIn, keyOf, ownerUidOf, uidOf } from "../capture-format/captured-object.ts";
import type { CapturedObject, CaptureRecord } from "../capture-format/capture.ts";
import type { Census } from "../capture-format/capture-stream.ts";
import type { ReplayedSync } from "../engine/sync-log.ts";
import { speaksOf } from "./story.ts";
import type { Subject } from "./story.ts";

/** The wanted object; an absent namespace matches any namespace. */
export type Wanted = Omit<Subject, "namespace"> & { readonly namespace?: string };

export interface Family {
  /** Whether the record concerns an object of the family. */
  has(record: CaptureRecord): boolean;
  /** Whether the family's syncs depend on the record, which is of its owner tree or of an object that it may adopt. */
  dependsOn(record: CaptureRecord): boolean;
  concerns(sync: ReplayedSync): boolean;
}

/** Limit of names kept as suggestions. */
const NAMES_MAX = 10_000;

export class FamilyCensus implements Census {
  readonly #wanted: readonly Wanted[];
  /** `shop/web` */
  #names = tableOf(CACHED_RESOURCES, () => new Set<string>());
  /** Uids of the wanted objects by `deployments shop/web`. */
  #found = new Map<string, Set<string>>();
  /** Each owner's place, and the uids of its own controllers. */
  #owners = new Map<string, { readonly place: string; readonly owners: Set<string> }>();
  #pods = new Map<string, string | undefined>();
  /** The owners of pods that changed owners. */
  #changed = new Map<string, Set<string | undefined>>();

  constructor(wanted: readonly Wanted[]) {
    this.#wanted = wanted;
  }

  begin(): void {
    this.#names = tableOf(CACHED_RESOURCES, () => new Set<string>());
    [this.#found, this.#owners, this.#pods, this.#changed] = [new Map(), new Map(), new Map(), new Map()];
  }

  see(record: CaptureRecord): void {
    const { resource, type } = record;
    const { key = "", uid, ownerUid: owner } = identityIn(record) ?? {};
    if (uid === undefined) return;
    const names = this.#names[resource];
    if (names.size < NAMES_MAX) names.add(key);
    const place = `${resource} ${key}`;
    if (this.#wanted.some((each) => isNamed(each, resource, key))) this.#found.set(place, (this.#found.get(place) ?? new Set()).add(uid));
    if (resource === "pods") this.#seePod(uid, owner, type === "DELETED");
    else {
      const { owners } = this.#owners.get(uid) ?? { owners: new Set() };
      this.#owners.set(uid, { place, owners: owner === undefined ? owners : owners.add(owner) });
    }
  }

  #seePod(uid: string, owner: string | undefined, isGone: boolean): void {
    const before = this.#pods.has(uid) ? this.#pods.get(uid) : owner;
    if (before !== owner) this.#changed.set(uid, (this.#changed.get(uid) ?? new Set([before])).add(owner));
    if (isGone) this.#pods.delete(uid);
    else this.#pods.set(uid, owner);
  }

  /** Names such as `shop/web`, possibly incomplete. */
  names(resource: CachedResource): ReadonlySet<string> {
    return this.#names[resource];
  }

  /** The namespaces of the wanted objects. */
  namespaces(wanted: Wanted): readonly string[] {
    const places = [...this.#found.keys()].filter((place) => {
      const [resource, key = ""] = place.split(" ");
      return isNamed(wanted, resource, key);
    });
    return places.map((place) => place.slice(place.indexOf(" ") + 1, place.indexOf("/")));
  }

  /** Call this after the last record. */
  familyOf(subject: Subject): Family {
    const { resource, namespace, name } = subject;
    const uids = new Set(this.#found.get(`${resource} ${namespace}/${name}`));
    const isOwned = (owner: string | undefined): boolean => owner !== undefined && uids.has(owner);
    // Only a Deployment's dependents have dependents of their own.
    for (const [uid, { owners }] of this.#owners) if (resource === "deployments" && [...owners].some(isOwned)) uids.add(uid);
    const places = new Set([...this.#owners].flatMap(([uid, { place }]) => (uids.has(uid) ? [place] : [])));
    const ownPod = (uid: string, object: CapturedObject): boolean =>
      isOwned(ownerUidOf(object)) || [...(this.#changed.get(uid) ?? [])].some(isOwned);
    const tree = this.#treeOf(uids);
    return {
      dependsOn: ({ resource: each, object }) => {
        const uid = object && uidOf(object);
        if (object === undefined || uid === undefined) return true;
        if (!keyOf(object).startsWith(`${namespace}/`)) return false;
        // The owner of a deleted pod is not recorded, so every pod counts.
        if (resource === "pods" || tree.has(uid)) return true;
        if (each === "deployments") return false;
        return [ownerUidOf(object), ...(this.#changed.get(uid) ?? [])].some((owner) => owner === undefined || tree.has(owner));
      },
      has({ resource: each, kind, object }) {
        if (kind === "listed") return true;
        const uid = object && uidOf(object);
        return object !== undefined && uid !== undefined && (uids.has(uid) || (each === "pods" && ownPod(uid, object)));
      },
      concerns: (sync) =>
        resource === "pods" ? speaksOf(sync, subject) : places.has(`${CONTROLLER_INFO[sync.controller].primary} ${sync.key}`),
    };
  }

  /**
   * Includes all owners, and all ReplicaSets of a Deployment, because the pods that one ReplicaSet deletes depend on the pods of the
   * others.
   */
  #treeOf(uids: ReadonlySet<string>): ReadonlySet<string> {
    const tree = new Set(uids);
    // The iteration includes uids that it adds.
    for (const uid of tree) for (const owner of this.#owners.get(uid)?.owners ?? []) tree.add(owner);
    for (const [uid, { owners }] of this.#owners) if ([...owners].some((owner) => tree.has(owner))) tree.add(uid);
    return tree;
  }
}

function isNamed({ resource, namespace, name }: Wanted, of: string | undefined, key: string): boolean {
  const [its, called] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
  return of === resource && called === name && (namespace ?? its) === its;
}
