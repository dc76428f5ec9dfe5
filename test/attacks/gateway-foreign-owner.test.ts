// Threat: a pod that carries an owner's uid under another name or kind is deleted as if it were that owner's.
import { expect, it } from "vitest";

import { pod, replicaSet } from "../unit/replicaset/fake-api.ts";
import { World } from "../unit/replicaset/world.ts";

it.each([
  { name: "of another name", owner: { uid: "rs-1", name: "other" } },
  { name: "of another kind", owner: { uid: "rs-1", kind: "ReplicationController" } },
])("a pod whose controller is one $name is not deleted", async ({ owner }) => {
  const world = await World.create();
  world.api.put("replicasets", replicaSet({ uid: "rs-1", replicas: 0 }));
  world.api.put("pods", pod({ name: "victim", owner }));
  await world.stream();
  await world.sync();
  expect(world.api.writes).not.toContain("delete pods");
  expect(world.pods).toMatchObject([{ metadata: { name: "victim" } }]);
});
