// Threat: a validating webhook that answers 409 makes a healthy pod count as gone, so that another one is made in its place.
import { expect, it } from "vitest";

import { pod, refusal, replicaSet } from "../unit/replicaset/fake-api.ts";
import { World } from "../unit/replicaset/world.ts";

it("a 409 on an unchanged pod is a refusal: the pod counts, the key is tried again, and people are told", async () => {
  const world = await World.create();
  world.api.put("replicasets", replicaSet({ uid: "rs-1", replicas: 1 }));
  for (const name of ["a", "b"]) world.api.put("pods", pod({ name, owner: { uid: "rs-1" } }));
  await world.stream();
  world.api.script = ({ verb }) => (verb === "delete" ? refusal(409, "Conflict", "not before midnight") : undefined);
  await world.sync();
  expect(world.api.find("replicasets", "web").status).toMatchObject({
    replicas: 2,
    conditions: [{ type: "ReplicaFailure", reason: "FailedDelete", message: "unable to delete pods: not before midnight" }],
  });
  expect(world.api.events).toEqual(["Warning FailedDelete Error deleting: not before midnight"]);
  expect(await world.failures()).toBe(1);

  world.api.script = () => undefined;
  world.api.change("replicasets", "web", ({ metadata, spec }) => ({
    metadata: { ...metadata, generation: 2 },
    spec: { ...spec, replicas: 2 },
  }));
  await world.stream();
  await world.sync();
  expect(world.pods).toHaveLength(2);
});
