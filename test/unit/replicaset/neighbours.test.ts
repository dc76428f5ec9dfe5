// ReplicaSets that share a selector, pods with finalizers, private images, and recorded deletes.
import { describe, expect, it, vi } from "vitest";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { pod, replicaSet } from "../../support/workloads.ts";

const statusOf = (harness: SyncHarness, name: string) => harness.api.find("replicasets", name).status;

it("[replicaset 100] replaces failed pods and terminating pods with finalizers, without removing them", async () => {
  const harness = await SyncHarness.create();
  await harness.api.put("replicasets", replicaSet({ replicas: 2 }));
  await harness.stream();
  await harness.sync();
  const [held = "", failed = ""] = harness.pods.map(({ metadata: { name } }) => name);
  await harness.api.terminate("pods", held);
  await harness.api.change("pods", failed, ({ status }) => ({ status: { ...status, phase: "Failed" } }));
  await harness.stream();
  await harness.sync();
  expect(harness.pods.map(({ metadata: { name } }) => name)).toEqual([held, failed, expect.any(String), expect.any(String)]);
  expect(harness.api.writes.filter((write) => write === "delete pods")).toEqual([]);
  await harness.stream();
  await harness.sync();
  expect(harness.pods).toHaveLength(4);
  expect(statusOf(harness, "web")).toMatchObject({ replicas: 2, terminatingReplicas: 1 });
});

it("[replicaset 102] each of two ReplicaSets with the same selector owns and counts only its own pods", async () => {
  const harness = await SyncHarness.create();
  for (const [name, replicas] of [["a", 1] as const, ["b", 2] as const])
    await harness.api.put("replicasets", replicaSet({ name, replicas }));
  for (let round = 0; round < 3; round++) {
    await harness.stream();
    for (const name of ["a", "b"]) await harness.sync(`shop/${name}`);
  }
  expect(harness.pods).toHaveLength(3);
  expect([statusOf(harness, "a"), statusOf(harness, "b")]).toMatchObject([{ replicas: 1 }, { replicas: 2 }]);
  expect(harness.pods.map(({ metadata }) => metadata.ownerReferences?.map(({ name }) => name))).toEqual([["a"], ["b"], ["b"]]);
});

it("[replicaset 43] registers deletes by name and uid of each pod before the first call, and registers nothing if no pod is deleted", async () => {
  const harness = await SyncHarness.create();
  await harness.api.put("replicasets", replicaSet({ replicas: 0 }));
  const owner = { uid: harness.api.uid("replicasets", "web") };
  const registered = vi.spyOn(harness.store, "registerIntents");
  await harness.stream();
  await harness.sync();
  expect(registered).not.toHaveBeenCalled();
  for (const name of ["pod1", "pod2"]) await harness.api.put("pods", pod({ name, owner }));
  const uids = harness.pods.map(({ metadata: { uid } }) => uid);
  await harness.stream();
  await harness.sync();
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
  ] as const)("$id is pulled with the imagePullSecrets of the template of $resource", async ({ resource, controller, selector }) => {
    const harness = await SyncHarness.create({ controller });
    const { metadata, spec } = replicaSet();
    await harness.api.put(resource, { metadata, spec: { ...spec, selector, template: privately } });
    await harness.stream();
    await harness.sync();
    expect(harness.pods.map((made) => made.spec)).toMatchObject([privately.spec]);
  });
});
