// Closed replays: classification of user writes, and comparison of two final states.
import { describe, expect, it } from "vitest";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { disagreements } from "../../../shared/replay/closed/agreement.ts";
import { UserRequestCollector } from "../../../shared/replay/closed/user-requests.ts";
import type { UserRequests } from "../../../shared/replay/closed/user-requests.ts";
import type { LiveObject } from "../../../shared/replay/shadow/states.ts";
import { changesOf, parseCapture } from "../../support/held-capture.ts";

type Fields = Readonly<Record<string, unknown>>;
const T = "2026-03-01T10:00:00Z";
const template = { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "app", image: "v1" }] } };
const byDeployment = { ownerReferences: [{ apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "d", controller: true }] };
const byReplicaSet = { ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "rs", controller: true }] };

function object(kind: string, rv: number, { metadata = {}, spec = {}, status = {} }: Readonly<Record<string, Fields>> = {}): Fields {
  const owner = { replicas: 1, selector: { matchLabels: { app: "web" } }, template };
  return {
    kind,
    metadata: { namespace: "shop", name: "web", uid: kind, resourceVersion: String(rv), labels: { app: "web" }, ...metadata },
    spec: { ...(kind === "Pod" ? { containers: template.spec.containers } : owner), ...spec },
    status,
  };
}

type Line = readonly [type: string, object: Fields];

function userRequests(...lines: readonly Line[]): UserRequests {
  const text = lines
    .map(([type, of]) => JSON.stringify(type === "item" ? { t: T, k: "item", object: of } : { t: T, type, object: of }))
    .join("\n");
  const options = { name: "f", digester: createDigester("a key of this test alone"), malformed: () => undefined };
  const seen = new UserRequestCollector();
  for (const change of changesOf(parseCapture(text, "f"), options)) seen.see(change);
  return seen.userRequests;
}

describe("HP1 HP2 derived user requests", () => {
  const revised = { annotations: { note: "x", "deployment.kubernetes.io/revision": "1" } };
  it.each<{ name: string; lines: readonly Line[]; want: readonly string[]; left?: readonly string[] }>([
    { name: "creates a Deployment", lines: [["ADDED", object("Deployment", 1)]], want: ["create deployments"] },
    { name: "does not create objects that existed before", lines: [["item", object("Deployment", 1)]], want: [] },
    {
      name: "does not create a Deployment's ReplicaSet",
      lines: [["ADDED", object("ReplicaSet", 1, { metadata: byDeployment })]],
      want: [],
    },
    {
      name: "does not change a ReplicaSet's size",
      lines: [
        ["item", object("ReplicaSet", 1, { metadata: byDeployment })],
        ["MODIFIED", object("ReplicaSet", 2, { metadata: byDeployment, spec: { replicas: 3 } })],
      ],
      want: [],
    },
    {
      name: "scales a Deployment",
      lines: [
        ["item", object("Deployment", 1)],
        ["MODIFIED", object("Deployment", 2, { spec: { replicas: 3 } })],
      ],
      want: ["update deployments"],
    },
    {
      name: "does not change a Deployment's revision or status",
      lines: [
        ["item", object("Deployment", 1, { metadata: { annotations: { note: "x" } } })],
        ["MODIFIED", object("Deployment", 2, { metadata: revised, status: { replicas: 1 } })],
      ],
      want: [],
    },
    {
      name: "deletes in the background",
      lines: [
        ["item", object("Deployment", 1)],
        ["DELETED", object("Deployment", 2)],
      ],
      want: ["delete deployments Background"],
    },
    {
      name: "deletes once in the foreground",
      lines: [
        ["item", object("Deployment", 1)],
        ["MODIFIED", object("Deployment", 2, { metadata: { deletionTimestamp: T, finalizers: ["foregroundDeletion"] } })],
        ["DELETED", object("Deployment", 3, { metadata: { deletionTimestamp: T } })],
      ],
      want: ["delete deployments Foreground"],
    },
    {
      name: "deletes with propagation policy Orphan",
      lines: [
        ["item", object("ReplicaSet", 1)],
        ["MODIFIED", object("ReplicaSet", 2, { metadata: { deletionTimestamp: T, finalizers: ["orphan"] } })],
      ],
      want: ["delete replicasets Orphan"],
    },
    {
      name: "does not change a pod's node",
      lines: [
        ["ADDED", object("Pod", 1)],
        ["MODIFIED", object("Pod", 2, { spec: { nodeName: "n" } })],
      ],
      want: ["create pods"],
    },
    {
      name: "labels a user's pod that is adopted meanwhile",
      lines: [
        ["ADDED", object("Pod", 1)],
        ["MODIFIED", object("Pod", 2, { metadata: byReplicaSet })],
        ["MODIFIED", object("Pod", 3, { metadata: { ...byReplicaSet, labels: { app: "other" } } })],
      ],
      want: ["create pods", "update pods"],
    },
    {
      name: "does not label a controller's pod, but counts the change",
      lines: [
        ["ADDED", object("Pod", 1, { metadata: byReplicaSet })],
        ["MODIFIED", object("Pod", 2, { metadata: { ...byReplicaSet, labels: {} } })],
      ],
      want: [],
      left: ["labels of Pod shop/web"],
    },
  ])("the user in a replay $name", ({ lines, want, left = [] }) => {
    const { writes, left: counted } = userRequests(...lines);
    expect(writes.map((write) => [write.kind, write.resource, ...(write.kind === "delete" ? [write.propagation] : [])].join(" "))).toEqual(
      want,
    );
    expect(counted).toEqual(left);
  });

  it("creates objects as a user would have applied them", () => {
    const { writes } = userRequests([
      "ADDED",
      object("Deployment", 1, { metadata: { ...revised, finalizers: ["a/hold"] }, status: { replicas: 1 } }),
    ]);
    const [write] = writes;
    expect(write?.kind === "create" && write.object).toEqual({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { namespace: "shop", name: "web", labels: { app: "web" }, annotations: { note: "x" }, finalizers: ["a/hold"] },
      spec: { replicas: 1, selector: { matchLabels: { app: "web" } }, template },
    });
  });
});

describe("two final states", () => {
  const live = (...args: Parameters<typeof object>): LiveObject => object(...args) as unknown as LiveObject; // of one capture
  const available = { type: "Available", status: "True", reason: "MinimumReplicasAvailable", lastUpdateTime: T };

  it("final states are equal if only random names, versions and times differ", () => {
    const recorded = [
      live("Deployment", 1, { status: { replicas: 1, unavailableReplicas: 0, conditions: [available] } }),
      live("Pod", 2, { metadata: { ...byReplicaSet, name: "web-abcde" } }),
    ];
    const ours = [
      live("Deployment", 7, { status: { replicas: 1, conditions: [{ ...available, lastUpdateTime: "later" }] } }),
      live("Pod", 8, { metadata: { ...byReplicaSet, name: "web-fghij" } }),
    ];
    expect(disagreements(recorded, ours)).toEqual([]);
  });

  it.each([
    {
      name: "a size",
      ours: [live("ReplicaSet", 1, { spec: { replicas: 2 } })],
      want: ["ReplicaSet shop/web: replicas: recorded 1, replayed 2"],
    },
    {
      name: "a count",
      ours: [live("ReplicaSet", 1, { status: { readyReplicas: 1 } })],
      want: ["ReplicaSet shop/web: status.readyReplicas: recorded nothing, replayed 1"],
    },
    {
      name: "pods",
      ours: [live("ReplicaSet", 1, { metadata: { uid: "rs" } }), live("Pod", 2, { metadata: byReplicaSet })],
      want: ["ReplicaSet shop/web: pods: recorded 0, replayed 1"],
    },
    {
      name: "a condition",
      ours: [live("ReplicaSet", 1, { status: { conditions: [available] } })],
      want: ['ReplicaSet shop/web: status.Available: recorded nothing, replayed "True MinimumReplicasAvailable"'],
    },
    { name: "a missing object", ours: [], want: ["ReplicaSet shop/web exists only in the recording"] },
    { name: "an additional object", ours: [live("ReplicaSet", 1), live("Pod", 2)], want: ["Pod shop/web exists only in the replay"] },
  ])("differ by $name", ({ ours, want }) => expect(disagreements([live("ReplicaSet", 1)], ours)).toEqual(want));
});
