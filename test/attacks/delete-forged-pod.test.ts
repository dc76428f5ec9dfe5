// Threat: a forged row sends a real DELETE for an unrelated bare pod.
import { expect, it } from "vitest";

import { World } from "../support/sync-world.ts";
import { pod, replicaSet } from "../support/workloads.ts";

/** Whoever writes rows knows uids, for they are no secret. Only the owner is made up. */
it.each([
  { name: "a pod that nobody controls", owner: undefined },
  { name: "somebody else's pod", owner: { name: "other", uid: "rs-2" } },
])("$name, which a row gives to a ReplicaSet that shrinks, stays", async ({ owner }) => {
  const world = await World.create();
  const { uid } = (await world.api.put("replicasets", replicaSet({ replicas: 0 }))).metadata;
  const victim = await world.api.put("pods", pod({ name: "victim", ...(owner && { owner }) }));
  await world.stream();
  const forged = pod({ name: "victim", owner: { uid } }).metadata;
  world.forge("pods", { ...victim, metadata: { ...victim.metadata, ...forged } });
  await world.stream();
  await world.sync();
  expect(world.api.find("pods", "victim")).toEqual(victim);
  expect(world.logged).toEqual([`pod not deleted {"key":"shop/web","pod":"shop/victim","reason":"controlled by somebody else"}`]);
});
