/**
 * Recorded clusters, cut at one change after the other: if a sync would write something else after the change than before it, the change
 * must enqueue its key.
 *
 * WU1 the sync itself determines what it would write, at the same time before and after the change, so that nothing but the change differs.
 * WU2 a key whose sync would write nothing after the change need not be enqueued, whatever it would have written before.
 * WU3 a change enqueues only the changed object, its current and former controller, for an orphan its possible adopters, and for a deleted
 *     pod also the controller of its owner: a Recreate Deployment waits for its last pod.
 *
 * Failures in the 929 cuts if a row of the tables is removed: a changed pod and its owner 162; a changed ReplicaSet and its Deployment 131;
 * a new pod and its owner 67; an owner itself 47; a Deployment itself 44; a released pod and its former owner 3; an orphan whose labels
 * change 2. No recording has a state in which these rows matter: a deleted pod (it counted as terminating before), a new orphan, a
 * ReplicaSet that is deleted, orphaned or without owner, the last pod of a Recreate Deployment. test/differential/keys.test.ts covers them.
 */
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { controllerOf, type CachedResource, type Controller } from "../../shared/kube/objects/resources.ts";
import { ourWrites } from "../../shared/replay/shadow/classify.ts";
import { canonical } from "../../shared/replay/shadow/canonical-write.ts";
import { resourceOf } from "../../shared/replay/shadow/states.ts";
import type { LiveObject } from "../../shared/replay/shadow/states.ts";
import type { OwnerReference } from "../../shared/kube/objects/wire.ts";
import type { State } from "../differential/shared-api-server.ts";
import { keysOfOurs } from "../differential/ours.ts";
import type { SyncPlace } from "../../shared/replay/shadow/one-sync.ts";
import type { Recording } from "./shadow.ts";

export interface WakeUps {
  /** Keys that must be queued: `replicaset web-1`. */
  readonly needed: readonly string[];
  readonly queued: readonly string[];
  /** Keys in `queued` that the change does not affect (WU3). */
  readonly strangers: readonly string[];
}

/** The keys that the change at `index` of a recording enqueues, and those that it must. */
export async function wakeUpsAt({ changes, history, place }: Recording, index: number): Promise<WakeUps> {
  const change = changes[index];
  if (change === undefined) throw new Error(`the recording has no change ${index}`);
  const [before, after] = [history.after(index), history.after(index + 1)];
  const needed: string[] = [];
  for (const owner of after) {
    const controller = controllerOf(resourceOf(owner));
    if (controller === undefined) continue;
    const writes = await writesIn(place, after, owner, controller, change.atMs);
    const earlier = before.some(({ metadata }) => metadata.uid === owner.metadata.uid)
      ? await writesIn(place, before, owner, controller, change.atMs)
      : [];
    if (writes.length > 0 && canonical(writes) !== canonical(earlier)) needed.push(`${controller} ${owner.metadata.name}`);
  }
  const { object, deleted, version, resource } = change;
  const old = before.find(({ metadata }) => metadata.uid === object.metadata.uid);
  const harness = { release: place.release(change.atMs), clock: createVirtualClock(change.atMs), server: { resourceVersion: version } };
  const keys = await keysOfOurs(harness, stateOf(before), {
    resource,
    old,
    new: deleted ? undefined : object,
  });
  const queued = Object.entries(keys).flatMap(([controller, own]) => own.map((key) => `${controller} ${key.split("/")[1]}`));
  const owners = ownersOf(old, object);
  const ownersOwners = deleted
    ? before.filter(({ metadata: { uid } }) => owners.some((owner) => owner.uid === uid)).flatMap((each) => ownersOf(each))
    : [];
  const concerned = [{ kind: object.kind, name: object.metadata.name }, ...owners, ...ownersOwners].map(
    ({ kind, name }) => `${kind.toLowerCase()} ${name}`,
  );
  const isOrphan = ownersOf(object).length === 0;
  return { needed, queued, strangers: isOrphan ? [] : queued.filter((key) => !concerned.includes(key)) };
}

function ownersOf(...objects: readonly (LiveObject | undefined)[]): readonly OwnerReference[] {
  return objects.flatMap((each) => each?.metadata.ownerReferences ?? []);
}

/** Returns the writes of a sync of the owner, based on `state`. */
async function writesIn(
  place: SyncPlace,
  state: readonly LiveObject[],
  { metadata }: LiveObject,
  controller: Controller,
  nowMs: number,
): Promise<readonly unknown[]> {
  const owner = state.find(({ metadata: { uid } }) => uid === metadata.uid);
  return owner === undefined ? [] : await ourWrites(state, { controller, owner, nowMs, failure: undefined }, place);
}

function stateOf(objects: readonly LiveObject[]): State {
  const of = (resource: CachedResource): readonly LiveObject[] => objects.filter((object) => resourceOf(object) === resource);
  return {
    deployments: of("deployments"),
    replicasets: of("replicasets"),
    replicationcontrollers: of("replicationcontrollers"),
    pods: of("pods"),
  };
}
