// Detection of other controllers' writes by managed fields.
import { expect, test } from "vitest";

import { claimOf, newestClaimed, proven } from "../../../shared/controllers/cache/watcher/foreign-write.ts";

const AFTER_MS = Date.parse("2026-03-01T10:00:00Z");
const NEXT = "2026-03-01T10:00:01Z";
const counts = { "f:status": { "f:replicas": {} } };
const statusOf = (status: object) => ({ metadata: { uid: "u1" }, status });
const upstream = { manager: "kube-controller-manager", operation: "Update", subresource: "status", time: NEXT, fieldsV1: counts };
const object = (...managedFields: readonly object[]) => ({
  kind: "ReplicaSet",
  metadata: { namespace: "shop", name: "web", uid: "u1", resourceVersion: "7", managedFields },
  status: { observedGeneration: 2, replicas: 3, readyReplicas: 3, availableReplicas: 3 },
});
const claimed = (...entries: readonly object[]) => {
  const claim = claimOf("replicasets", object(...entries), AFTER_MS);
  return claim && newestClaimed(claim, Infinity);
};

test.each([
  { name: "upstream's status", entries: [upstream], seen: "kube-controller-manager" },
  {
    name: "upstream's readyReplicas",
    entries: [{ ...upstream, fieldsV1: { "f:status": { "f:readyReplicas": {} } } }],
    seen: "kube-controller-manager",
  },
  {
    name: "upstream's entry without a status field",
    entries: [{ ...upstream, fieldsV1: { "f:metadata": { "f:labels": {} } } }],
    seen: undefined,
  },
  {
    name: "a field with subfields, without the field itself",
    entries: [{ ...upstream, fieldsV1: { "f:status": { "f:replicas": { "f:x": {} } } } }],
    seen: undefined,
  },
  {
    name: "a field and its subfields",
    entries: [{ ...upstream, fieldsV1: { "f:status": { "f:replicas": { ".": {}, "f:x": {} } } } }],
    seen: "kube-controller-manager",
  },
  { name: "an entry of upstream's controllers under another program name", entries: [{ ...upstream, manager: "k3s" }], seen: "k3s" },
  {
    name: "an entry with only the observedGeneration",
    entries: [{ ...upstream, manager: "other", fieldsV1: { "f:status": { "f:observedGeneration": {} } } }],
    seen: "other",
  },
  {
    name: "the newest of several entries",
    entries: [{ ...upstream, manager: "k3s", time: "2026-03-01T10:00:02Z" }, upstream],
    seen: "k3s",
  },
  {
    name: "an entry beside a newer one of this controller",
    entries: [upstream, { ...upstream, manager: "deltaloop-replicaset", time: "2026-03-01T10:00:05Z" }],
    seen: "kube-controller-manager",
  },
  { name: "an entry from the second in which the term began", entries: [{ ...upstream, time: "2026-03-01T10:00:00Z" }], seen: undefined },
  { name: "an entry from before the term", entries: [{ ...upstream, time: "2026-02-01T10:00:00Z" }], seen: undefined },
  {
    name: "entries without a valid time",
    entries: [
      { ...upstream, time: undefined },
      { ...upstream, time: "soon" },
    ],
    seen: undefined,
  },
  { name: "upstream's garbage collector, which writes no status", entries: [{ ...upstream, subresource: undefined }], seen: undefined },
  { name: "an autoscaler's entry", entries: [{ ...upstream, subresource: "scale" }], seen: undefined },
  { name: "this controller's entry", entries: [{ ...upstream, manager: "deltaloop-replicaset" }], seen: undefined },
  {
    name: "a user's entry",
    entries: [
      { ...upstream, manager: "kubectl-edit" },
      { ...upstream, manager: "kubectl" },
    ],
    seen: undefined,
  },
  {
    name: "a condition of another client",
    entries: [{ ...upstream, manager: "policy", fieldsV1: { "f:status": { "f:conditions": {} } } }],
    seen: undefined,
  },
  {
    name: "the patch of upstream's conformance tests",
    entries: [{ ...upstream, manager: "e2e.test", fieldsV1: { "f:status": { "f:readyReplicas": {}, "f:availableReplicas": {} } } }],
    seen: undefined,
  },
  { name: "an entry without fields", entries: [{ ...upstream, manager: "policy", fieldsV1: undefined }], seen: undefined },
])("[informer T102] the reported manager is $seen for $name", ({ entries, seen }) => {
  expect(claimed(...entries)?.manager).toBe(seen);
});

test.each([
  { name: "a field of its entry changed", entries: [upstream], before: statusOf({ replicas: 2 }), by: "kube-controller-manager" },
  { name: "a field of its entry is new", entries: [upstream], before: statusOf({}), by: "kube-controller-manager" },
  { name: "no field of its entry changed", entries: [upstream], before: statusOf({ replicas: 3 }), by: undefined },
  {
    name: "the changed field is not in its entry",
    entries: [upstream],
    before: statusOf({ replicas: 3, observedGeneration: 1 }),
    by: undefined,
  },
  {
    name: "its entry has a field that does not exist",
    entries: [{ ...upstream, fieldsV1: { "f:status": { "f:collisionCount": {} } } }],
    before: statusOf({ collisionCount: 1 }),
    by: undefined,
  },
  {
    name: "it owns the changed field, although another manager's entry is newer",
    entries: [
      { ...upstream, manager: "made-up", time: "2099-01-01T00:00:00Z", fieldsV1: { "f:status": { "f:observedGeneration": {} } } },
      upstream,
    ],
    before: statusOf({ replicas: 2, observedGeneration: 2 }),
    by: "kube-controller-manager",
  },
  { name: "the object was created in this version", entries: [upstream], before: undefined, by: undefined },
  {
    name: "the object replaced another one of the same name",
    entries: [upstream],
    before: { metadata: { uid: "u0" }, status: {} },
    by: undefined,
  },
])("[informer T105] FW1 the manager that wrote the status is $by if $name", ({ entries, before, by }) => {
  const claim = claimOf("replicasets", object(...entries), AFTER_MS);
  expect(claim && proven(claim, before)?.manager).toBe(by);
});

test("ignores a managedFields entry with a time in the future", () => {
  const claim = claimOf("replicasets", object({ ...upstream, manager: "far", time: "2099-01-01T00:00:00Z" }, upstream), AFTER_MS);
  expect(claim && newestClaimed(claim, Date.parse(NEXT))?.manager).toBe("kube-controller-manager");
  expect(claim && newestClaimed(claim, AFTER_MS)).toBeUndefined();
});

test("reports object and time", () => {
  expect(claimed(upstream)).toEqual({
    resource: "replicasets",
    key: "shop/web",
    manager: "kube-controller-manager",
    atMs: Date.parse(NEXT),
  });
});

test("ignores a pod, whose status its node's kubelet writes", () => {
  expect(claimOf("pods", object({ ...upstream, manager: "kubelet" }), AFTER_MS)).toBeUndefined();
});

test.each([undefined, null, "x", {}, { metadata: {} }, { metadata: { managedFields: [null, 3, "x", {}] } }])("ignores %j", (thing) => {
  expect(claimOf("replicasets", thing, AFTER_MS)).toBeUndefined();
});
