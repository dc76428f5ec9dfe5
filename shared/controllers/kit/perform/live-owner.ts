/**
 * Decides from the live owner, which is read before the first create, pod delete, adoption and copy of annotations, how a sync proceeds
 * (design decisions 5, 15, 16).
 */
import type { Cached, KubeObject } from "@deltaloop/kube/objects";
import { sameOwner, controllerRef, RESOURCES } from "@deltaloop/kube/objects";
import { seenAlready } from "../copied-annotations.ts";
import type { SyncResult } from "../run.ts";
import type { Sealed } from "../sealed.ts";
import type { CopiedAnnotations, Owner, SizeRef, TemplateRef } from "../writes.ts";

export type LiveOwner =
  | {
      readonly kind: "live";
      readonly object: Sealed<KubeObject>;
      readonly cached: Cached<Owner["resource"]>;
      /** The cache is newer than the API server: etcd was restored. Write-through has no effect until the next list. */
      readonly isCacheAhead: boolean;
    }
  | { readonly kind: "missing" }
  | { readonly kind: "otherUid"; readonly uid: string }
  | { readonly kind: "failed"; readonly error: Error };

/** Delay of the next run. The watcher lists again within seconds; an earlier run would see the same state. */
const CACHE_AHEAD_MS = 1_000;

/** Whether the live owner allows a create, a delete or a patch that copies annotations. */
export type Standing =
  | { readonly kind: "asDecided"; readonly live: Sealed<KubeObject> }
  /** The owner is being deleted: creates nothing; the garbage collector deletes its pods. */
  | { readonly kind: "deleting"; readonly live: Sealed<KubeObject> }
  /**
   * The sync ends: done if the owner no longer exists, otherwise requeued because the decision was made on another generation, template,
   * size or annotations. The requeue is immediate if the live object was written to the cache.
   */
  | { readonly kind: "ended"; readonly end: SyncResult };

/** Decides whether the call may be sent. @throws {Error} if the owner cannot be read */
export function standing(owner: LiveOwner, decided: TemplateRef | SizeRef | undefined, copied?: CopiedAnnotations): Standing {
  switch (owner.kind) {
    case "failed":
      throw owner.error;
    case "missing":
    case "otherUid":
      return { kind: "ended", end: { kind: "done" } };
    case "live": {
      const { metadata, spec } = owner.cached;
      const isSame = decided === undefined || ((metadata.generation ?? 0) === decided.generation && isAsDecided(spec, decided));
      if (!isSame || !seenAlready(metadata, copied))
        return { kind: "ended", end: { kind: "again", afterMs: owner.isCacheAhead ? CACHE_AHEAD_MS : 0 } };
      return { kind: metadata.deletionTimestamp === undefined ? "asDecided" : "deleting", live: owner.object };
    }
    default:
      return owner satisfies never;
  }
}

function isAsDecided(spec: Cached<Owner["resource"]>["spec"], decided: TemplateRef | SizeRef): boolean {
  // The default of `spec.replicas` is 1.
  return "digest" in decided ? spec.template?.digest === decided.digest : (spec.replicas ?? 1) === decided.replicas;
}

/**
 * Why adoption is not allowed, in upstream's words, or undefined.
 * Source: pkg/controller/controller_ref_manager.go RecheckDeletionTimestamp, replica_set.go claimPods.
 */
export function adoptionProblem(live: LiveOwner, { resource, namespace, name, uid }: Owner): string | undefined {
  const { group, kind } = RESOURCES[resource];
  switch (live.kind) {
    case "failed":
      return `can't recheck DeletionTimestamp: ${live.error.message}`;
    case "missing":
      return `can't recheck DeletionTimestamp: ${resource}${group === "" ? "" : `.${group}`} "${name}" not found`;
    case "otherUid":
      return `can't recheck DeletionTimestamp: original ${kind} ${namespace}/${name} is gone: got uid ${live.uid}, wanted ${uid}`;
    case "live": {
      const { deletionTimestamp } = live.cached.metadata;
      return deletionTimestamp === undefined ? undefined : `${namespace}/${name} has just been deleted at ${goTime(deletionTimestamp)}`;
    }
    default:
      return live satisfies never;
  }
}

/** Formats `2026-03-01T10:00:00Z` as Go does: `2026-03-01 10:00:00 +0000 UTC`. */
function goTime(text: string): string {
  return text.replace("T", " ").replace(/Z$/, " +0000 UTC");
}

/** Whether the live pod's controller reference equals the owner in every field (owner-id.ts). */
export function isPodOf({ resource, namespace, name, uid }: Owner, { metadata }: KubeObject): boolean {
  return metadata.namespace === namespace && sameOwner(controllerRef(metadata), { kind: RESOURCES[resource].kind, name, uid });
}
