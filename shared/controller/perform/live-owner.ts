/**
 * The live read of the owner that precedes the first create, pod delete, adoption and copy of its annotations in a sync (design
 * decisions 5, 15, 16).
 */
import type { Cached } from "../../api/cached.ts";
import type { KubeObject } from "../../api/wire.ts";
import { sameOwner } from "../../api/owner-id.ts";
import { controllerRef } from "../../api/owner-references.ts";
import { compareResourceVersions } from "../../api/resource-version.ts";
import { RESOURCES } from "../../api/resources.ts";
import { seenAlready } from "../copied-annotations.ts";
import { toError } from "../errors.ts";
import type { Run, SyncPorts } from "../run.ts";
import { Sealed } from "../sealed.ts";
import type { CopiedAnnotations, Owner, SizeRef, TemplateRef } from "../writes.ts";
import { save, sessionOf } from "./calls.ts";

export type LiveOwner =
  | {
      readonly kind: "live";
      readonly object: Sealed<KubeObject>;
      readonly cached: Cached<Owner["resource"]>;
      /** The cache has a newer version than the API server: etcd was restored, and until the next list writing through is of no effect. */
      readonly isCacheAhead: boolean;
    }
  | { readonly kind: "missing" }
  | { readonly kind: "otherUid"; readonly uid: string }
  | { readonly kind: "failed"; readonly error: Error };

/** The watcher lists again within seconds; until then every run would find the same. */
const CACHE_AHEAD_MS = 1_000;

/** Read once per run, failures included, and written through if the cache shows another version. */
export function liveOwner(ports: SyncPorts, run: Run, owner: Owner): Promise<LiveOwner> {
  const session = sessionOf(run);
  return (session.live ??= readOwner(ports, run, owner));
}

async function readOwner(ports: SyncPorts, run: Run, { resource, namespace, name, uid }: Owner): Promise<LiveOwner> {
  let live: KubeObject | undefined;
  try {
    live = await ports.reader.get(resource, namespace, name);
  } catch (error) {
    return { kind: "failed", error: toError(error) };
  }
  if (live === undefined) return { kind: "missing" };
  const { primary } = run.snapshot;
  const order = primary?.uid === live.metadata.uid ? compareResourceVersions(primary.rv, live.metadata.resourceVersion) : undefined;
  const isCached = order === 0;
  const [written] = isCached ? [] : await save(ports, run, { resource, objects: [live] });
  if (live.metadata.uid !== uid) return { kind: "otherUid", uid: live.metadata.uid };
  // An equal version is an equal object; the primary's row is of the owner's resource.
  const cached = written ?? (primary?.object as Cached<Owner["resource"]>);
  return {
    kind: "live",
    object: new Sealed(live, cached.spec.template?.digest ?? "no template"),
    cached,
    isCacheAhead: order !== undefined && order > 0,
  };
}

/** What a create, a delete or a patch that copies annotations may do with the live owner. */
export type Standing =
  | { readonly kind: "asDecided"; readonly live: Sealed<KubeObject> }
  /** Nothing left to write for. */
  | { readonly kind: "gone" }
  /** Being deleted: nothing is created any more, and its pods are the garbage collector's. */
  | { readonly kind: "deleting"; readonly live: Sealed<KubeObject> }
  /** The decision saw another generation, template, size or annotations: decide again, at once if what was read is cached now. */
  | { readonly kind: "changed"; readonly afterMs: number }
  | { readonly kind: "failed"; readonly error: Error };

export function standing(owner: LiveOwner, decided: TemplateRef | SizeRef | undefined, copied?: CopiedAnnotations): Standing {
  switch (owner.kind) {
    case "failed":
      return owner;
    case "missing":
    case "otherUid":
      return { kind: "gone" };
    case "live": {
      const { metadata, spec } = owner.cached;
      const isSame = decided === undefined || ((metadata.generation ?? 0) === decided.generation && isAsDecided(spec, decided));
      if (!isSame || !seenAlready(metadata, copied)) return { kind: "changed", afterMs: owner.isCacheAhead ? CACHE_AHEAD_MS : 0 };
      return metadata.deletionTimestamp === undefined
        ? { kind: "asDecided", live: owner.object }
        : { kind: "deleting", live: owner.object };
    }
    default:
      return owner satisfies never;
  }
}

function isAsDecided(spec: Cached<Owner["resource"]>["spec"], decided: TemplateRef | SizeRef): boolean {
  // An object that was never defaulted has one replica.
  return "digest" in decided ? spec.template?.digest === decided.digest : (spec.replicas ?? 1) === decided.replicas;
}

/**
 * Why nothing may be adopted, in upstream's words; undefined = it may.
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

/** `2026-03-01T10:00:00Z` as Go prints a time: `2026-03-01 10:00:00 +0000 UTC`. */
function goTime(text: string): string {
  return text.replace("T", " ").replace(/Z$/, " +0000 UTC");
}

/** Whether the live pod names the owner as its controller; every part counts (api/owner-id.ts). */
export function isPodOf({ resource, namespace, name, uid }: Owner, { metadata }: KubeObject): boolean {
  return metadata.namespace === namespace && sameOwner(controllerRef(metadata), { kind: RESOURCES[resource].kind, name, uid });
}
