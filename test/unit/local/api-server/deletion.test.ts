// Deletion in the in-memory API server: grace periods, finalizers and garbage collection.
import { expect, test } from "vitest";
import {
  at,
  deployment,
  DEPLOYMENTS,
  type Fixture,
  metaText,
  MERGE,
  ownedBy,
  pod,
  PODS,
  podTemplate,
  RCS,
  replicaSet,
  REPLICASETS,
  setUp,
  CONFIGMAPS,
} from "./fixture.ts";

const QUOTAS = "/api/v1/namespaces/default/resourcequotas";

async function status({ get }: Fixture, path: string): Promise<number> {
  return (await get(path)).status;
}

test("sets deletionTimestamp on a running pod, which remains until its node deletes it with grace 0", async () => {
  const fixture = setUp();
  await fixture.post(PODS, pod("p", {}, { nodeName: "n1", terminationGracePeriodSeconds: 7 }));
  const marked = await fixture.remove(`${PODS}/p`);
  expect(at(marked.body, "metadata")).toMatchObject({
    deletionTimestamp: "2026-01-02T03:04:12Z",
    deletionGracePeriodSeconds: 7,
    generation: 2,
  });
  expect((await fixture.remove(`${PODS}/p`)).body).toEqual(marked.body);
  const gone = await fixture.remove(`${PODS}/p`, { gracePeriodSeconds: 0 });
  expect([gone.status, gone.body["kind"], await status(fixture, `${PODS}/p`)]).toEqual([200, "Pod", 404]);
});

test.each([
  { name: "not bound", spec: {}, phase: undefined },
  { name: "succeeded", spec: { nodeName: "n1" }, phase: "Succeeded" },
  { name: "failed", spec: { nodeName: "n1" }, phase: "Failed" },
])("immediately deletes a pod that is $name, after an update that sets deletionGracePeriodSeconds to 0", async ({ spec, phase }) => {
  const fixture = setUp();
  await fixture.post(PODS, pod("p", {}, spec));
  if (phase !== undefined) await fixture.patch(`${PODS}/p/status`, MERGE, { status: { phase } });
  const stream = await fixture.watch(PODS, { resourceVersion: fixture.server.resourceVersion });
  await fixture.remove(`${PODS}/p`);
  expect(stream.take().map(({ type, object }) => `${type} ${String(at(object, "metadata.deletionGracePeriodSeconds"))}`)).toEqual([
    "MODIFIED 0",
    "DELETED 0",
  ]);
});

test.each([
  { preconditions: { uid: "other" }, message: "the UID in the precondition (other) does not match the UID in record" },
  {
    preconditions: { resourceVersion: "1" },
    message: "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
  },
])("returns 409 for a failed precondition: $preconditions", async ({ preconditions, message }) => {
  const fixture = setUp();
  await fixture.post(PODS, pod("p"));
  const { status: code, body } = await fixture.remove(`${PODS}/p`, { preconditions });
  expect([code, body["reason"]]).toEqual([409, "Conflict"]);
  expect(body["message"]).toContain(message);
});

test("keeps an object until its last finalizer is removed", async () => {
  const fixture = setUp();
  await fixture.post(CONFIGMAPS, { metadata: { name: "c", finalizers: ["a.b/c", "a.b/d"] } });
  expect(at((await fixture.remove(`${CONFIGMAPS}/c`)).body, "metadata.deletionTimestamp")).toBe("2026-01-02T03:04:05Z");
  await fixture.patch(`${CONFIGMAPS}/c`, MERGE, { metadata: { finalizers: ["a.b/d"] } });
  expect(await status(fixture, `${CONFIGMAPS}/c`)).toBe(200);
  await fixture.patch(`${CONFIGMAPS}/c`, MERGE, { metadata: { finalizers: null } });
  expect(await status(fixture, `${CONFIGMAPS}/c`)).toBe(404);
});

/** Creates a Deployment, its ReplicaSet and a pod. */
async function family(): Promise<Fixture> {
  const fixture = setUp();
  const owner = await fixture.post(DEPLOYMENTS, deployment("web"));
  const child = await fixture.post(REPLICASETS, replicaSet("web-1", { ownerReferences: [ownedBy(owner.body)] }));
  await fixture.post(PODS, pod("web-1-a", { ownerReferences: [ownedBy(child.body)] }));
  return fixture;
}

test("background: deletes the owner immediately, and its dependents afterwards", async () => {
  const fixture = await family();
  await fixture.remove(`${DEPLOYMENTS}/web`);
  expect([await status(fixture, `${DEPLOYMENTS}/web`), await status(fixture, `${REPLICASETS}/web-1`)]).toEqual([404, 200]);
  await fixture.clock.advance(1_000);
  expect([await status(fixture, `${REPLICASETS}/web-1`), await status(fixture, `${PODS}/web-1-a`)]).toEqual([404, 404]);
});

test("foreground: deletes the owner after its dependents", async () => {
  const fixture = await family();
  await fixture.patch(`${PODS}/web-1-a`, MERGE, { metadata: { finalizers: ["a.b/c"] } });
  const { body } = await fixture.remove(`${DEPLOYMENTS}/web`, { propagationPolicy: "Foreground" });
  expect(at(body, "metadata.finalizers")).toEqual(["foregroundDeletion"]);
  await fixture.clock.advance(1_000);
  expect([
    await status(fixture, `${DEPLOYMENTS}/web`),
    await status(fixture, `${REPLICASETS}/web-1`),
    await status(fixture, `${PODS}/web-1-a`),
  ]).toEqual([200, 200, 200]);
  await fixture.patch(`${PODS}/web-1-a`, MERGE, { metadata: { finalizers: null } });
  await fixture.clock.advance(1_000);
  expect([
    await status(fixture, `${DEPLOYMENTS}/web`),
    await status(fixture, `${REPLICASETS}/web-1`),
    await status(fixture, `${PODS}/web-1-a`),
  ]).toEqual([404, 404, 404]);
});

test("orphan: removes the reference from dependents, and keeps them", async () => {
  const fixture = await family();
  await fixture.remove(`${DEPLOYMENTS}/web`, { propagationPolicy: "Orphan" });
  await fixture.clock.advance(1_000);
  expect(await status(fixture, `${DEPLOYMENTS}/web`)).toBe(404);
  const { body } = await fixture.get(`${REPLICASETS}/web-1`);
  expect([at(body, "metadata.ownerReferences"), await status(fixture, `${PODS}/web-1-a`)]).toEqual([undefined, 200]);
});

test("orphans the pods of a ReplicationController when the request has no policy", async () => {
  const fixture = setUp();
  const rc = await fixture.post(RCS, {
    apiVersion: "v1",
    kind: "ReplicationController",
    metadata: { name: "c" },
    spec: { template: podTemplate() },
  });
  await fixture.post(PODS, pod("c-a", { ownerReferences: [ownedBy(rc.body)] }));
  await fixture.remove(`${RCS}/c`);
  await fixture.clock.advance(1_000);
  expect(await status(fixture, `${RCS}/c`)).toBe(404);
  expect(at((await fixture.get(`${PODS}/c-a`)).body, "metadata.ownerReferences")).toBeUndefined();
});

test("deletes an object that was created for an already deleted owner", async () => {
  const fixture = setUp();
  const rs = await fixture.post(REPLICASETS, replicaSet("rs"));
  await fixture.remove(`${REPLICASETS}/rs`);
  await fixture.post(PODS, pod("late", { ownerReferences: [ownedBy(rs.body)] }));
  await fixture.clock.advance(1_000);
  expect(await status(fixture, `${PODS}/late`)).toBe(404);
});

test("treats an owner reference with another uid as absent: deletes a pod without another owner, and removes only the reference from a pod with one", async () => {
  const fixture = setUp();
  const rs = await fixture.post(REPLICASETS, replicaSet("rs"));
  const other = { ...ownedBy(rs.body), uid: "gone", controller: false };
  await fixture.post(PODS, pod("p", { ownerReferences: [other] }));
  await fixture.post(PODS, pod("q", { ownerReferences: [other, ownedBy(rs.body)] }));
  await fixture.clock.advance(1_000);
  expect(await status(fixture, `${PODS}/p`)).toBe(404);
  expect(at((await fixture.get(`${PODS}/q`)).body, "metadata.ownerReferences")).toEqual([ownedBy(rs.body)]);
});

test("collects the dependents of objects that a backup has brought back", async () => {
  const fixture = await family();
  const restore = fixture.server.backup();
  await fixture.remove(`${DEPLOYMENTS}/web`);
  await fixture.clock.advance(1_000);
  restore();
  await fixture.clock.advance(1_000);
  expect([await status(fixture, `${DEPLOYMENTS}/web`), await status(fixture, `${PODS}/web-1-a`)]).toEqual([200, 200]);
  await fixture.remove(`${DEPLOYMENTS}/web`);
  await fixture.clock.advance(1_000);
  expect([await status(fixture, `${REPLICASETS}/web-1`), await status(fixture, `${PODS}/web-1-a`)]).toEqual([404, 404]);
});

test("collects the dependents of objects that the server began with, and those without an owner", async () => {
  const first = await family();
  const bodyOf = async (path: string) => (await first.get(path)).body;
  const objects = [
    ["replicasets.apps", await bodyOf(`${REPLICASETS}/web-1`)],
    ["pods", await bodyOf(`${PODS}/web-1-a`)],
  ] as const;
  const copy = setUp({ objects: [["deployments.apps", await bodyOf(`${DEPLOYMENTS}/web`)], ...objects] });
  await copy.clock.advance(1_000);
  expect(await status(copy, `${PODS}/web-1-a`)).toBe(200);
  await copy.remove(`${DEPLOYMENTS}/web`);
  await copy.clock.advance(1_000);
  expect(await status(copy, `${PODS}/web-1-a`)).toBe(404);
  const orphans = setUp({ objects });
  await orphans.clock.advance(1_000);
  expect([await status(orphans, `${REPLICASETS}/web-1`), await status(orphans, `${PODS}/web-1-a`)]).toEqual([404, 404]);
});

test("ignores owners of kinds that this API server does not serve", async () => {
  const fixture = setUp();
  await fixture.post(PODS, pod("p", { ownerReferences: [{ apiVersion: "example.com/v1", kind: "Widget", name: "w", uid: "1" }] }));
  await fixture.clock.advance(1_000);
  expect(await status(fixture, `${PODS}/p`)).toBe(200);
});

test("empties a terminating namespace, rejects new objects in it, and deletes it", async () => {
  const fixture = setUp();
  await fixture.post("/api/v1/namespaces", { metadata: { name: "shop" } });
  await fixture.clock.advance(100);
  expect(await status(fixture, "/api/v1/namespaces/shop/serviceaccounts/default")).toBe(200);
  const inShop = DEPLOYMENTS.replace("default", "shop");
  await fixture.post(inShop, deployment("web"));
  const { body } = await fixture.remove("/api/v1/namespaces/shop");
  expect(at(body, "status.phase")).toBe("Terminating");
  const refused = await fixture.post(inShop, deployment("web2"));
  expect(refused).toMatchObject({ status: 403, body: { details: { causes: [{ reason: "NamespaceTerminating" }] } } });
  await fixture.clock.advance(1_000);
  expect([await status(fixture, `${inShop}/web`), await status(fixture, "/api/v1/namespaces/shop")]).toEqual([404, 404]);
});

test("counts active pods for a pod quota, and rejects a pod above the quota with upstream's message", async () => {
  const fixture = setUp();
  await fixture.post(QUOTAS, { metadata: { name: "q" }, spec: { hard: { pods: "2" } } });
  for (const name of ["a", "b"]) await fixture.post(PODS, pod(name, {}, { nodeName: "n1" }));
  expect(at((await fixture.get(`${QUOTAS}/q`)).body, "status")).toEqual({ hard: { pods: "2" }, used: { pods: "2" } });
  const refused = await fixture.post(PODS, pod("c"));
  expect(refused).toMatchObject({
    status: 403,
    body: { reason: "Forbidden", message: 'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2' },
  });
  await fixture.patch(`${PODS}/a/status`, MERGE, { status: { phase: "Succeeded" } });
  expect((await fixture.post(PODS, pod("c"))).status).toBe(201);
});

test("deletes only the objects of a collection that match the label selector", async () => {
  const fixture = setUp();
  for (const [name, app] of [
    ["a", "x"],
    ["b", "y"],
  ])
    await fixture.post(CONFIGMAPS, { metadata: { name, labels: { app } } });
  const response = await fixture.server.request({ method: "DELETE", path: CONFIGMAPS, query: { labelSelector: "app=x" } });
  expect(response.status).toBe(200);
  expect([await status(fixture, `${CONFIGMAPS}/a`), await status(fixture, `${CONFIGMAPS}/b`)]).toEqual([404, 200]);
  expect(metaText((await fixture.get(`${CONFIGMAPS}/b`)).body, "name")).toBe("b");
});
