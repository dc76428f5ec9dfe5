// Requests to the in-memory API server: system fields, validation and generations.
import { expect, test } from "vitest";
import {
  at,
  CONFIGMAPS,
  deployment,
  DEPLOYMENTS,
  MERGE,
  metaText,
  pod,
  PODS,
  RCS,
  replicaSet,
  REPLICASETS,
  setUp,
  STRATEGIC,
  podTemplate,
} from "./fixture.ts";

test("gives a created object uid, resourceVersion, generation and a creation time in seconds", async () => {
  const { post } = setUp();
  const { status, body } = await post(DEPLOYMENTS, deployment("web"));
  expect(status).toBe(201);
  expect(at(body, "metadata")).toMatchObject({
    name: "web",
    namespace: "default",
    generation: 1,
    creationTimestamp: "2026-01-02T03:04:05Z",
  });
  expect(metaText(body, "uid")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u);
});

test("appends five characters of upstream's alphabet to at most 58 characters of generateName", async () => {
  const { post } = setUp();
  const { body } = await post(PODS, pod("", { name: "", generateName: `${"x".repeat(70)}-` }));
  expect(metaText(body, "name")).toMatch(/^x{58}[bcdfghjklmnpqrstvwxz2456789]{5}$/u);
});

test("returns the same names and uids for the same seed", async () => {
  const [a, b] = await Promise.all([setUp(), setUp()].map(({ post }) => post(PODS, pod("", { name: "", generateName: "p-" }))));
  expect(a?.body).toEqual(b?.body);
});

test.each([
  {
    name: "a second object of the same name",
    path: DEPLOYMENTS,
    body: deployment("web"),
    code: 409,
    reason: "AlreadyExists",
    message: 'deployments.apps "web" already exists',
  },
  {
    name: "a namespace that does not exist",
    path: DEPLOYMENTS.replace("default", "nope"),
    body: deployment("a"),
    code: 404,
    reason: "NotFound",
    message: 'namespaces "nope" not found',
  },
  {
    name: "a body whose namespace differs from that of the request",
    path: DEPLOYMENTS,
    body: deployment("a", {}, { namespace: "other" }),
    code: 400,
    reason: "BadRequest",
    message: "the namespace of the provided object does not match the namespace sent on the request",
  },
  {
    name: "a selector that does not match the template's labels",
    path: DEPLOYMENTS,
    body: deployment("a", { selector: { matchLabels: { a: "b" } } }),
    code: 422,
    reason: "Invalid",
    message: "`selector` does not match template `labels`",
  },
  {
    name: "a missing selector",
    path: DEPLOYMENTS,
    body: deployment("a", { selector: null }),
    code: 422,
    reason: "Invalid",
    message: "spec.selector: Required value",
  },
  {
    name: "an empty selector",
    path: DEPLOYMENTS,
    body: deployment("a", { selector: {} }),
    code: 422,
    reason: "Invalid",
    message: "empty selector is invalid for deployment",
  },
  {
    name: "an invalid name",
    path: DEPLOYMENTS,
    body: deployment("Web_1"),
    code: 422,
    reason: "Invalid",
    message: "a lowercase RFC 1123 subdomain",
  },
  {
    name: "maxSurge and maxUnavailable both 0",
    path: DEPLOYMENTS,
    body: deployment("a", { strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 0 } } }),
    code: 422,
    reason: "Invalid",
    message: "may not be 0 when `maxSurge` is 0",
  },
  {
    name: "Recreate with rollingUpdate",
    path: DEPLOYMENTS,
    body: deployment("a", { strategy: { type: "Recreate", rollingUpdate: {} } }),
    code: 422,
    reason: "Invalid",
    message: "may not be specified when strategy `type` is 'Recreate'",
  },
  {
    name: "a progressDeadlineSeconds that does not exceed minReadySeconds",
    path: DEPLOYMENTS,
    body: deployment("a", { minReadySeconds: 600 }),
    code: 422,
    reason: "Invalid",
    message: "must be greater than minReadySeconds",
  },
  {
    name: "a template with a restart policy other than Always",
    path: DEPLOYMENTS,
    body: deployment("a", { template: podTemplate({ restartPolicy: "Never" }) }),
    code: 422,
    reason: "Invalid",
    message: 'Unsupported value: "Never": supported values: "Always"',
  },
  {
    name: "a pod without containers",
    path: PODS,
    body: pod("a", {}, { containers: [] }),
    code: 422,
    reason: "Invalid",
    message: "spec.containers: Required value",
  },
  {
    name: "two controller references",
    path: PODS,
    body: pod("a", { ownerReferences: ["a", "b"].map((name) => ({ apiVersion: "v1", kind: "Foo", name, uid: name, controller: true })) }),
    code: 422,
    reason: "Invalid",
    message: 'Only one reference can have Controller set to true. Found "true" in references for Foo/a and Foo/b',
  },
])("rejects $name", async ({ path, body, code, reason, message }) => {
  const { post } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  const answer = await post(path, body);
  expect({ status: answer.status, reason: answer.body["reason"] }).toEqual({ status: code, reason });
  expect(answer.body["message"]).toContain(message);
});

test.each([
  { name: "spec", change: { spec: { replicas: 5 } }, generation: 2 },
  { name: "annotations", change: { metadata: { annotations: { a: "b" } } }, generation: 2 },
  { name: "labels", change: { metadata: { labels: { a: "b" } } }, generation: 1 },
  { name: "status through the main resource, which is ignored,", change: { status: { replicas: 9 } }, generation: 1 },
])("sets a Deployment's generation after a change of $name to $generation", async ({ change, generation }) => {
  const { post, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  const { body } = await patch(`${DEPLOYMENTS}/web`, MERGE, change);
  expect(at(body, "metadata.generation")).toBe(generation);
  expect(body["status"]).toEqual({});
});

test("increments the generation if a template label named like a JavaScript property, such as constructor, is added or removed", async () => {
  const { post, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  const change = async (constructor: string | null): Promise<unknown> => {
    const { body } = await patch(`${DEPLOYMENTS}/web`, MERGE, { spec: { template: { metadata: { labels: { constructor } } } } });
    return at(body, "metadata.generation");
  };
  expect(await change("x")).toBe(2);
  expect(await change(null)).toBe(3);
});

test("keeps a ReplicaSet's generation when its annotations change", async () => {
  const { post, patch } = setUp();
  await post(REPLICASETS, replicaSet("rs"));
  const { body } = await patch(`${REPLICASETS}/rs`, MERGE, { metadata: { annotations: { a: "b" } } });
  expect(at(body, "metadata.generation")).toBe(1);
});

test("a patch of a Deployment's /status changes annotations and status, but not spec, labels or generation", async () => {
  const { post, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  const { body } = await patch(`${DEPLOYMENTS}/web/status`, MERGE, {
    metadata: { annotations: { "deployment.kubernetes.io/revision": "1" }, labels: { no: "no" } },
    spec: { replicas: 9 },
    status: { replicas: 1, observedGeneration: 1 },
  });
  expect(at(body, "metadata.annotations")).toEqual({ "deployment.kubernetes.io/revision": "1" });
  expect(at(body, "metadata.labels")).toBeUndefined();
  expect(at(body, "metadata.generation")).toBe(1);
  expect(at(body, "spec.replicas")).toBe(1);
  expect(body["status"]).toEqual({ replicas: 1, observedGeneration: 1 });
});

test("/status omits replicas: 0 of a Deployment, and keeps it for a ReplicaSet", async () => {
  const { post, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  await post(REPLICASETS, replicaSet("rs"));
  const status = { observedGeneration: 1, replicas: 0, readyReplicas: 0, terminatingReplicas: 0 };
  const statusOf = async (path: string): Promise<unknown> => (await patch(`${path}/status`, MERGE, { status })).body["status"];
  expect(await statusOf(`${DEPLOYMENTS}/web`)).toEqual({ observedGeneration: 1, terminatingReplicas: 0 });
  expect(await statusOf(`${REPLICASETS}/rs`)).toEqual({ observedGeneration: 1, replicas: 0, terminatingReplicas: 0 });
});

test.each([
  {
    name: "more ready replicas than replicas",
    status: { replicas: 1, readyReplicas: 2 },
    message: "cannot be greater than status.replicas",
  },
  {
    name: "more available replicas than ready ones",
    status: { replicas: 2, readyReplicas: 1, availableReplicas: 2 },
    message: "cannot be greater than readyReplicas",
  },
  { name: "a decreasing collision count", status: { collisionCount: 0 }, message: "cannot be decremented" },
])("/status rejects $name", async ({ status, message }) => {
  const { post, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  await patch(`${DEPLOYMENTS}/web/status`, MERGE, { status: { collisionCount: 1 } });
  const answer = await patch(`${DEPLOYMENTS}/web/status`, MERGE, { status });
  expect(answer.status).toBe(422);
  expect(answer.body["message"]).toContain(message);
});

test("a write that changes nothing keeps the resourceVersion", async () => {
  const { post, patch, server } = setUp();
  const { body } = await post(DEPLOYMENTS, deployment("web"));
  const before = server.resourceVersion;
  const again = await patch(`${DEPLOYMENTS}/web`, STRATEGIC, { spec: { replicas: 1 } });
  expect(server.resourceVersion).toBe(before);
  expect(metaText(again.body, "resourceVersion")).toBe(metaText(body, "resourceVersion"));
});

test.each([
  {
    name: "an old resourceVersion in a PUT",
    send: "put",
    meta: { resourceVersion: "1" },
    code: 409,
    message: "the object has been modified; please apply your changes to the latest version and try again",
  },
  {
    name: "another uid in a PUT",
    send: "put",
    meta: { uid: "other" },
    code: 409,
    message: "Precondition failed: UID in precondition: other",
  },
  {
    name: "an old resourceVersion in a PATCH",
    send: "patch",
    meta: { resourceVersion: "1" },
    code: 409,
    message: "the object has been modified",
  },
  {
    name: "another uid in a PATCH",
    send: "patch",
    meta: { uid: "other" },
    code: 422,
    message: 'metadata.uid: Invalid value: "other": field is immutable',
  },
] as const)("returns $code for $name", async ({ send, meta, code, message }) => {
  const { post, put, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  const answer =
    send === "put"
      ? await put(`${DEPLOYMENTS}/web`, deployment("web", { replicas: 3 }, meta))
      : await patch(`${DEPLOYMENTS}/web`, STRATEGIC, { metadata: meta });
  expect(answer.status).toBe(code);
  expect(answer.body["message"]).toContain(message);
});

test("rejects a change of a selector, with upstream's message", async () => {
  const { post, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  const labels = { app: "web", b: "c" };
  const { status, body } = await patch(`${DEPLOYMENTS}/web`, MERGE, {
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels } } },
  });
  expect(status).toBe(422);
  expect(body["message"]).toBe(
    'Deployment.apps "web" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"web","b":"c"}}: field is immutable',
  );
  expect(body["details"]).toMatchObject({
    group: "apps",
    kind: "Deployment",
    causes: [{ reason: "FieldValueInvalid", field: "spec.selector" }],
  });
});

test("reads and writes a size through /scale, and increments the generation", async () => {
  const { post, get, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web", { replicas: 3 }));
  const scale = await get(`${DEPLOYMENTS}/web/scale`);
  expect(scale.body).toMatchObject({
    kind: "Scale",
    apiVersion: "autoscaling/v1",
    spec: { replicas: 3 },
    status: { replicas: 0, selector: "app=web" },
  });
  const scaled = await patch(`${DEPLOYMENTS}/web/scale`, MERGE, { spec: { replicas: 0 } });
  expect(scaled.body).toMatchObject({ kind: "Scale", spec: {} });
  const { body } = await get(`${DEPLOYMENTS}/web`);
  expect([at(body, "spec.replicas"), at(body, "metadata.generation")]).toEqual([0, 2]);
});

test("takes selector and labels of a ReplicationController from its template", async () => {
  const { post } = setUp();
  const { body } = await post(RCS, {
    apiVersion: "v1",
    kind: "ReplicationController",
    metadata: { name: "c" },
    spec: { template: podTemplate() },
  });
  expect(at(body, "spec.selector")).toEqual({ app: "web" });
  expect(at(body, "metadata.labels")).toEqual({ app: "web" });
  expect(at(body, "spec.replicas")).toBe(1);
});

test("binds a pod to a node through /binding, but not twice", async () => {
  const { post, get } = setUp();
  await post(PODS, pod("p"));
  const binding = { apiVersion: "v1", kind: "Binding", metadata: { name: "p" }, target: { kind: "Node", name: "n1" } };
  expect((await post(`${PODS}/p/binding`, binding)).status).toBe(201);
  const { body } = await get(`${PODS}/p`);
  expect([at(body, "spec.nodeName"), at(body, "status.conditions.0.type"), at(body, "metadata.generation")]).toEqual([
    "n1",
    "PodScheduled",
    1,
  ]);
  const again = await post(`${PODS}/p/binding`, binding);
  expect(again.body["message"]).toBe('Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"');
});

test("stores nothing for dry runs", async () => {
  const { post, get, server } = setUp();
  const before = server.resourceVersion;
  expect((await post(DEPLOYMENTS, deployment("web"), { dryRun: "All" })).status).toBe(201);
  expect([server.resourceVersion, (await get(`${DEPLOYMENTS}/web`)).status]).toEqual([before, 404]);
});

test("an in-process caller cannot modify stored objects or objects returned to other readers", async () => {
  const { post, get } = setUp();
  const sent = { metadata: { name: "c" }, data: { a: "1" } };
  const { body } = await post(CONFIGMAPS, sent);
  sent.data.a = "2";
  expect(() => Object.assign(body, { data: {} })).toThrow(TypeError);
  expect(at((await get(`${CONFIGMAPS}/c`)).body, "data.a")).toBe("1");
});

test("listeners receive the user who made a write", async () => {
  const { post, server } = setUp();
  const seen: string[] = [];
  const stop = server.onRequest(({ verb, resource, name, status, fieldManager, userAgent }) =>
    seen.push([verb, resource, name, status, fieldManager, userAgent].join(" ")),
  );
  await post(DEPLOYMENTS, deployment("web"), { fieldManager: "me" });
  await post(DEPLOYMENTS, deployment("web"));
  stop();
  await post(DEPLOYMENTS, deployment("web2"));
  expect(seen).toEqual(["create deployments web 201 me test", "create deployments web 409  test"]);
});

test("[informer T126] treats keys such as __proto__ as ordinary keys: rejects them as invalid labels, keeps them as data", async () => {
  const { get, post, patch } = setUp();
  // parses JSON, because `{ __proto__: … }` in source code has another meaning
  const wire = (text: string): object => JSON.parse(text) as object;
  await post(PODS, pod("web"));
  for (const type of [MERGE, STRATEGIC])
    expect(await patch(`${PODS}/web`, type, wire('{"metadata":{"labels":{"__proto__":"x"}}}'))).toMatchObject({ status: 422 });
  await patch(`${PODS}/web`, MERGE, { metadata: { labels: { toString: "x" } } });
  for (const [labelSelector, found] of Object.entries({
    toString: 1,
    "toString=x": 1,
    constructor: 0,
    "!constructor": 1,
    "constructor!=x": 1,
  }))
    expect([labelSelector, at((await get(PODS, { labelSelector })).body, "items")]).toMatchObject([labelSelector, { length: found }]);

  const created = await post(CONFIGMAPS, wire('{"metadata":{"name":"c","__proto__":{"finalizers":["a/b"]}},"data":{"__proto__":"x"}}'));
  expect(JSON.stringify(created.body["data"])).toBe('{"__proto__":"x"}');
  expect(metaText(created.body, "name")).toBe("c");
  expect((created.body["metadata"] as { readonly finalizers?: unknown }).finalizers).toBeUndefined();
});

/** The case of kubernetes/kubectl#712: `kubectl apply` of a large object. */
test.each([
  ["just at the limit", 262_144, 201],
  ["one byte more", 262_145, 422],
  ["a large last-applied", 400_000, 422],
])("limits annotations by keys and values together: %s", async (_, bytes, want) => {
  const { post } = setUp();
  const key = "kubectl.kubernetes.io/last-applied-configuration";
  const body = deployment("web");
  const { status } = await post(DEPLOYMENTS, {
    ...body,
    metadata: { name: "web", annotations: { [key]: "x".repeat(bytes - key.length) } },
  });
  expect(status).toBe(want);
});
