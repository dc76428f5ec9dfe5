// Threat: a forged row of an owner, with fewer replicas, has its healthy pods deleted.
import { expect, it } from "vitest";

import { World } from "../support/sync-world.ts";
import { pod, replicaSet } from "../support/workloads.ts";

it.each([
  { name: "another generation", generation: 2 },
  { name: "the true generation", generation: 1 },
])("no pod goes for a size that the API server does not confirm, told with $name", async ({ generation }) => {
  const world = await World.create();
  const live = await world.api.put("replicasets", replicaSet({ replicas: 3, status: { replicas: 3 } }));
  for (const name of ["a", "b", "c"]) await world.api.put("pods", pod({ name, owner: { uid: live.metadata.uid } }));
  await world.stream();
  world.forge("replicasets", {
    ...live,
    metadata: { ...live.metadata, generation },
    spec: { ...live.spec, replicas: 0 },
  });
  await world.stream();
  await world.sync();
  expect(world.api.writes).toEqual([]);
  expect(world.pods.map(({ metadata }) => metadata.deletionTimestamp)).toEqual([undefined, undefined, undefined]);
});
