// Threat: a forged row of an owner, with a smaller size, causes the deletion of its healthy pods.
import { expect, it } from "vitest";

import { SyncHarness } from "../harness/sync/sync.ts";
import { pod, replicaSet } from "../support/workloads.ts";

it.each([
  { name: "another metadata.generation", generation: 2 },
  { name: "the real metadata.generation", generation: 1 },
])(
  "a forged ReplicaSet row with fewer replicas and $name deletes no pod, because the sync reads the real count from the API server",
  async ({ generation }) => {
    const harness = await SyncHarness.create();
    const live = await harness.api.put("replicasets", replicaSet({ replicas: 3, status: { replicas: 3 } }));
    for (const name of ["a", "b", "c"]) await harness.api.put("pods", pod({ name, owner: { uid: live.metadata.uid } }));
    await harness.stream();
    harness.forge("replicasets", {
      ...live,
      metadata: { ...live.metadata, generation },
      spec: { ...live.spec, replicas: 0 },
    });
    await harness.stream();
    await harness.sync();
    expect(harness.api.writes).toEqual([]);
    expect(harness.pods.map(({ metadata }) => metadata.deletionTimestamp)).toEqual([undefined, undefined, undefined]);
  },
);
