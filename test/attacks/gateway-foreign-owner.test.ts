// Threat: a pod that references an owner's uid with another name or kind is deleted as if it belonged to that owner.
import { expect, it } from "vitest";

import { SyncHarness } from "../harness/sync/sync.ts";
import { pod, replicaSet } from "../support/workloads.ts";

it.each([
  { name: "another name", owner: { name: "other" } },
  { name: "another kind", owner: { kind: "ReplicationController" } },
])("does not delete a pod whose owner reference has the uid of a ReplicaSet but $name", async ({ owner }) => {
  const harness = await SyncHarness.create();
  const { uid } = (await harness.api.put("replicasets", replicaSet({ replicas: 0 }))).metadata;
  await harness.api.put("pods", pod({ name: "victim", owner: { ...owner, uid } }));
  await harness.stream();
  await harness.sync();
  expect(harness.api.writes).not.toContain("delete pods");
  expect(harness.pods).toMatchObject([{ metadata: { name: "victim" } }]);
});
