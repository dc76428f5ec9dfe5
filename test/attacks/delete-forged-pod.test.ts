// Threat: a forged row causes a real DELETE of an unrelated bare pod.
import { expect, it } from "vitest";

import { SyncHarness } from "../harness/sync/sync.ts";
import { pod, replicaSet } from "../support/workloads.ts";

/** The uids are correct, because an attacker who writes rows can read them. Only the owner is forged. */
it.each([
  { name: "a pod without controller", owner: undefined },
  { name: "another controller's pod", owner: { name: "other", uid: "rs-2" } },
])("scaling a ReplicaSet down does not delete $name that a forged row assigns to it", async ({ owner }) => {
  const harness = await SyncHarness.create();
  const { uid } = (await harness.api.put("replicasets", replicaSet({ replicas: 0 }))).metadata;
  const victim = await harness.api.put("pods", pod({ name: "victim", ...(owner && { owner }) }));
  await harness.stream();
  const forged = pod({ name: "victim", owner: { uid } }).metadata;
  harness.forge("pods", { ...victim, metadata: { ...victim.metadata, ...forged } });
  await harness.stream();
  await harness.sync();
  expect(harness.api.find("pods", "victim")).toEqual(victim);
  expect(harness.logged).toEqual([`pod not deleted {"key":"shop/web","pod":"shop/victim","reason":"controlled by another owner"}`]);
});
