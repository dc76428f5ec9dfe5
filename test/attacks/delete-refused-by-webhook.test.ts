// Threat: a validating webhook that answers 409 makes a healthy pod count as gone, so that another one is made in its place.
import { expect, it } from "vitest";

import { refusal } from "../support/scripted-api.ts";
import { World } from "../support/sync-world.ts";
import { pod, replicaSet } from "../support/workloads.ts";

it("a 409 on an unchanged pod is a refusal: the pod counts, the key is tried again, and people are told", async () => {
  const world = await World.create();
  const { uid } = (await world.api.put("replicasets", replicaSet({ replicas: 1 }))).metadata;
  for (const name of ["a", "b"]) await world.api.put("pods", pod({ name, owner: { uid } }));
  await world.stream();
  world.api.script = { "delete pods": refusal(409, "Conflict", "not before midnight") };
  await world.sync();
  expect(world.api.find("replicasets", "web").status).toMatchObject({
    replicas: 2,
    conditions: [{ type: "ReplicaFailure", reason: "FailedDelete", message: "unable to delete pods: not before midnight" }],
  });
  expect(world.api.events).toEqual(["Warning FailedDelete Error deleting: not before midnight"]);
  expect(await world.failures()).toBe(1);

  world.api.script = {};
  await world.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 2 } }));
  await world.stream();
  await world.sync();
  expect(world.pods).toHaveLength(2);
});
