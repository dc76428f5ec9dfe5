// The records that a replay of one owner tree needs. Would catch: a missing orphan that a selector adopts, and a missing sibling ReplicaSet.
import { expect, it } from "vitest";
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import type { CaptureRecord } from "../../../shared/replay/capture-format/capture.ts";
import { keyOf } from "../../../shared/replay/capture-format/captured-object.ts";
import { FamilyCensus } from "../../../shared/replay/explain/family.ts";
import type { Subject } from "../../../shared/replay/explain/story.ts";

const recordOf = (resource: CachedResource, name: string, owner?: string, namespace = "shop"): CaptureRecord => ({
  ...{ atMs: 0, resource, kind: "event", type: "ADDED" },
  object: {
    metadata: { namespace, name, uid: name, ...(owner !== undefined && { ownerReferences: [{ uid: owner, controller: true }] }) },
  },
});

const RECORDS = [
  recordOf("deployments", "web"),
  recordOf("replicasets", "web-1", "web"),
  recordOf("replicasets", "web-2", "web"),
  recordOf("replicasets", "bare"),
  recordOf("pods", "web-1-x", "web-1"),
  recordOf("pods", "web-2-x", "web-2"),
  recordOf("pods", "orphan"),
  recordOf("deployments", "api"),
  recordOf("replicasets", "api-1", "api"),
  recordOf("pods", "api-1-x", "api-1"),
  recordOf("pods", "elsewhere", undefined, "other"),
];
const WEB = ["web", "web-1", "web-2", "bare", "web-1-x", "web-2-x", "orphan"];

it.each([
  ["a Deployment, its dependents and objects that it may adopt", { resource: "deployments", name: "web" }, WEB],
  ["for a ReplicaSet, also its Deployment and its siblings", { resource: "replicasets", name: "web-2" }, WEB],
  ["for a pod, its whole namespace", { resource: "pods", name: "web-1-x" }, [...WEB, "api", "api-1", "api-1-x"]],
] as const)("a replay reads only the objects that affect its subject: %s", (_, of, names) => {
  const subject: Subject = { ...of, namespace: "shop" };
  const census = new FamilyCensus([subject]);
  for (const record of RECORDS) census.see(record);
  const family = census.familyOf(subject);
  const needed = RECORDS.filter((record) => family.dependsOn(record));
  expect(needed.flatMap(({ object }) => (object ? [keyOf(object).split("/")[1]] : []))).toEqual(names);
  expect(family.dependsOn({ atMs: 0, resource: "pods", kind: "listed", rv: "1" })).toBe(true);
});
