/**
 * Compares a recorded cluster, run by upstream's controllers, with deltaloop's syncs: each upstream write must be among their
 * writes, and they must be idle where upstream was.
 *
 * SH1 upstream's caches lag behind the API server by an unknown time: a write may be based on the state just before it (`exact`) or on a
 *    state that is up to three seconds older (`older`); two seconds were measured under load. A status write contains its base version;
 *    after a conflict the true base is the version before (updateReplicaSetStatus resends the same status).
 * SH2 among pods that are equal in deletion order upstream's choice is arbitrary, so deltaloop's sync may choose another (`tie`).
 * SH3 upstream is idle in a state without changes for a second: it has seen the state and wrote nothing, so deltaloop's syncs must not write
 *     either.
 * SH4 a delete or release of unknown author that deltaloop's sync does not make counts as another client's (`foreign`).
 * SH5 from that state on, deltaloop's sync must not create or delete more pods than upstream did (`excess`).
 */
import { controllerOf, controllerRef, compareResourceVersions } from "@deltaloop/kube/objects";
import type { Condition } from "@deltaloop/kube/objects";
import { syncOnce } from "./one-sync.ts";
import type { Situation, SyncPlace } from "./one-sync.ts";
import { same, canonicalOwnWrite, canonicalWrite } from "./canonical-write.ts";
import { resourceOf } from "./states.ts";
import type { Change, History, LiveObject } from "./states.ts";
import { areTied } from "./ties.ts";
import type { UpstreamWrite } from "./upstream-writes.ts";

export type Verdict =
  | { readonly kind: "exact" | "tie" | "foreign" }
  /** Age of the state that explains the write. */
  | { readonly kind: "older"; readonly lagMs: number }
  /** SH5: number of pods that deltaloop and upstream would write. */
  | { readonly kind: "excess"; readonly ours: number; readonly upstream: number }
  /** `before`: the object before the write, if it existed. */
  | { readonly kind: "unexplained"; readonly want: unknown; readonly ours: readonly unknown[]; readonly before: unknown };

/** Limits of the lag of upstream's caches: number and age of changes. */
const LAG_MAX = 400;
export const LAG_MS_MAX = 3_000;
export const REST_MS = 1_000;
/** Maximum duration of one sync's writes; in live mode, the wait for them. */
export const EXCESS_MS = 1_000;

/** SH1, SH2, SH4 */
export async function classify(history: History, write: UpstreamWrite, place: SyncPlace): Promise<Verdict> {
  const { changes } = history;
  const { controller, verb, atMs: nowMs, madeOn } = write;
  const want = verb === "delete" ? { delete: `${write.resource} ${write.name}` } : canonicalWrite(write.object, nowMs, write.subresource);
  const version = write.version ?? versionOfDelete(write, changes);
  const before =
    version === undefined ? changes.length : changes.filter((each) => compareResourceVersions(each.version, version) < 0).length;
  const versions = changes.slice(0, before).filter((change) => isOwnerOf(write, change));
  const named = versions.findLastIndex((each) => each.version === madeOn);
  const candidates = (named === -1 ? versions : versions.slice(0, named + 1))
    .slice(-2)
    .toReversed()
    .filter((each) => madeOn === undefined || each.version === madeOn || each.atMs > nowMs - LAG_MS_MAX);
  const failure = madeOn === undefined ? undefined : failureOf(write.object);
  let nearest: readonly unknown[] = [];
  let tie = false;
  for (let lag = 0; lag <= LAG_MAX && before - lag > 0; lag++) {
    if (lag > 0 && (changes[before - lag]?.atMs ?? 0) < nowMs - LAG_MS_MAX) break;
    // The write determines the owner's version, so states that differ only in the owner are equal here.
    if (lag > 0 && versions.some((each) => each.version === changes[before - lag]?.version)) continue;
    for (const { object: owner, version: own } of candidates) {
      const state = history.after(before - lag, owner);
      const ours = await ourWrites(state, { controller, owner, nowMs, failure }, place);
      if (lag === 0) nearest = ours;
      if (ours.some((each) => same(each, want)))
        return lag > 0 || own !== (madeOn ?? own)
          ? { kind: "older", lagMs: Math.max(0, nowMs - (changes[before - lag]?.atMs ?? nowMs)) }
          : (excessOf(ours, write, { owner, later: changes.slice(before) }) ?? { kind: "exact" });
      tie ||= verb === "delete" && ours.some((each) => areTied(each, want, { state, nowMs }));
    }
  }
  if (tie) return { kind: "tie" };
  if (!write.isCertain) return { kind: "foreign" };
  const last = changes
    .slice(0, before)
    .findLast(({ resource, object }) => resource === write.resource && object.metadata.name === write.name);
  return { kind: "unexplained", want, ours: nearest, before: last && canonicalWrite(last.object, nowMs, write.subresource) };
}

/** Returns the version of a deletion. */
function versionOfDelete({ resource, name, uid }: UpstreamWrite, changes: readonly Change[]): string | undefined {
  return changes.find(
    ({ resource: each, object: { metadata }, deleted }) =>
      each === resource &&
      (uid === undefined ? metadata.name === name : metadata.uid === uid) &&
      (deleted || metadata.deletionTimestamp !== undefined),
  )?.version;
}

/** Whether the change is of the owner whose sync made the write. */
function isOwnerOf({ controller, resource, name, object: written }: UpstreamWrite, { resource: each, object }: Change): boolean {
  if (controllerOf(each) !== controller) return false;
  if (controllerOf(resource) === controller) return object.metadata.name === name;
  const owners = written.metadata?.ownerReferences ?? [];
  return owners.length === 0 || owners.some(({ uid }) => uid === object.metadata.uid);
}

/** The writes that deltaloop's sync stores in that state. */
export async function ourWrites(state: readonly LiveObject[], situation: Situation, place: SyncPlace): Promise<readonly unknown[]> {
  const writes = await syncOnce(relatedTo(situation.owner, state), situation, place);
  const deletes = writes.filter(({ verb }) => verb === "delete");
  return [...deletes, ...writes.filter(({ verb }) => verb !== "delete")]
    .map((write) => canonicalOwnWrite(write, situation.nowMs))
    .filter((each) => each !== undefined);
}

/**
 * The objects that an owner's sync can read or conflict with: the owner, its dependents and their pods, unowned objects, and ReplicaSets
 * with a name that it could choose. Loading a namespace of thousands of objects for each sync would be too slow.
 */
function relatedTo(owner: LiveObject, state: readonly LiveObject[]): readonly LiveObject[] {
  const { uid, name } = owner.metadata;
  const parent = controllerRef(owner.metadata)?.uid;
  const isOwn = (of: string | undefined): boolean => of === uid || (of !== undefined && of === parent);
  const sets = new Set(
    state.flatMap(({ kind, metadata }) => (kind !== "Pod" && isOwn(controllerRef(metadata)?.uid) ? [metadata.uid] : [])),
  );
  return state.filter(({ kind, metadata }) => {
    if (metadata.uid === uid || metadata.uid === parent) return true;
    const of = controllerRef(metadata)?.uid;
    if (isOwn(of)) return true;
    if (kind === "Pod") return of === undefined || sets.has(of);
    return kind === "ReplicaSet" && (of === undefined || metadata.name.startsWith(`${name}-`));
  });
}

interface Later {
  readonly owner: LiveObject;
  /** The changes from the write on. */
  readonly later: readonly Change[];
}

/** SH5. One sync may write many pods; deletes by other clients count as upstream's. Upstream's rejected writes are unknown. */
function excessOf(ours: readonly unknown[], { verb, resource, atMs }: UpstreamWrite, { owner, later }: Later): Verdict | undefined {
  if (resource !== "pods" || verb === "update") return undefined;
  const own = ours.filter((each) => Object.hasOwn(each as object, verb === "delete" ? "delete" : "pod")).length; // canonical-write.ts defines this form
  const soon = later.filter((each) => each.atMs <= atMs + EXCESS_MS);
  const isRefused = soon.some(({ object }) => object.metadata.uid === owner.metadata.uid && failureOf(object) !== undefined);
  if (verb === "create" && isRefused) return undefined;
  const made = new Set(
    soon
      .filter(({ resource: each, object, deleted }) => {
        if (each !== "pods" || controllerRef(object.metadata)?.uid !== owner.metadata.uid) return false;
        const isGoing = deleted || object.metadata.deletionTimestamp !== undefined;
        return verb === "delete" ? isGoing : true;
      })
      .map(({ object }) => object.metadata.uid),
  ).size;
  return own > made ? { kind: "excess", ours: own, upstream: made } : undefined;
}

/** The message of ReplicaFailure. */
function failureOf({ status }: LiveObject): string | undefined {
  const conditions = (status?.["conditions"] ?? []) as readonly Condition[]; // every owner has a status
  return conditions.find(({ type }) => type === "ReplicaFailure")?.message;
}

/**
 * SH3: the writes of deltaloop's syncs in the idle state after `count` changes, the last of them at `atMs`, like
 * `replicaset shop/web-1: patch replicasets/status web-1`.
 */
export async function restAt(
  history: History,
  { count, atMs }: { readonly count: number; readonly atMs: number },
  place: SyncPlace,
): Promise<readonly string[]> {
  const state = history.after(count);
  const ours: string[] = [];
  for (const owner of state) {
    const controller = controllerOf(resourceOf(owner));
    if (controller === undefined || place.handlers[controller] === undefined) continue;
    const { namespace, name } = owner.metadata;
    const writes = await syncOnce(
      relatedTo(owner, state),
      { controller, owner, nowMs: atMs + REST_MS - 100, failure: failureOf(owner) },
      place,
    );
    for (const { verb, resource, subresource, name: of, stored } of writes) {
      // Upstream retries rejected writes too, and a write without effect is not visible in a recording.
      if (verb !== "delete" && stored === undefined) continue;
      ours.push(`${controller} ${namespace}/${name}: ${verb} ${resource}${subresource === "" ? "" : `/${subresource}`} ${of}`);
    }
  }
  return ours;
}
