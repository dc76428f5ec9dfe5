/**
 * Owner garbage collection: deletes dependents without owners; foreground deletion waits for dependents; orphaning
 * removes their references first.
 *
 * GB1 an object is deleted only if none of its owners exists by uid. Owners of unknown kinds count as existing.
 * GB2 every deletion carries the uid for which it was decided.
 *
 * Source: kubernetes/pkg/controller/garbagecollector/garbagecollector.go (attemptToDeleteItem, processDeletingDependentsItem, orphanDependents).
 */
import type { Clock } from "@deltaloop/base";
import { ApiError } from "../scheme/api-error.ts";
import { createBackgroundLoop, type BackgroundLoop } from "./background-loop.ts";
import { FOREGROUND_FINALIZER, ORPHAN_FINALIZER, type PropagationPolicy } from "../registry/deletion.ts";
import { clone, ensureObject, type JsonObject, jsonEqual, listAt, metaOf, nameOf, namespaceOf, objectsAt, textAt } from "@deltaloop/base";
import { type Registry, withoutFinalizer } from "../registry/registry.ts";
import type { ServedResources } from "../scheme/served-resources.ts";
import type { Storage } from "../storage/storage.ts";
import type { StorageEvent } from "../storage/watch-history.ts";

interface Node {
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export class GarbageCollector {
  readonly #storage: Storage;
  readonly #registry: Registry;
  readonly #resources: ServedResources;
  readonly #loop: BackgroundLoop;
  readonly #nodes = new Map<string, Node>();
  readonly #dependents = new Map<string, Set<string>>();
  /** Owners that were deleted before their dependents; their kind may have been deleted, too. */
  readonly #deletedOwners = new Set<string>();

  constructor(storage: Storage, registry: Registry, clock: Clock, options: { readonly delayMs: number; readonly signal: AbortSignal }) {
    this.#storage = storage;
    this.#registry = registry;
    this.#resources = registry.resources;
    this.#loop = createBackgroundLoop(clock, options.delayMs, options.signal, (uid) => this.#process(uid));
    storage.subscribe((event) => this.#observe(event));
  }

  /** Lists all objects again, as a collector that starts: the storage got them without events. */
  relist(): void {
    for (const known of [this.#nodes, this.#dependents, this.#deletedOwners]) known.clear();
    for (const { id: resource } of this.#resources.stored)
      for (const object of this.#storage.list(resource, "")) this.#observe({ type: "ADDED", resource, object });
  }

  #observe({ type, resource, object, previous }: Omit<StorageEvent, "revision">): void {
    const uid = textAt(metaOf(object), "uid") ?? "";
    const owners = ownerUids(object);
    for (const owner of previous === undefined ? [] : ownerUids(previous))
      if (!owners.includes(owner)) this.#dependents.get(owner)?.delete(uid);
    if (type === "DELETED") {
      this.#nodes.delete(uid);
      if ((this.#dependents.get(uid)?.size ?? 0) > 0) this.#deletedOwners.add(uid);
      for (const owner of owners) {
        const dependents = this.#dependents.get(owner);
        dependents?.delete(uid);
        if (dependents?.size === 0) this.#deletedOwners.delete(owner);
        // An owner in foreground deletion may have waited for this one.
        this.#loop.add(owner);
      }
      for (const dependent of this.#dependents.get(uid) ?? []) this.#loop.add(dependent);
      return;
    }
    this.#nodes.set(uid, { resource, namespace: namespaceOf(object), name: nameOf(object), uid });
    for (const owner of owners) this.#dependentsOf(owner).add(uid);
    const isNewlyOwned = owners.length > 0 && (previous === undefined || !jsonEqual(ownerUids(previous), owners));
    if (isNewlyOwned || metaOf(object)["deletionTimestamp"] !== undefined) this.#loop.add(uid);
  }

  #dependentsOf(owner: string): Set<string> {
    let dependents = this.#dependents.get(owner);
    if (dependents === undefined) {
      dependents = new Set();
      this.#dependents.set(owner, dependents);
    }
    return dependents;
  }

  #process(uid: string): void {
    const node = this.#nodes.get(uid);
    const object = node === undefined ? undefined : this.#storage.get(node.resource, node.namespace, node.name);
    if (node === undefined || object === undefined) return;
    try {
      if (isWaitingWith(object, ORPHAN_FINALIZER)) this.#orphanDependents(node);
      else if (isWaitingWith(object, FOREGROUND_FINALIZER)) this.#deleteDependents(node);
      else if (metaOf(object)["deletionTimestamp"] === undefined) this.#deleteIfUnowned(node, object);
    } catch (error) {
      // A concurrent write causes this rejection; its event requeues the object if necessary.
      if (!(error instanceof ApiError)) throw error;
    }
  }

  #orphanDependents(node: Node): void {
    for (const dependent of this.#dependentNodes(node.uid)) this.#dropOwners(dependent, new Set([node.uid]));
    this.#removeFinalizer(node, ORPHAN_FINALIZER);
  }

  #deleteDependents(node: Node): void {
    const dependents = this.#dependentNodes(node.uid);
    const blocking = dependents.filter((dependent) => {
      const object = this.#storage.get(dependent.resource, dependent.namespace, dependent.name);
      return objectsAt(metaOf(object ?? {}), "ownerReferences").some(
        (one) => one["uid"] === node.uid && one["blockOwnerDeletion"] === true,
      );
    });
    if (blocking.length === 0) this.#removeFinalizer(node, FOREGROUND_FINALIZER);
    for (const dependent of dependents) this.#loop.add(dependent.uid);
  }

  #deleteIfUnowned(node: Node, object: JsonObject): void {
    const references = objectsAt(metaOf(object), "ownerReferences");
    if (references.length === 0) return;
    const states = references.map((reference) => ({ uid: textAt(reference, "uid") ?? "", state: this.#ownerState(reference) }));
    const gone = states.filter(({ state }) => state !== "solid").map((one) => one.uid);
    if (gone.length < states.length) {
      if (gone.length > 0) this.#dropOwners(node, new Set(gone));
      return;
    }
    const isForeground = states.some(({ state }) => state === "waiting") && (this.#dependents.get(node.uid)?.size ?? 0) > 0;
    this.#delete(node, isForeground ? "Foreground" : "Background");
  }

  #ownerState(reference: JsonObject): "solid" | "dangling" | "waiting" {
    if (this.#deletedOwners.has(textAt(reference, "uid") ?? "")) return "dangling";
    if (this.#resources.findKind(textAt(reference, "apiVersion") ?? "", textAt(reference, "kind") ?? "") === undefined) return "solid";
    const owner = this.#nodes.get(textAt(reference, "uid") ?? "");
    const object = owner === undefined ? undefined : this.#storage.get(owner.resource, owner.namespace, owner.name);
    if (object === undefined) return "dangling";
    return isWaitingWith(object, FOREGROUND_FINALIZER) ? "waiting" : "solid";
  }

  #delete(node: Node, propagationPolicy: PropagationPolicy): void {
    this.#registry.delete(this.#resources.byId(node.resource), {
      namespace: node.namespace,
      name: node.name,
      uid: node.uid,
      propagationPolicy,
    });
  }

  #dropOwners(node: Node, uids: ReadonlySet<string>): void {
    this.#registry.update(this.#resources.byId(node.resource), {
      ...node,
      subresource: "",
      verb: "patch",
      transform: (current) => {
        const object = clone(current);
        const meta = ensureObject(object, "metadata");
        meta["ownerReferences"] = objectsAt(meta, "ownerReferences").filter((one) => !uids.has(textAt(one, "uid") ?? ""));
        return object;
      },
    });
  }

  #removeFinalizer(node: Node, finalizer: string): void {
    this.#registry.update(this.#resources.byId(node.resource), {
      ...node,
      subresource: "",
      verb: "patch",
      transform: (current) => withoutFinalizer(current, finalizer),
    });
  }

  #dependentNodes(uid: string): Node[] {
    return [...(this.#dependents.get(uid) ?? [])].flatMap((dependent) => this.#nodes.get(dependent) ?? []);
  }
}

function ownerUids(object: JsonObject): string[] {
  return objectsAt(metaOf(object), "ownerReferences").flatMap((reference) => textAt(reference, "uid") ?? []);
}

function isWaitingWith(object: JsonObject, finalizer: string): boolean {
  return metaOf(object)["deletionTimestamp"] !== undefined && listAt(metaOf(object), "finalizers").includes(finalizer);
}
