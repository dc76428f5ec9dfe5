// Event handlers of the Deployment controller: affected keys by delta.
import { describe, expect, it } from "vitest";
import type { CachedDeployment, CachedPod, CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import { deepFreeze } from "../../../shared/base/freeze.ts";
import type { Lookups } from "../../../shared/controllers/cache/affected-keys.ts";
import { deploymentAffectedKeys } from "../../../shared/controllers/deployment/affected-keys.ts";
import type { Effect } from "../../../shared/store/ports/store.ts";
import { deployment, ownedBy, pod, replicaSet } from "./builders.ts";

const d1 = deployment({ name: "d1", uid: "uid-d1" });
const d2 = deployment({ name: "d2", uid: "uid-d2" });
const d3 = deployment({ name: "d3", uid: "uid-d3", selector: { matchLabels: { app: "else" } } });

function lookups(ds: readonly CachedDeployment[], rss: readonly CachedReplicaSet[] = []): Lookups {
  const all: readonly (CachedDeployment | CachedReplicaSet)[] = [...ds, ...rss];
  return {
    // Names in a test are unique across kinds, so the name determines the kind.
    get: (_resource, key) => all.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === key) as never,
    primaries: () => ds as never,
  };
}
const none = lookups([]);
const keys = (effects: readonly Effect[]): readonly string[] => effects.map(({ key, urgency }) => `${key.slice(5)} ${urgency}`);
const rsEffects = (old: CachedReplicaSet | undefined, now: CachedReplicaSet | undefined, look = lookups([d1, d2, d3])): readonly string[] =>
  keys(deploymentAffectedKeys({ resource: "replicasets", ...(old && { old }), ...(now && { new: now }) }, look));

const rs = (options: Parameters<typeof replicaSet>[1] = {}): CachedReplicaSet =>
  replicaSet("rs", { owner: ownedBy("d1", "uid-d1"), ...options });
const orphan = (options: Parameters<typeof replicaSet>[1] = {}): CachedReplicaSet => rs({ owner: null, ...options });
const changed = (options: Parameters<typeof replicaSet>[1] = {}): CachedReplicaSet => rs({ resourceVersion: "51", ...options });

describe("ReplicaSets", () => {
  it("[deployment T9] a new ReplicaSet enqueues its owner", () => {
    expect(rsEffects(undefined, rs())).toEqual(["d1 act"]);
    expect(rsEffects(undefined, rs({ owner: ownedBy("d2", "uid-d2") }))).toEqual(["d2 act"]);
  });
  it("[deployment T10] a new orphan enqueues every Deployment that selects it", () =>
    expect(rsEffects(undefined, orphan())).toEqual(["d1 act", "d2 act"]));
  it("[deployment T11] an update enqueues only the owner, and a status change may be delayed", () => {
    expect(rsEffects(rs(), changed({ available: 1 }))).toEqual(["d1 status"]);
    expect(rsEffects(rs(), changed({ size: 3, generation: 2 }))).toEqual(["d1 status"]);
    expect(rsEffects(rs(), changed({ labels: { app: "else" } }))).toEqual(["d1 act"]);
    expect(rsEffects(rs(), changed({ deletionTimestamp: "2026-03-01T10:00:00Z" }))).toEqual(["d1 act"]);
  });
  it("the same resourceVersion again enqueues nothing", () => expect(rsEffects(rs(), rs())).toEqual([]));
  it("[deployment T12] an orphan enqueues the Deployments that select it only if its labels change", () => {
    const before = orphan({ labels: { app: "nobody" } });
    expect(rsEffects(before, orphan({ resourceVersion: "51" }))).toEqual(["d1 act", "d2 act"]);
    expect(rsEffects(orphan(), orphan({ resourceVersion: "51", size: 2 }))).toEqual([]);
  });
  it("[deployment T13] a change of owner enqueues both owners", () => {
    expect(rsEffects(rs({ owner: ownedBy("d2", "uid-d2") }), changed())).toEqual(["d2 act", "d1 act"]);
  });
  it("a change in another field of the owner reference enqueues the Deployment once", () => {
    expect(rsEffects(rs({ owner: ownedBy("d1", "uid-d1", { blockOwnerDeletion: false }) }), changed())).toEqual(["d1 act"]);
  });
  it("[deployment T14] a released ReplicaSet enqueues its former owner and every Deployment that selects it", () => {
    expect(rsEffects(rs({ owner: ownedBy("d3", "uid-d3") }), orphan({ resourceVersion: "51" }))).toEqual(["d3 act", "d1 act", "d2 act"]);
  });
  it("[deployment T15] a deleted ReplicaSet enqueues its owner", () => {
    expect(rsEffects(rs(), undefined)).toEqual(["d1 act"]);
    expect(rsEffects(rs({ owner: ownedBy("d2", "uid-d2") }), undefined)).toEqual(["d2 act"]);
  });
  it("[deployment T16] a deleted orphan, or one first seen while being deleted, enqueues nothing", () => {
    expect(rsEffects(orphan(), undefined)).toEqual([]);
    expect(rsEffects(undefined, orphan({ deletionTimestamp: "2026-03-01T10:00:00Z" }))).toEqual([]);
    expect(rsEffects(undefined, rs({ deletionTimestamp: "2026-03-01T10:00:00Z" }))).toEqual(["d1 act"]);
  });
  it("[deployment T21] labels match exactly the Deployments that select them", () => {
    const ds = ["test-0", "test-1", "test-2"].map((app) => deployment({ name: app, uid: app, selector: { matchLabels: { app } } }));
    for (const [index, want] of [["test-0 act"], ["test-1 act"], ["test-2 act"], [], []].entries()) {
      expect(rsEffects(undefined, orphan({ labels: { app: `test-${index}` } }), lookups(ds))).toEqual(want);
    }
  });
  it("compiles a Deployment's selector once, however many orphans are matched", () => {
    let read = 0;
    const spec = { ...d1.spec };
    Object.defineProperty(spec, "selector", { get: () => (read++, d1.spec.selector) });
    const look = lookups([{ ...d1, spec }]);
    for (const uid of ["a", "b", "c"]) expect(rsEffects(undefined, orphan({ uid }), look)).toEqual(["d1 act"]);
    expect(read).toBe(1);
  });
  it("no labels and an empty, absent or invalid selector match nothing", () => {
    const ds = [
      deployment({ name: "empty", selector: {} }),
      deployment({ name: "absent", selector: null }),
      deployment({ name: "invalid", selector: { matchExpressions: [{ key: "app", operator: "Near" }] } }),
    ];
    expect(rsEffects(undefined, orphan(), lookups(ds))).toEqual([]);
    expect(rsEffects(undefined, orphan({ labels: {} }))).toEqual([]);
  });
  it("ignores an owner of another kind", () => {
    expect(rsEffects(undefined, rs({ owner: { ...ownedBy("d1", "uid-d1"), kind: "StatefulSet" } }))).toEqual([]);
  });
  it.each(["", "/", "a/b", "shop/d1"])(
    "ignores an owner reference with an invalid name (%j), and does not treat the ReplicaSet as an orphan",
    (name) => {
      const odd = rs({ owner: { ...ownedBy("d1", "uid-d1"), name } });
      expect(rsEffects(undefined, odd)).toEqual([]);
      expect(rsEffects(odd, changed())).toEqual(["d1 act"]);
      expect(rsEffects(odd, undefined)).toEqual([]);
    },
  );
  it("keys carry the owner's uid, so that a recreated Deployment of the same name is not enqueued", () => {
    const [effect] = deploymentAffectedKeys({ resource: "replicasets", new: rs() }, none);
    expect(effect).toEqual({ controller: "deployment", key: "shop/d1", uid: "uid-d1", urgency: "act" });
  });
});

describe("Deployments", () => {
  const own = (old: CachedDeployment | undefined, now: CachedDeployment | undefined): readonly Effect[] =>
    deploymentAffectedKeys({ resource: "deployments", ...(old && { old }), ...(now && { new: now }) }, none);
  const next = (options: Parameters<typeof deployment>[0]): CachedDeployment =>
    deployment({ name: "d1", uid: "uid-d1", resourceVersion: "101", ...options });
  it("Deployments always enqueue themselves", () => {
    expect(own(undefined, d1)).toEqual([{ controller: "deployment", key: "shop/d1", uid: "uid-d1", urgency: "act", self: true }]);
    expect(keys(own(d1, undefined))).toEqual(["d1 act"]);
  });
  it("Deployments are enqueued immediately on a spec change, and with a delay on a status change", () => {
    expect(keys(own(d1, next({ status: { replicas: 1 } })))).toEqual(["d1 status"]);
    expect(keys(own(d1, next({ revision: "2" })))).toEqual(["d1 status"]);
    expect(keys(own(d1, next({ generation: 2 })))).toEqual(["d1 act"]);
    expect(keys(own(d1, next({ deletionTimestamp: "2026-03-01T10:00:00Z" })))).toEqual(["d1 act"]);
    expect(keys(own(d1, next({ labels: { a: "1" } })))).toEqual(["d1 act"]);
    expect(keys(own(d1, next({ selector: { matchLabels: { app: "x" } } })))).toEqual(["d1 act"]);
  });
});

describe("pods", () => {
  const recreate = deployment({ name: "d1", uid: "uid-d1", strategy: "Recreate" });
  const look = lookups([recreate, d2], [rs()]);
  const podEffects = (old: CachedPod | undefined, now: CachedPod | undefined, lookup = look): readonly Effect[] =>
    deploymentAffectedKeys({ resource: "pods", ...(old && { old }), ...(now && { new: now }) }, lookup);
  const mine = pod("p", { rs: "rs" });
  const wake: Effect = {
    controller: "deployment",
    key: "shop/d1",
    uid: "uid-d1",
    urgency: "status",
  };

  it("[deployment T17 T20] a deleted pod enqueues its Recreate Deployment, even if other pods remain", () =>
    expect(podEffects(mine, undefined, lookups([recreate], [rs({ size: 0, available: 2 })]))).toEqual([wake]));
  it("[deployment T19] a pod that is released or gets another owner is treated as deleted", () => {
    expect(podEffects(mine, pod("p", {}))).toEqual([wake]);
    expect(podEffects(mine, pod("p", { rs: "other" }))).toEqual([wake]);
  });
  it("[deployment T18] a deleted pod enqueues nothing if its ReplicaSet is unknown, replaced, or has no controller", () => {
    expect(podEffects(pod("p", { rs: "unknown" }), undefined)).toEqual([]);
    expect(podEffects(pod("p", { owner: { kind: "ReplicaSet", name: "rs", uid: "before" } }), undefined)).toEqual([]);
    expect(podEffects(mine, undefined, lookups([recreate], [orphan()]))).toEqual([]);
    expect(podEffects(mine, undefined, lookups([deployment({ name: "d1", uid: "after", strategy: "Recreate" })], [rs()]))).toEqual([]);
  });
  it.each(["", "/", "a/b", "shop/d1"])("makes no look-up for an owner reference with an invalid name (%j)", (name) => {
    const asked: string[] = [];
    const noted: Lookups = { ...look, get: (resource, key) => (asked.push(key), look.get(resource, key)) };
    expect(podEffects(pod("p", { owner: { kind: "ReplicaSet", name, uid: "uid-rs" } }), undefined, noted)).toEqual([]);
    expect(asked).toEqual([]);
    const odd = rs({ owner: { ...ownedBy("d1", "uid-d1"), name } });
    const ofOdd: Lookups = { ...noted, get: (resource, key) => (asked.push(key), (resource === "replicasets" ? odd : undefined) as never) };
    expect(podEffects(mine, undefined, ofOdd)).toEqual([]);
    expect(asked).toEqual(["shop/rs"]);
  });
  it("enqueues nothing for a RollingUpdate Deployment, another kind of owner, or a pod that is added or updated", () => {
    expect(podEffects(mine, undefined, lookups([d1], [rs()]))).toEqual([]);
    expect(podEffects(pod("p", { owner: { kind: "Job", name: "rs", uid: "uid-rs" } }), undefined)).toEqual([]);
    expect(podEffects(undefined, mine)).toEqual([]);
    expect(podEffects(mine, deepFreeze({ ...mine, phase: "Succeeded" }))).toEqual([]);
  });
});

it("a ReplicationController enqueues no Deployment", () => {
  expect(deploymentAffectedKeys({ resource: "replicationcontrollers" }, none)).toEqual([]);
});
