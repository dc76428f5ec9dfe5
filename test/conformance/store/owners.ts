/** Owners are bound to their namespace (design decision 14): an owner in another namespace has no effect. */
import { expect, it } from "vitest";
import type { CachedOwner } from "../../../shared/kube/objects/cached.ts";
import { ownerOfCached, podOwnerId } from "../../../shared/kube/objects/owner-id.ts";
import {
  cachedDeployment,
  cachedPod,
  cachedReplicaSet,
  cachedReplicationController,
  effect,
  keyOf,
  ownedBy,
  put,
} from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { rung } from "../../harness/store/store.ts";

const deployment = cachedDeployment();
const rs = cachedReplicaSet({ owner: ownedBy("Deployment", deployment) });
const OWN = ownedBy("ReplicaSet", rs);

/** Owner references that match only some fields of the ReplicaSet `shop/web`. */
const PARTIAL: readonly { readonly name: string; readonly namespace?: string; readonly owner: CachedOwner }[] = [
  { name: "another namespace", namespace: "mallory", owner: OWN },
  { name: "another kind", owner: { ...OWN, kind: "ReplicationController" } },
  { name: "another name", owner: { ...OWN, name: "web2" } },
  { name: "another uid", owner: { ...OWN, uid: "other" } },
  { name: "a name that contains the uid", owner: { ...OWN, name: `${OWN.name}\0${OWN.uid}`, uid: "x" } },
];

export function ownerCases(open: OpenStore): void {
  it.each(PARTIAL)("IT4 a pod with a reference to $name is in no slice of the ReplicaSet", async ({ namespace = "shop", owner }) => {
    const harness = await (await open()).synced();
    await harness.seed("replicasets", [put(rs, { counted: true, effects: [effect("replicaset", rs, { self: true })] })]);
    const own = cachedPod({ name: "own", resourceVersion: "10", owner: OWN });
    const foreign = cachedPod({ namespace, name: "foreign", resourceVersion: "11", owner });
    await harness.seed("pods", [put(own), put(foreign)]);
    const { snapshot } = await harness.taken("replicaset", keyOf(rs));
    expect(snapshot.dependents.map(({ key }) => key)).toEqual(["shop/own"]);
    expect(snapshot.orphans).toEqual([]);
  });

  it("IT4 a ReplicaSet that references a Deployment of another namespace is in none of that Deployment's slices", async () => {
    const harness = await (await open()).synced();
    await harness.seed("deployments", [put(deployment, { counted: true, effects: [effect("deployment", deployment, { self: true })] })]);
    const foreign = cachedReplicaSet({ namespace: "mallory", name: "evil", owner: ownedBy("Deployment", deployment) });
    await harness.seed("replicasets", [put(rs, { counted: true }), put(foreign, { counted: true })]);
    const { snapshot } = await harness.taken("deployment", keyOf(deployment));
    expect(snapshot.dependents.map(({ key }) => key)).toEqual(["shop/web"]);
  });

  it.each(PARTIAL)("IT2 a pod with a reference to $name settles no intent of the ReplicaSet", async ({ namespace = "shop", owner }) => {
    const harness = await (await open()).synced();
    await harness.seed("replicasets", [put(rs, { counted: true, effects: [effect("replicaset", rs, { self: true })] })]);
    const { run } = await harness.taken("replicaset", keyOf(rs));
    await harness.store.registerIntents(run, rs.metadata.uid, [{ id: "c:web-1", verb: "create", name: "web-1" }]);
    const foreign = cachedPod({ namespace, name: "web-1", resourceVersion: "11", owner });
    const answered = ownerOfCached("pods", foreign);
    const lowers = answered === undefined ? [] : [{ owner: answered, op: "c:web-1" }];
    expect(rung(await harness.deliver("pods", [put(foreign, { lowers })]))).toEqual([]);
    await harness.store.done(run, { kind: "ok" });
    await harness.store.add(harness.epoch, "replicaset", keyOf(rs), 0);
    expect(await harness.intents(rs.metadata.uid, "replicaset", keyOf(rs))).toHaveLength(1);
  });

  it("a ReplicaSet and a ReplicationController with the same name and uid own different pods", async () => {
    const harness = await (await open()).synced();
    const rc = cachedReplicationController({ uid: rs.metadata.uid });
    await harness.seed("replicationcontrollers", [
      put(rc, { counted: true, effects: [effect("replicationcontroller", rc, { self: true })] }),
    ]);
    await harness.seed("pods", [
      put(cachedPod({ name: "of-rs", resourceVersion: "10", owner: OWN })),
      put(cachedPod({ name: "of-rc", resourceVersion: "11", owner: ownedBy("ReplicationController", rc) })),
    ]);
    const { snapshot } = await harness.taken("replicationcontroller", keyOf(rc));
    expect(snapshot.dependents.map(({ key }) => key)).toEqual(["shop/of-rc"]);
  });

  it("identifies an owner by a hash that never equals the name of an orphan slice", () => {
    for (let n = 0; n < 2_000; n++) {
      const id = podOwnerId("shop", { kind: "ReplicaSet", name: "web", uid: `uid-${n}` });
      expect(id).toMatch(/^[A-Za-z0-9+/]{22}$/);
    }
  });
}
