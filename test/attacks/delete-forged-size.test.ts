// Threat: a forged row of an owner, with fewer replicas, has its healthy pods deleted.
import { expect, it } from "vitest";

import { pod, replicaSet } from "../unit/replicaset/fake-api.ts";
import { World } from "../unit/replicaset/world.ts";

it.each([
  { name: "another generation", generation: 2 },
  { name: "the true generation", generation: 1 },
])("no pod goes for a size that the API server does not confirm, told with $name", async ({ generation }) => {
  const world = await World.create();
  const live = world.api.put("replicasets", replicaSet({ uid: "rs-1", replicas: 3, status: { replicas: 3 } }));
  for (const name of ["a", "b", "c"]) world.api.put("pods", pod({ name, owner: { uid: "rs-1" } }));
  await world.stream();
  world.api.forge("replicasets", {
    ...live,
    metadata: { ...live.metadata, generation, resourceVersion: String(world.api.rv + 1_000) },
    spec: { ...live.spec, replicas: 0 },
  });
  await world.stream();
  await world.sync();
  expect(world.api.writes).toEqual([]);
  expect(world.pods.map(({ metadata }) => metadata.deletionTimestamp)).toEqual([undefined, undefined, undefined]);
});
