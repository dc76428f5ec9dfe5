// 1. A controller is a decision: what was observed goes in, what should be written comes out. No API server is needed to ask.
import { expect, test } from "vitest";
import { claimPods } from "../shared/controllers/replicaset/claim-pods.ts";
import { REPLICA_SET } from "../shared/controllers/replicaset/kind.ts";
import { manageReplicas } from "../shared/controllers/replicaset/manage-replicas.ts";
import { observe } from "../shared/controllers/replicaset/observe.ts";
import type { Snapshot } from "../shared/store/ports/store.ts";
import { cachedPod, cachedReplicaSet, rowOf } from "../test/support/builders.ts";

const rs = cachedReplicaSet({ name: "web", uid: "rs-1", replicas: 3 });
const owner = { kind: "ReplicaSet", name: "web", uid: "rs-1" };

/** The snapshot that `take` returns for a sync: the ReplicaSet, its pods, and the namespace's pods without a controller. */
function snapshot(pods: readonly ReturnType<typeof cachedPod>[]): Snapshot {
  return { primary: rowOf(rs), dependents: pods.map((pod) => rowOf(pod)), orphans: [], intents: [], failures: 0 };
}

test("a ReplicaSet of three with one pod creates two more", () => {
  const observed = observe(snapshot([cachedPod({ name: "web-a", owner })]), REPLICA_SET);
  if (observed.kind !== "Observed") throw new Error(observed.kind);
  const { claimed } = claimPods(observed);
  expect(manageReplicas(observed, claimed, { related: [], nowMs: 0 }).writes).toMatchObject([
    { kind: "CreatePods", count: 2, owner: { name: "web" } },
  ]);
});

test("a ReplicaSet with a surplus pod deletes the pod that is not ready", () => {
  const ready = { status: "True", since: "2026-03-01T10:00:00Z" };
  const pods = ["a", "b", "c"].map((name) => cachedPod({ name: `web-${name}`, owner, nodeName: "n1", phase: "Running", ready }));
  const observed = observe(snapshot([...pods, cachedPod({ name: "web-d", owner, nodeName: "n1", phase: "Running" })]), REPLICA_SET);
  if (observed.kind !== "Observed") throw new Error(observed.kind);
  const { claimed } = claimPods(observed);
  expect(manageReplicas(observed, claimed, { related: [], nowMs: Date.parse("2026-03-01T11:00:00Z") }).writes).toMatchObject([
    { kind: "DeletePod", name: "web-d" },
  ]);
});
