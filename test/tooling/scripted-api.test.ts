// Would catch: a script that is ignored, a lost response whose request was not executed, and an object that no API server would accept.
// Every unit test of a sync relies on ScriptedApi.
import { beforeEach, expect, it } from "vitest";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { UnansweredError } from "../../shared/kube/client/errors.ts";
import { quota, refusal, ScriptedApi } from "../support/scripted-api.ts";
import { pod, replicaSet } from "../support/workloads.ts";

const NOW_MS = Date.parse("2026-03-01T10:00:00Z");

let api: ScriptedApi;
const clock = createVirtualClock(NOW_MS);
beforeEach(async () => void (api = await ScriptedApi.create({ clock })));

const create = (name: string) => {
  const { metadata, spec } = pod({ name });
  return api.create({ resource: "pods", namespace: "shop", body: { metadata, spec } });
};
const names = (): readonly string[] => api.all("pods").map(({ metadata }) => metadata.name);

it("handles requests without a script line as the server does, including its errors", async () => {
  api.script = { "delete pods": "never" };
  expect(await create("a")).toMatchObject({ metadata: { uid: expect.any(String) }, status: { phase: "Pending" } });
  await expect(create("a")).rejects.toMatchObject({ code: 409, reason: "AlreadyExists" });
  expect(await api.get("pods", "shop", "b")).toBeUndefined();
  const { items } = await api.list("pods", "shop", { labelSelector: "app=other" });
  expect(items).toEqual([]);
});

it("records requests in order, whatever their result", async () => {
  api.script = { "patch replicasets/status": refusal(403, "Forbidden", "no") };
  const { uid } = (await create("a")).metadata;
  const patch = {
    resource: "replicasets",
    namespace: "shop",
    name: "web",
    subresource: "status",
    type: "application/merge-patch+json",
  } as const;
  await expect(api.patch({ ...patch, body: { status: {} } })).rejects.toThrow("no");
  await api.get("pods", "shop", "a");
  await api.delete({ resource: "pods", namespace: "shop", name: "a", preconditions: { uid } });
  expect(api.calls).toMatchObject([
    { verb: "create", resource: "pods", name: "a", body: { metadata: { name: "a" } } },
    { verb: "patch", resource: "replicasets", subresource: "status", name: "web", body: { status: {} } },
    { verb: "get", resource: "pods", name: "a" },
    { verb: "delete", resource: "pods", name: "a", preconditions: { uid } },
  ]);
  expect(api.writes).toEqual(["create pods", "patch replicasets/status", "delete pods"]);
  expect(api.reads).toEqual(["get pods a"]);
});

it.each([
  { name: "a lost response", fate: "lost", stored: ["a"], error: new UnansweredError("no response within 5s") },
  { name: "a lost request", fate: "never", stored: [], error: new UnansweredError("no response within 5s") },
  { name: "an error response", fate: refusal(500, "InternalError", "oops"), stored: [], error: refusal(500, "InternalError", "oops") },
] as const)("a create with $name stores $stored", async ({ fate, stored, error }) => {
  api.script = { "create pods": fate };
  await expect(create("a")).rejects.toEqual(error);
  expect(names()).toEqual(stored);
});

it("a script line can read the call and its number, delay it, and change objects first", async () => {
  api.script = {
    "create pods": async ({ name }, nth) => {
      await api.put("pods", pod({ name: `before-${name}` }));
      return nth === 2 ? refusal(403, "Forbidden", "the second") : undefined;
    },
  };
  await create("a");
  await expect(create("b")).rejects.toThrow("the second");
  expect(names()).toEqual(["before-a", "a", "before-b"]);
});

it("a specific line takes precedence over the general one, and its response replaces the server's", async () => {
  const other = await api.put("pods", pod({ name: "other" }));
  api.script = { "*": "never", "get pods": { answer: other } };
  expect(await api.get("pods", "shop", "a")).toBe(other);
  await expect(api.list("pods", "shop")).rejects.toThrow("no response");
});

it("a quota allows N pods", async () => {
  api.script = quota(1);
  await create("a");
  await expect(create("b")).rejects.toMatchObject({ code: 403 });
});

it("requests of other clients bypass the script, so that the server's rules apply", async () => {
  api.script = { "*": "never" };
  const created = await api.put("replicasets", {
    ...replicaSet({ generation: 3, replicas: 2, status: { replicas: 1 } }),
    metadata: { name: "web", generation: 3, creationTimestamp: "2026-03-01T09:00:00Z" },
  });
  expect(created).toMatchObject({
    metadata: { namespace: "shop", generation: 3, creationTimestamp: "2026-03-01T09:00:00Z" },
    spec: { replicas: 2 },
    status: { replicas: 1 },
  });
  await expect(api.change("replicasets", "web", () => ({ status: { replicas: 1, readyReplicas: 2 } }))).rejects.toMatchObject({
    code: 422,
  });
  expect(api.calls).toEqual([]);
});

it("a terminating object exists until it is removed", async () => {
  for (const resource of ["replicasets", "pods"] as const) {
    await api.put(resource, { ...(resource === "pods" ? pod({ name: "x" }) : replicaSet({ name: "x" })), deleting: true });
    expect(api.find(resource, "x").metadata.deletionTimestamp).toBeDefined();
    await api.remove(resource, "x");
    expect(api.all(resource)).toEqual([]);
  }
});

it("deletes a pod without a node immediately, and one with a node when the node confirms it", async () => {
  const { uid } = (await api.put("pods", pod({ name: "c", nodeName: "" }))).metadata;
  await api.delete({ resource: "pods", namespace: "shop", name: "c", preconditions: { uid } });
  expect(names()).not.toContain("c");
  const running = await api.put("pods", pod({ name: "d", nodeName: "" }));
  await api.bind("d", "n1");
  await api.delete({ resource: "pods", namespace: "shop", name: "d", preconditions: { uid: running.metadata.uid } });
  expect(api.find("pods", "d").metadata.deletionTimestamp).toBe("2026-03-01T10:00:30Z");
});
