/**
 * Validation of a sync's result. Catches: a mistake of a JavaScript author that reaches the API server, and an incomplete owner reference.
 */
import { describe, expect, it } from "vitest";

import { customResource, defineController, s } from "../../../shared/sdk/index.ts";
import { ClusterRole, ConfigMap, Deployment, Namespace, NetworkPolicy, Service } from "../../../shared/sdk/kinds.ts";
import { wantedBy } from "../../../shared/sdk/writes.ts";

const status = s.object({ ready: s.integer().optional(), observedGeneration: s.integer().optional() });
const Site = customResource({ group: "x.example.com", version: "v1", kind: "Site", spec: s.object({}), status });
const site = defineController({ name: "site", for: Site, owns: [Deployment, Service], sync: () => undefined }).definition;
const guard = defineController({ name: "guard", for: Namespace, owns: [NetworkPolicy, ClusterRole], sync: () => undefined }).definition;
const inShop = { name: "a", namespace: "shop", uid: "u1", resourceVersion: "5", generation: 3 };
const ofCluster = { ...inShop, namespace: "" };
const service = (metadata: object = { name: "a" }) => ({ apiVersion: "v1", kind: "Service", metadata, spec: { ports: [] } });
const policy = (metadata: object) => ({ apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata });

describe("the desired objects that a sync returns", () => {
  it("get the primary's namespace and a complete owner reference", () => {
    const { wanted } = wantedBy(site, inShop, { apply: [service()] }) as Extract<ReturnType<typeof wantedBy>, { readonly wanted: object }>;
    expect(wanted.apply).toEqual([
      {
        id: { kind: Service.data, namespace: "shop", name: "a" },
        body: {
          apiVersion: "v1",
          kind: "Service",
          metadata: {
            name: "a",
            namespace: "shop",
            ownerReferences: [
              { apiVersion: "x.example.com/v1", kind: "Site", name: "a", uid: "u1", controller: true, blockOwnerDeletion: true },
            ],
          },
          spec: { ports: [] },
        },
      },
    ]);
  });

  it("may be in any namespace or cluster-scoped under a cluster-scoped primary", () => {
    const role = { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: { name: "a" } };
    const { wanted } = wantedBy(guard, ofCluster, { apply: [policy({ name: "a", namespace: "shop" }), role] }) as Extract<
      ReturnType<typeof wantedBy>,
      { readonly wanted: object }
    >;
    expect(wanted.apply?.map(({ id: { namespace, name } }) => `${namespace}/${name}`)).toEqual(["shop/a", "/a"]);
  });

  it("include status.observedGeneration if the schema has it and the sync does not set it", () => {
    expect(wantedBy(site, inShop, { status: { ready: 1 } })).toMatchObject({ wanted: { status: { ready: 1, observedGeneration: 3 } } });
    expect(wantedBy(site, inShop, { status: { observedGeneration: 2 } })).toMatchObject({ wanted: { status: { observedGeneration: 2 } } });
  });

  it("prune nothing if the sync returns undefined, and all owned objects if the sync returns an empty list", () => {
    expect(wantedBy(site, inShop, undefined)).toEqual({ wanted: { keep: [], isRemoved: false } });
    expect(wantedBy(site, inShop, { apply: [] })).toEqual({ wanted: { apply: [], keep: [], isRemoved: false } });
  });
});

it.each([
  { what: "a string", result: "apply", want: /^sync returned string/ },
  { what: "a body without a name", result: { apply: [service({})] }, want: /`apply` has a Service without metadata\.name/ },
  { what: "an empty name", result: { apply: [service({ name: "" })] }, want: /without metadata\.name/ },
  {
    what: "a body of a kind that is not owned",
    result: { apply: [ConfigMap({ metadata: { name: "a" } })] },
    want: /ConfigMap \(v1\), which is not in `owns`/,
  },
  { what: "a body that is null", result: { apply: [null] }, want: /which is not in `owns`/ },
  { what: "a value that is not a list", result: { apply: service() }, want: /`apply` must be a list/ },
  { what: "the same object twice", result: { apply: [service(), service()] }, want: /`apply` has Service\.\/shop\/a twice/ },
  {
    what: "an object in another namespace",
    result: { apply: [service({ name: "a", namespace: "kube-system" })] },
    want: /in namespace kube-system: a namespaced primary writes in its own only/,
  },
  { what: "remove together with status", result: { remove: true, status: {} }, want: /`remove` together with `apply`, `self` or `status`/ },
  { what: "remove as a string", result: { remove: "yes" }, want: /`remove` must be true/ },
  { what: "self with a status", result: { self: { status: {} } }, want: /`self` sets status, which is not allowed/ },
  { what: "self with finalizers", result: { self: { metadata: { finalizers: [] } } }, want: /`self` sets metadata\.finalizers/ },
  { what: "an object to keep of a kind that is not owned", result: { keep: [{ kind: "Pod", name: "a" }] }, want: /`keep` names Pod/ },
  {
    what: "1,001 objects",
    result: { apply: Array.from({ length: 1_001 }, (_, i) => service({ name: `a${i}` })) },
    want: /1001 objects: one primary owns at most 1000/,
  },
])("rejects a sync that returns $what with one problem, and writes nothing", ({ result, want }) => {
  expect(wantedBy(site, inShop, result)).toEqual({ problems: [expect.stringMatching(want)] });
});

it.each([
  { what: "no namespace", primary: ofCluster, metadata: { name: "a" }, want: /which is required under a cluster-scoped primary/ },
  { what: "a number as namespace", primary: ofCluster, metadata: { name: "a", namespace: 1 }, want: /is required under/ },
])("reports a body with $what under a cluster-scoped primary", ({ primary, metadata, want }) => {
  expect(wantedBy(guard, primary, { apply: [policy(metadata)] })).toEqual({ problems: [expect.stringMatching(want)] });
});

it("reports a status for a kind without a status subresource", () => {
  const { definition } = defineController({ name: "a", for: ConfigMap, sync: () => undefined });
  expect(wantedBy(definition, inShop, { status: {} })).toEqual({ problems: [expect.stringContaining("ConfigMap, which has no status")] });
});
