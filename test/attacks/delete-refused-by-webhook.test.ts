// Threat: because of a validating webhook that responds with 409, a healthy pod counts as deleted, and a replacement is created.
import { expect, it } from "vitest";

import { refusal } from "../support/scripted-api.ts";
import { SyncHarness } from "../harness/sync/sync.ts";
import { pod, replicaSet } from "../support/workloads.ts";

it("treats a 409 response to the delete of an unchanged pod as a failure: reports it in an Event and the ReplicaFailure condition, and retries the key", async () => {
  const harness = await SyncHarness.create();
  const { uid } = (await harness.api.put("replicasets", replicaSet({ replicas: 1 }))).metadata;
  for (const name of ["a", "b"]) await harness.api.put("pods", pod({ name, owner: { uid } }));
  await harness.stream();
  harness.api.script = { "delete pods": refusal(409, "Conflict", "not before midnight") };
  await harness.sync();
  expect(harness.api.find("replicasets", "web").status).toMatchObject({
    replicas: 2,
    conditions: [{ type: "ReplicaFailure", reason: "FailedDelete", message: "unable to delete pods: not before midnight" }],
  });
  expect(harness.api.events).toEqual(["Warning FailedDelete Error deleting: not before midnight"]);
  expect(await harness.failures()).toBe(1);

  harness.api.script = {};
  await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 2 } }));
  await harness.stream();
  await harness.sync();
  expect(harness.pods).toHaveLength(2);
});
