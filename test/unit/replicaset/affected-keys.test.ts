// Event handlers of the ReplicaSet and ReplicationController controllers: affected keys by delta, with delays.
import { describe, expect, it } from "vitest";
import type { Cached, CachedPod, CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import type { View } from "../../../shared/kube/objects/resources.ts";
import type { Delta, Lookups } from "../../../shared/controllers/cache/affected-keys.ts";
import { replicaSetAffectedKeys } from "../../../shared/controllers/replicaset/affected-keys.ts";
import { replicationControllerAffectedKeys } from "../../../shared/controllers/replication/conversion.ts";
import { ago, pod, rs } from "./builders.ts";

const rs1 = rs({ name: "rs1", uid: "1" });
const rs2 = rs({ name: "rs2", uid: "2", selector: { matchLabels: { bar: "foo" } } });

function lookupsOf(...sets: CachedReplicaSet[]): Lookups {
  return {
    get: () => undefined,
    primaries: <R extends View>(resource: R, namespace: string) => {
      const found: readonly Cached[] = resource === "replicasets" ? sets.filter(({ metadata }) => metadata.namespace === namespace) : [];
      return found as readonly Cached<R>[]; // the test only looks up ReplicaSets
    },
  };
}

function keysOf(delta: Delta, ...sets: CachedReplicaSet[]): readonly string[] {
  return replicaSetAffectedKeys(delta, lookupsOf(...sets)).map(({ key, urgency }) => `${key} ${urgency}`);
}

function update(before: CachedPod, after: CachedPod): Delta {
  return { resource: "pods", old: before, new: after };
}

const owned = (uid: string, fields: Parameters<typeof pod>[0] = {}): CachedPod =>
  pod({ owner: { kind: "ReplicaSet", name: `rs${uid}`, uid }, ...fields });
const orphan = (fields: Parameters<typeof pod>[0] = {}): CachedPod => pod({ owner: null, ...fields });

describe("pods", () => {
  const table: { name: string; delta: Delta; want: string[] }[] = [
    {
      name: "[replicaset 1] a deleted pod enqueues its owner",
      delta: { resource: "pods", old: owned("1") },
      want: ["default/rs1 act"],
    },
    {
      name: "[replicaset 3] a finished pod that appears enqueues its owner",
      delta: { resource: "pods", new: owned("1", { phase: "Failed" }) },
      want: ["default/rs1 act"],
    },
    {
      name: "[replicaset 4] new labels of an owned pod enqueue only the owner",
      delta: update(owned("1"), owned("1", { labels: { bar: "foo" } })),
      want: ["default/rs1 act"],
    },
    {
      name: "[replicaset 5] a pod released by an owner that still selects it enqueues that owner",
      delta: update(owned("2", { labels: { bar: "foo" } }), orphan({ labels: { bar: "foo" } })),
      want: ["default/rs2 act"],
    },
    {
      name: "[replicaset 6] a pod released with labels of another owner enqueues both",
      delta: update(owned("1"), orphan({ labels: { bar: "foo" } })),
      want: ["default/rs1 act", "default/rs2 act"],
    },
    {
      name: "[replicaset 7] an owned pod whose labels change to match its owner enqueues that owner",
      delta: update(owned("2"), owned("2", { labels: { bar: "foo" } })),
      want: ["default/rs2 act"],
    },
    {
      name: "[replicaset 8] an orphan without labels enqueues nothing",
      delta: { resource: "pods", new: orphan({ labels: {} }) },
      want: [],
    },
    {
      name: "[replicaset 9] an orphan in another namespace enqueues nothing",
      delta: { resource: "pods", new: orphan({ namespace: "other" }) },
      want: [],
    },
    {
      name: "[replicaset 10] an orphan that is selected enqueues the owner that selects it",
      delta: { resource: "pods", new: orphan() },
      want: ["default/rs1 act"],
    },
    {
      name: "an owned pod first seen while being deleted enqueues its owner",
      delta: { resource: "pods", new: owned("1", { deletionTimestamp: ago(0) }) },
      want: ["default/rs1 act"],
    },
    {
      name: "an owned pod whose deletion starts enqueues its owner",
      delta: update(owned("1"), owned("1", { deletionTimestamp: ago(0) })),
      want: ["default/rs1 act"],
    },
    {
      name: "a change of a pod that is being deleted enqueues its owner with a delay",
      delta: update(owned("1", { deletionTimestamp: ago(9) }), owned("1", { deletionTimestamp: ago(9), ready: false })),
      want: ["default/rs1 status"],
    },
    {
      name: "a terminating pod that is removed enqueues its owner",
      delta: { resource: "pods", old: owned("1", { deletionTimestamp: ago(9) }) },
      want: ["default/rs1 act"],
    },
    {
      name: "another deleted pod of the owner enqueues it",
      delta: { resource: "pods", old: owned("1", { name: "pod2" }) },
      want: ["default/rs1 act"],
    },
    {
      name: "[replicaset 3] a pod that finishes enqueues its owner",
      delta: update(owned("1"), owned("1", { phase: "Succeeded" })),
      want: ["default/rs1 act"],
    },
    {
      name: "changes of readiness, node, phase and restarts enqueue the owner with a delay",
      delta: update(owned("1", { ready: false, phase: "Pending" }), owned("1", { restarts: 2 })),
      want: ["default/rs1 status"],
    },
    {
      name: "[replicaset 6] a pod moved from one owner to another enqueues both",
      delta: update(owned("1"), owned("2")),
      want: ["default/rs1 act", "default/rs2 act"],
    },
    {
      name: "[replicaset 11] an owner of another kind enqueues nothing",
      delta: { resource: "pods", new: pod({ owner: { kind: "StatefulSet", name: "rs1", uid: "1" } }) },
      want: [],
    },
    {
      name: "[replicaset 10] an orphan whose labels and owner are unchanged enqueues nothing",
      delta: update(orphan(), orphan({ ready: false })),
      want: [],
    },
    {
      name: "[replicaset 10] an orphan that gets a matching label enqueues the owner that selects it",
      delta: update(orphan({ labels: { x: "y" } }), orphan()),
      want: ["default/rs1 act"],
    },
    {
      name: "[replicaset P19] an orphan that is being deleted enqueues nothing",
      delta: { resource: "pods", new: orphan({ deletionTimestamp: ago(0) }) },
      want: [],
    },
    { name: "[replicaset 1] a deleted orphan enqueues nothing", delta: { resource: "pods", old: orphan() }, want: [] },
  ];
  it.each(table)("$name", ({ delta, want }) => {
    expect(keysOf(delta, rs1, rs2)).toEqual(want);
  });

  it.each(["", "/", "a/b", "default/rs1"])(
    "ignores an owner reference with an invalid name (%j), and does not treat the pod as an orphan",
    (name) => {
      const odd = pod({ owner: { kind: "ReplicaSet", name, uid: "1" } });
      for (const delta of [{ resource: "pods", new: odd }, { resource: "pods", old: odd }, update(odd, { ...odd, nodeName: "n" })] as const)
        expect(keysOf(delta, rs1, rs2)).toEqual([]);
      expect(keysOf(update(odd, owned("1")), rs1, rs2)).toEqual(["default/rs1 act"]);
      const ofControllers = { ...odd, owner: { kind: "ReplicationController", name, uid: "1" } };
      expect(replicationControllerAffectedKeys({ resource: "pods", new: ofControllers }, lookupsOf())).toEqual([]);
    },
  );

  it("[replicaset 11] enqueues only the owner with the pod's owner uid among nine ReplicaSets with the same selector", () => {
    const sets = Array.from({ length: 9 }, (_, i) => rs({ name: `rs${i}`, uid: String(i) }));
    expect(replicaSetAffectedKeys({ resource: "pods", new: owned("3") }, lookupsOf(...sets))).toEqual([
      { controller: "replicaset", key: "default/rs3", uid: "3", urgency: "act" },
    ]);
  });

  it("enqueues every owner that selects an orphan, except those with a selector that is empty, matches nothing or is invalid", () => {
    const others = [
      rs({ name: "all", selector: {} }),
      rs({ name: "invalid", selector: { matchExpressions: [{ key: "a", operator: "Near" }] } }),
    ];
    expect(keysOf({ resource: "pods", new: orphan() }, rs1, rs({ name: "rs3", uid: "3" }), ...others)).toEqual([
      "default/rs1 act",
      "default/rs3 act",
    ]);
  });
});

it("compiles a primary's selector once, however many orphans are matched", () => {
  let read = 0;
  const spec = { ...rs1.spec };
  Object.defineProperty(spec, "selector", { get: () => (read++, rs1.spec.selector) });
  const noted = { ...rs1, spec };
  for (const name of ["a", "b", "c"])
    expect(keysOf({ resource: "pods", new: orphan({ name, uid: name }) }, noted)).toEqual(["default/rs1 act"]);
  expect(read).toBe(1);
});

describe("the primary itself", () => {
  const base = rs({ status: { replicas: 1 } });
  const table: { name: string; delta: Delta; want: string }[] = [
    { name: "[replicaset 2] a ReplicaSet that appears enqueues itself", delta: { resource: "replicasets", new: base }, want: "act" },
    { name: "[replicaset 23] a ReplicaSet that disappears enqueues itself", delta: { resource: "replicasets", old: base }, want: "act" },
    {
      name: "[replicaset 99] a ReplicaSet that gets a new spec enqueues itself",
      delta: { resource: "replicasets", old: base, new: rs({ generation: 2 }) },
      want: "act",
    },
    {
      name: "[replicaset 37] a ReplicaSet that starts being deleted enqueues itself",
      delta: { resource: "replicasets", old: base, new: rs({ deletionTimestamp: ago(0) }) },
      want: "act",
    },
    {
      name: "[replicaset 49] a ReplicaSet that is adopted enqueues itself",
      delta: { resource: "replicasets", old: base, new: rs({ controller: "d" }) },
      want: "act",
    },
    {
      name: "a ReplicaSet that gets a new status enqueues itself",
      delta: { resource: "replicasets", old: base, new: rs({ status: { replicas: 2 } }) },
      want: "status",
    },
  ];
  it.each(table)("$name", ({ delta, want }) => {
    expect(replicaSetAffectedKeys(delta, lookupsOf())).toEqual([
      { controller: "replicaset", key: "default/rs", uid: "rs-1", urgency: want, self: true },
    ]);
  });

  it("enqueues nothing when another kind changes", () => {
    expect(replicationControllerAffectedKeys({ resource: "replicasets", new: base }, lookupsOf())).toEqual([]);
    expect(keysOf({ resource: "replicationcontrollers", new: { metadata: base.metadata, spec: {}, status: {} } })).toEqual([]);
  });

  it("a ReplicationController and its pods enqueue the ReplicationController", () => {
    const effect = { controller: "replicationcontroller", key: "default/rc", uid: "9", urgency: "act" };
    expect(
      replicationControllerAffectedKeys(
        { resource: "pods", new: pod({ owner: { kind: "ReplicationController", name: "rc", uid: "9" } }) },
        lookupsOf(),
      ),
    ).toEqual([effect]);
    expect(
      replicaSetAffectedKeys(
        { resource: "pods", new: pod({ owner: { kind: "ReplicationController", name: "rc", uid: "9" } }) },
        lookupsOf(),
      ),
    ).toEqual([]);
  });
});
