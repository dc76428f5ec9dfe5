// Would catch: a pod that its owner should have replaced, one that two owners count, a pod template of which a part is left behind, a
// delete that is not written down by the pod it means.
import { describe, expect, it, vi } from "vitest";
import { World } from "../../support/sync-world.ts";
import { pod, replicaSet } from "../../support/workloads.ts";

const statusOf = (world: World, name: string) => world.api.find("replicasets", name).status;

it("[replicaset 100] a pod that something holds while it is deleted, and one that has failed, are replaced and left there", async () => {
  const world = await World.create();
  await world.api.put("replicasets", replicaSet({ replicas: 2 }));
  await world.stream();
  await world.sync();
  const [held = "", failed = ""] = world.pods.map(({ metadata: { name } }) => name);
  await world.api.terminate("pods", held);
  await world.api.change("pods", failed, ({ status }) => ({ status: { ...status, phase: "Failed" } }));
  await world.stream();
  await world.sync();
  expect(world.pods.map(({ metadata: { name } }) => name)).toEqual([held, failed, expect.any(String), expect.any(String)]);
  expect(world.api.writes.filter((write) => write === "delete pods")).toEqual([]);
  await world.stream();
  await world.sync();
  expect(world.pods).toHaveLength(4);
  expect(statusOf(world, "web")).toMatchObject({ replicas: 2, terminatingReplicas: 1 });
});

it("[replicaset 102] two ReplicaSets with one selector have each its own pods, and count no other's", async () => {
  const world = await World.create();
  for (const [name, replicas] of [["a", 1] as const, ["b", 2] as const]) await world.api.put("replicasets", replicaSet({ name, replicas }));
  for (let round = 0; round < 3; round++) {
    await world.stream();
    for (const name of ["a", "b"]) await world.sync(`shop/${name}`);
  }
  expect(world.pods).toHaveLength(3);
  expect([statusOf(world, "a"), statusOf(world, "b")]).toMatchObject([{ replicas: 1 }, { replicas: 2 }]);
  expect(world.pods.map(({ metadata }) => metadata.ownerReferences?.map(({ name }) => name))).toEqual([["a"], ["b"], ["b"]]);
});

it("[replicaset 43] deletes are written down by name and uid of each pod before the first call, and none where there are none", async () => {
  const world = await World.create();
  await world.api.put("replicasets", replicaSet({ replicas: 0 }));
  const owner = { uid: world.api.uid("replicasets", "web") };
  const registered = vi.spyOn(world.store, "registerIntents");
  await world.stream();
  await world.sync();
  expect(registered).not.toHaveBeenCalled();
  for (const name of ["pod1", "pod2"]) await world.api.put("pods", pod({ name, owner }));
  const uids = world.pods.map(({ metadata: { uid } }) => uid);
  await world.stream();
  await world.sync();
  expect(registered.mock.calls.map(([, , intents]) => intents)).toEqual([
    ["pod1", "pod2"].map((name, i) => ({ id: `d:${uids[i]}`, verb: "delete", name, uid: uids[i] })),
  ]);
});

describe("a private image", () => {
  const privately = {
    metadata: { labels: { app: "web" } },
    spec: { imagePullSecrets: [{ name: "registry" }], containers: [{ name: "c", image: "registry.example/private:1" }] },
  };
  it.each([
    { id: "[replicaset 111]", resource: "replicasets", controller: "replicaset", selector: { matchLabels: { app: "web" } } },
    { id: "[replicaset 119]", resource: "replicationcontrollers", controller: "replicationcontroller", selector: { app: "web" } },
  ] as const)("$id of $resource is asked for with the template's own credentials", async ({ resource, controller, selector }) => {
    const world = await World.create({ controller });
    const { metadata, spec } = replicaSet();
    await world.api.put(resource, { metadata, spec: { ...spec, selector, template: privately } });
    await world.stream();
    await world.sync();
    expect(world.pods.map((made) => made.spec)).toMatchObject([privately.spec]);
  });
});
