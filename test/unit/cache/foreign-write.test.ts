// Would catch: another controller that goes unnoticed under another name, and a standstill for what a person, an autoscaler or we wrote.
import { expect, test } from "vitest";

import { foreignWrite } from "../../../shared/cache/foreign-write.ts";

const AFTER_MS = Date.parse("2026-03-01T10:00:00Z");
const NEXT = "2026-03-01T10:00:01Z";
const counts = { "f:status": { "f:replicas": {} } };
const upstream = { manager: "kube-controller-manager", operation: "Update", subresource: "status", time: NEXT, fieldsV1: counts };
const object = (...managedFields: readonly object[]) => ({
  kind: "ReplicaSet",
  metadata: { namespace: "shop", name: "web", managedFields },
});

test.each([
  { name: "upstream's status", entries: [upstream], seen: "kube-controller-manager" },
  { name: "upstream's status that holds conditions alone", entries: [{ ...upstream, fieldsV1: {} }], seen: "kube-controller-manager" },
  { name: "of upstream's loops within another program", entries: [{ ...upstream, manager: "k3s" }], seen: "k3s" },
  {
    name: "the observed generation alone",
    entries: [{ ...upstream, manager: "other", fieldsV1: { "f:status": { "f:observedGeneration": {} } } }],
    seen: "other",
  },
  { name: "the newest of several", entries: [{ ...upstream, manager: "k3s", time: "2026-03-01T10:00:02Z" }, upstream], seen: "k3s" },
  {
    name: "beside ours that is newer",
    entries: [upstream, { ...upstream, manager: "deltaloop-replicaset", time: "2026-03-01T10:00:05Z" }],
    seen: "kube-controller-manager",
  },
  { name: "of the second in which we began", entries: [{ ...upstream, time: "2026-03-01T10:00:00Z" }], seen: undefined },
  { name: "of before", entries: [{ ...upstream, time: "2026-02-01T10:00:00Z" }], seen: undefined },
  {
    name: "of no time",
    entries: [
      { ...upstream, time: undefined },
      { ...upstream, time: "soon" },
    ],
    seen: undefined,
  },
  { name: "upstream's garbage collector, which writes no status", entries: [{ ...upstream, subresource: undefined }], seen: undefined },
  { name: "an autoscaler's", entries: [{ ...upstream, subresource: "scale" }], seen: undefined },
  { name: "our own", entries: [{ ...upstream, manager: "deltaloop-replicaset" }], seen: undefined },
  {
    name: "a person's",
    entries: [
      { ...upstream, manager: "kubectl-edit" },
      { ...upstream, manager: "kubectl" },
    ],
    seen: undefined,
  },
  {
    name: "somebody's condition",
    entries: [{ ...upstream, manager: "policy", fieldsV1: { "f:status": { "f:conditions": {} } } }],
    seen: undefined,
  },
  {
    name: "what upstream's conformance tests patch",
    entries: [{ ...upstream, manager: "e2e.test", fieldsV1: { "f:status": { "f:readyReplicas": {}, "f:availableReplicas": {} } } }],
    seen: undefined,
  },
  { name: "no fields", entries: [{ ...upstream, manager: "policy", fieldsV1: undefined }], seen: undefined },
])("[informer T102] $name: seen is $seen", ({ entries, seen }) => {
  expect(foreignWrite("replicasets", object(...entries), AFTER_MS)?.manager).toBe(seen);
});

test("says of which object, and when", () => {
  expect(foreignWrite("replicasets", object(upstream), AFTER_MS)).toEqual({
    resource: "replicasets",
    key: "shop/web",
    manager: "kube-controller-manager",
    atMs: Date.parse(NEXT),
  });
});

test("a pod's status is its node's", () => {
  expect(foreignWrite("pods", object({ ...upstream, manager: "kubelet" }), AFTER_MS)).toBeUndefined();
});

test.each([undefined, null, "x", {}, { metadata: {} }, { metadata: { managedFields: [null, 3, "x", {}] } }])(
  "%j is nobody's write",
  (thing) => {
    expect(foreignWrite("replicasets", thing, AFTER_MS)).toBeUndefined();
  },
);
