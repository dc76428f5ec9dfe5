// Threat: a pod that carries an owner's uid under another name or kind is deleted as if it were that owner's.
import { expect, it } from "vitest";

import { World } from "../support/sync-world.ts";
import { pod, replicaSet } from "../support/workloads.ts";

it.each([
  { name: "of another name", owner: { name: "other" } },
  { name: "of another kind", owner: { kind: "ReplicationController" } },
])("a pod whose controller is one $name is not deleted", async ({ owner }) => {
  const world = await World.create();
  const { uid } = (await world.api.put("replicasets", replicaSet({ replicas: 0 }))).metadata;
  await world.api.put("pods", pod({ name: "victim", owner: { ...owner, uid } }));
  await world.stream();
  await world.sync();
  expect(world.api.writes).not.toContain("delete pods");
  expect(world.pods).toMatchObject([{ metadata: { name: "victim" } }]);
});
