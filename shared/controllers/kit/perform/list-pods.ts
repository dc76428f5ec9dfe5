/** The live list for an owner's first creates and deletes, and its write-through (replicaset §18). */
import type { CachedPod, KubeObject, ObjectKey } from "@deltaloop/kube/objects";
import { compareResourceVersions, controllerRef, objectKey, primaryAsOwner, splitKey } from "@deltaloop/kube/objects";
import { matches } from "@deltaloop/kube/selectors";
import type { Selector } from "@deltaloop/kube/selectors";
import type { Row, Snapshot } from "@deltaloop/store/ports";
import { contradicts, markOf } from "../decision-basis.ts";
import type { Owner } from "../writes.ts";
import { rowOf } from "./calls.ts";
import { isPodOf } from "./live-owner.ts";
import type { RunCalls } from "./calls.ts";

/** Items of one write-through. */
const ITEMS_MAX = 500;
/** Maximum number of cached pods missing in the list that are read one by one, to distinguish relabelled pods from deleted pods. */
const LOOKS_MAX = 10;

/**
 * Lists the pods that match the owner's selector and writes differences through: new versions, and the flag `gone` for cached pods that are
 * missing in the list although the list is not older than them. Returns the snapshot according to the list, for the rest of the run.
 * "suspect": this is the third list within a minute that contradicts the cache, which is then marked SUSPECT.
 *
 * With more than LOOKS_MAX such pods, a just relabelled one is flagged as well; flags are checked live after a minute (A14).
 *
 * @throws {Error} when the list fails or cannot be written through: nothing is created or deleted then.
 */
export async function listPods(calls: RunCalls, owner: Owner, selector: Selector): Promise<Snapshot | "suspect"> {
  const { snapshot, controller, key } = calls.run;
  const { pods } = snapshot;
  if (pods === undefined) return snapshot;
  const { items, resourceVersion: listRV } = await calls.listWithVersion("pods", owner.namespace, { selector });

  const rows = [...snapshot.dependents, ...snapshot.orphans];
  const byKey = new Map<ObjectKey, Row>(rows.map((row) => [row.key, row]));
  // Own pods and orphans only: a controller reference that differs from the owner in any field belongs to another owner.
  const isOurs = (object: KubeObject): boolean => controllerRef(object.metadata) === undefined || isPodOf(owner, object);
  const selected = rows.filter((row) => matches(selector, (row.object as CachedPod).labels)); // pod slices hold only pods
  const lacked = lackedBy(items, selected, listRV);
  const looked =
    lacked.length > LOOKS_MAX ? [] : await Promise.all(lacked.map(({ key: each }) => calls.ports.reader.get("pods", ...nameOf(each))));
  const found = looked.filter((object) => object !== undefined);
  const concerned = [...items, ...found].filter((object) => isOurs(object) || byKey.get(keyOf(object))?.uid === object.metadata.uid);
  const changed = concerned.filter((object) => !isCached(byKey.get(keyOf(object)), object));
  const uids = new Set([...items, ...found].map(({ metadata }) => metadata.uid));
  const ghosts = lacked.filter(({ uid }) => !uids.has(uid));

  const listed = items.filter(isOurs).map(({ metadata }) => ({ uid: metadata.uid, rv: metadata.resourceVersion }));
  const isDisputed = contradicts(pods, { listRV, listed, cached: selected });
  const { mark, isSuspect } = markOf(pods, snapshot.mark, { listRV, nowMs: pods.atMs, isDisputed });
  const marks = [{ controller, key, uid: owner.uid, mark }];
  const cached: CachedPod[] = [];
  for (let at = 0; at < changed.length || (at === 0 && (ghosts.length > 0 || isDisputed)); at += ITEMS_MAX) {
    const objects = changed.slice(at, at + ITEMS_MAX);
    const absent = objects.map(keyOf).filter((each) => !byKey.has(each));
    const end = at + ITEMS_MAX >= changed.length ? { gone: ghosts, marks } : {};
    cached.push(...(await calls.save({ resource: "pods", objects, absent, ...end })));
  }
  const isMarked = changed.length + ghosts.length > 0 || isDisputed;
  if (isDisputed) {
    calls.ports.log.warn("live pods contradict the cache", {
      key,
      listed: listed.length,
      cached: selected.length,
      resourceVersion: listRV,
    });
  }
  if (isSuspect) {
    await calls.ports.store.markSuspect("pods", "live lists contradict the cache");
    return "suspect";
  }
  const fresh = new Map(cached.map((object) => [object.uid, rowOf("pods", object)]));
  const known = new Map(rows.map((row) => [row.uid, row]));
  const shown = concerned.flatMap(({ metadata: { uid } }) => fresh.get(uid) ?? known.get(uid) ?? []);
  const flagged = new Set(ghosts);
  const kept = rows.filter((row) => !uids.has(row.uid)).map((row) => (flagged.has(row) ? { ...row, gone: true } : row));
  const own = primaryAsOwner(controller, key, owner.uid);
  const all = [...shown, ...kept];
  const [dependents, orphans] = [all.filter((row) => row.owner === own), all.filter((row) => row.owner === undefined)];
  return calls.goOnWith({ ...snapshot, mark, dependents, orphans }, isMarked ? [] : marks);
}

function lackedBy(items: readonly KubeObject[], cached: readonly Row[], listRV: string): readonly Row[] {
  const uids = new Set(items.map(({ metadata }) => metadata.uid));
  return cached.filter(({ uid, rv, gone }) => !gone && !uids.has(uid) && compareResourceVersions(rv, listRV) <= 0);
}

function nameOf(key: ObjectKey): readonly [namespace: string, name: string] {
  const { namespace, name } = splitKey(key);
  return [namespace, name];
}

function keyOf({ metadata }: KubeObject): ObjectKey {
  return objectKey(metadata.namespace ?? "", metadata.name);
}

function isCached(row: Row | undefined, { metadata }: KubeObject): boolean {
  return row?.uid === metadata.uid && compareResourceVersions(row.rv, metadata.resourceVersion) >= 0;
}
