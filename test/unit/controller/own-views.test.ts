/**
 * Views, keys and rights of user controllers. Catches: a value that leaves the API server although the controller cannot see it, and a
 * change that enqueues no key.
 */
import { describe, expect, it } from "vitest";

import { cacheOf, gatewayContractOf } from "../../../shared/controllers/registry/cache-of.ts";
import { ownControllers, registryOf, unsupportedBy } from "../../../shared/controllers/own.ts";
import { createWriteGateway } from "../../../shared/controllers/kit/write-gateway/write-gateway.ts";
import type { Delta, Lookups } from "../../../shared/controllers/cache/affected-keys.ts";
import type { KubeWriter } from "../../../shared/kube/client/kube.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { ownerIdIn } from "../../../shared/kube/objects/catalog.ts";
import type { OwnController } from "../../../shared/kube/objects/resources.ts";
import { customResource, defineController, own, s, watch } from "../../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Pod } from "../../../shared/sdk/kinds.ts";

const digester = createDigester("a key for tests");
const spec = s.object({ image: s.string(), token: s.string().secret().optional() });
const Site = customResource({ group: "x.example.com", version: "v1", kind: "Site", spec, status: s.object({}) });
const { definition } = defineController({
  name: "site",
  for: Site,
  where: { labels: { on: "*" } },
  owns: [Deployment],
  watches: [watch(ConfigMap, { by: { label: "site" } })],
  sync: () => undefined,
});
const entries = ownControllers([definition]);
const registry = registryOf(entries);
const [entry] = registry.controllers;
const [primary, owned, watched] = entries[0]?.views ?? [];
if (!entry || !primary || !owned || !watched) throw new Error("no views");
const name = entry.name as OwnController; // the definition's name

const meta = (more: object = {}) => ({ namespace: "shop", name: "a", uid: "u1", resourceVersion: "5", ...more });
const managed = (manager: string, operation = "Apply") => [{ manager, operation, apiVersion: "v1", fieldsV1: {} }];
const site = (more: object = {}, of: object = { image: "i", token: "CANARY" }) =>
  primary.project({ apiVersion: "x.example.com/v1", kind: "Site", metadata: meta({ labels: { on: "1" }, ...more }), spec: of }, digester);
const reference = { apiVersion: "x.example.com/v1", kind: "Site", name: "a", uid: "u1", controller: true };
const container = { name: "c", env: [{ name: "E", value: "CANARY" }] };
const deployment = (more: object = {}, replicas = 1) =>
  owned.project(
    {
      metadata: meta({ uid: "d1", ownerReferences: [reference], annotations: { note: "CANARY" }, ...more }),
      spec: { replicas, template: { spec: { containers: [container] } } },
      status: { readyReplicas: 1 },
    },
    digester,
  );

describe("a view of a user controller", () => {
  it("keeps the visible fields and digests, and is unchanged by a second projection", () => {
    for (const object of [site(), deployment()]) expect(JSON.stringify(object)).not.toContain("CANARY");
    expect(site()).toMatchObject({ spec: { image: "i" }, "~own": { content: expect.any(String) } });
    expect(deployment()).toMatchObject({ status: { readyReplicas: 1 } });
    expect(primary.project(JSON.parse(JSON.stringify(site())), digester)).toEqual(site());
    expect(owned.project(deployment(), digester)).toEqual(deployment());
  });

  it("keeps no values of env and pod templates, although the mask names fields that contain them", () => {
    const seen = defineController({
      name: "seen",
      for: Pod,
      see: { spec: true },
      owns: [own(Deployment, { spec: true })],
      sync: () => undefined,
    });
    const [pods, deployments] = ownControllers([seen.definition])[0]?.views ?? [];
    const pod = { metadata: meta({ uid: "p1" }), spec: { nodeName: "n", containers: [container] } };
    expect(pods?.project(pod, digester)).toMatchObject({ spec: { nodeName: "n", containers: [{ name: "c" }] } });
    expect(JSON.stringify(pods?.project(pod, digester))).not.toContain("CANARY");
    const templated = {
      metadata: meta({ ownerReferences: [{ ...reference, apiVersion: "v1", kind: "Pod" }] }),
      spec: { replicas: 1, template: { spec: { image: "CANARY" } } },
    };
    expect(deployments?.project(templated, digester)).toMatchObject({ spec: { replicas: 1 } });
    expect(JSON.stringify(deployments?.project(templated, digester))).not.toContain("CANARY");
  });

  it("keeps no content of a primary outside `where`, or of an object with an owner of another kind", () => {
    const out = site({ labels: {} });
    expect(out).toEqual({ metadata: meta(), "~own": { isOut: true } });
    expect(deployment({ ownerReferences: [{ ...reference, kind: "Other" }] })).toMatchObject({ "~own": { isOut: true } });
    expect(deployment({ ownerReferences: [{ ...reference, apiVersion: "other/v1" }] })).toMatchObject({ "~own": { isOut: true } });
  });

  it("puts an owned object into the slice that a take of its primary reads", () => {
    const { catalog } = cacheOf(registry);
    expect(owned.slice?.(deployment())).toBe(ownerIdIn(catalog, name, "shop/a", "u1"));
    expect(owned.slice?.(deployment({ ownerReferences: [{ ...reference, uid: "u2" }] }))).not.toBe(
      ownerIdIn(catalog, name, "shop/a", "u1"),
    );
  });

  it("has a name that differs for another projection, and includes group and version for a kind outside the resource table", () => {
    const [other] = ownControllers([{ ...definition, annotations: ["x"] }]);
    expect(primary.name).toMatch(/^sites\.v1\.x\.example\.com~site~[0-9a-f]{12}$/);
    expect(owned.name).toMatch(/^deployments~site~/);
    expect(other?.views[0].name).not.toBe(primary.name);
  });

  it("has another name once a watch selects by namespace, because Stores list no rows cached earlier", () => {
    const nameWith = (by: Parameters<typeof watch>[1]["by"]) =>
      ownControllers([
        defineController({ name: "site", for: Site, watches: [watch(ConfigMap, { by })], sync: () => undefined }).definition,
      ])[0]?.views[0].name;
    expect(nameWith({ all: "namespace" })).not.toBe(nameWith({ name: "same" }));
    expect(nameWith({ label: "site" })).toBe(nameWith({ name: "same" }));
  });
});

describe("affected keys of a user controller", () => {
  const lookups: Lookups = {
    get: ((_: unknown, key: string) => (key === "shop/a" ? site() : undefined)) as Lookups["get"],
    primaries: () => [],
  };
  const keys = (delta: object): readonly string[] => entry.affectedKeys(delta as Delta, lookups).map(({ key, uid }) => `${key} ${uid}`);
  const [self, ofOwned, ofWatched] = [{ resource: primary.name }, { resource: owned.name }, { resource: watched.name }];
  const note = watched.project({ metadata: meta({ uid: "c1", labels: { site: "a" } }), data: { k: "CANARY" } }, digester);
  const rotated = watched.project({ metadata: meta({ uid: "c1", resourceVersion: "6", labels: { site: "a" } }) }, digester);

  it.each([
    { why: "a new primary", delta: { ...self, new: site() }, want: ["shop/a u1"] },
    { why: "a change of only the version", delta: { ...self, old: site(), new: site({ resourceVersion: "6" }) }, want: [] },
    { why: "a change of a hidden field", delta: { ...self, old: site(), new: site({}, { image: "i", token: "t" }) }, want: [] },
    { why: "a change of a visible field", delta: { ...self, old: site(), new: site({}, { image: "j" }) }, want: ["shop/a u1"] },
    {
      why: "another writer's change of a primary that the controller writes",
      delta: {
        ...self,
        old: site({ managedFields: managed("deltaloop-site") }),
        new: site({ managedFields: managed("deltaloop-site", "Update") }),
      },
      want: ["shop/a u1"],
    },
    { why: "a primary that leaves `where`", delta: { ...self, old: site(), new: site({ labels: {} }) }, want: ["shop/a u1"] },
    { why: "a primary outside `where`", delta: { ...self, new: site({ labels: {} }) }, want: [] },
    { why: "a deleted primary", delta: { ...self, old: site() }, want: [] },
    { why: "a change of an owned object's content", delta: { ...ofOwned, old: deployment(), new: deployment({}, 2) }, want: ["shop/a u1"] },
    { why: "a deleted owned object", delta: { ...ofOwned, old: deployment() }, want: ["shop/a u1"] },
    {
      why: "a managedFields entry of another writer",
      delta: { ...ofOwned, old: deployment(), new: deployment({ managedFields: managed("x") }) },
      want: [],
    },
    { why: "a watched object", delta: { ...ofWatched, new: note }, want: ["shop/a u1"] },
    {
      why: "another version of a watched ConfigMap, whose data may have changed",
      delta: { ...ofWatched, old: note, new: rotated },
      want: ["shop/a u1"],
    },
    { why: "an object of another view", delta: { resource: "pods", new: site() }, want: [] },
  ])("are $want for $why", ({ delta, want }) => {
    expect(keys(delta)).toEqual(want);
  });
});

describe("the contract of a user controller", () => {
  const sent: string[] = [];
  const writer = new Proxy({} as KubeWriter, { get: (_, verb) => () => Promise.resolve(void sent.push(String(verb))) });
  const gateway = createWriteGateway(writer, name, "act", gatewayContractOf(registry, name)).forRun({
    namespace: "shop",
    name: "a",
    uid: "u1",
  });
  const body = { metadata: { name: "a", ownerReferences: [reference] } };
  const APPLY = "application/apply-patch+yaml";
  const row = { namespace: "shop", name: "a", uid: "d1", controller: reference };
  const target = { resource: "deployments", namespace: "shop", name: "a" } as const;

  it("allows writes of its own objects", async () => {
    await gateway.create({ ...target, body });
    await gateway.patch({ ...target, type: APPLY, body: { metadata: { ...body.metadata, uid: "d1" } } }, row);
    await gateway.delete({ ...target, preconditions: { uid: "d1", resourceVersion: "5" } }, row);
    expect(sent).toEqual(["create", "patch", "delete"]);
  });

  it.each([
    { why: "another namespace", call: () => gateway.create({ ...target, namespace: "other", body }), says: "namespace" },
    {
      why: "a kind that is not owned",
      call: () => gateway.create({ ...target, resource: "pods", body }),
      says: "does not allow create pods",
    },
    {
      why: "another owner",
      call: () => gateway.create({ ...target, body: { metadata: { name: "a", ownerReferences: [{ ...reference, uid: "u2" }] } } }),
      says: "/metadata/ownerReferences/0/uid is not the owner's",
    },
    {
      why: "an object whose row another owner controls",
      call: () =>
        gateway.delete(
          { ...target, preconditions: { uid: "d1", resourceVersion: "5" } },
          { ...row, controller: { ...reference, name: "b" } },
        ),
      says: "its row names another controller",
    },
    {
      why: "a delete without a resourceVersion",
      call: () => gateway.delete({ ...target, preconditions: { uid: "d1" } }, row),
      says: "/resourceVersion is missing",
    },
    {
      why: "a JSON patch of other fields",
      call: () =>
        gateway.patch({ ...target, type: "application/json-patch+json", body: [{ op: "replace", path: "/spec", value: {} }] }, row),
      says: "/2/value is missing",
    },
  ])("rejects $why", async ({ call, says }) => {
    const before = sent.length;
    await expect(call()).rejects.toThrow(says);
    expect(sent).toHaveLength(before);
  });
});

it("reports the features that this version does not support", () => {
  const { definition: all } = defineController({
    name: "all",
    for: Pod,
    watches: [watch(ConfigMap, { by: { all: "cluster" } })],
    sync: () => undefined,
  });
  expect(unsupportedBy(all)).toEqual([expect.stringContaining("not yet possible for a namespaced Pod")]);
  expect(unsupportedBy(definition)).toEqual([]);
});
