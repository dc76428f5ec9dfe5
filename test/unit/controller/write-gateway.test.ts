// The write gateway: contracts, preconditions, shadow mode and RBAC manifests.
import { describe, expect, it, vi } from "vitest";
import { rbacYaml } from "../../../infra/manifests/rbac.ts";
import { ownerReferenceTo } from "../../../shared/kube/objects/owner-references.ts";
import {
  CONTROLLERS,
  RESOURCES,
  type Controller,
  type ControllerName,
  type OwnController,
} from "../../../shared/kube/objects/resources.ts";
import { CONTRACT } from "../../../shared/controllers/kit/write-gateway/contract.ts";
import { eventRequests } from "../../../shared/controllers/kit/event-recorder.ts";
import type { RunGateway, SeenRow } from "../../../shared/controllers/kit/write-gateway/gateway.ts";
import type { Pod } from "../../../shared/kube/objects/wire.ts";
import { claimPatch } from "../../../shared/controllers/kit/perform/claims.ts";
import { statusPatch } from "../../../shared/controllers/kit/perform/status.ts";
import { podFromTemplate } from "../../../shared/controllers/kit/pod-from-template.ts";
import { Sealed } from "../../../shared/controllers/kit/sealed.ts";
import { builtInGateway } from "../../support/built-in-gateway.ts";
import type { Owner } from "../../../shared/controllers/kit/writes.ts";
import { TerminalError } from "../../../shared/kube/client/errors.ts";
import { REGISTRY } from "../../../shared/controllers/registry/registry.ts";
import { ROLES } from "../../../shared/controllers/registry/rights.ts";
import type { CreateRequest, DeleteRequest, KubeWriter, PatchRequest } from "../../../shared/kube/client/kube.ts";

const owner: Owner = { resource: "replicasets", namespace: "shop", name: "web", uid: "u" };
const object = { metadata: { name: "x", uid: "x", resourceVersion: "1" } };

function eventBody(about: Owner, controller: Controller = "replicaset"): object {
  const told = { owner: about, note: { type: "Normal", reason: "R", message: "m" }, atMs: 0 } as const;
  const [request] = eventRequests([told], [{ nanos: "1", count: 1, isCombined: false, isHeldBack: false }], { controller, token: "t" });
  return request?.body ?? {};
}

function gatewayOf(controller: ControllerName, mode: "act" | "shadow" = "act"): { readonly gateway: RunGateway; readonly sent: unknown[] } {
  const sent: unknown[] = [];
  const answer = async (request: unknown): Promise<typeof object> => (sent.push(request), object);
  const writer: KubeWriter = { create: answer, patch: answer, delete: answer, replace: answer };
  return { gateway: builtInGateway(writer, controller, mode).forRun(owner), sent };
}

const template = { metadata: { labels: { app: "web" } }, spec: { containers: [] } };
const built = podFromTemplate({ metadata: { name: "web", uid: "u", resourceVersion: "1" }, spec: { template } } as never, {
  resource: "replicasets",
  name: "web-x",
  digest: "d",
});
const podBody: Pod = built instanceof Sealed ? built.open() : {};
const createPod: CreateRequest = { resource: "pods", namespace: "shop", body: podBody };
const deletePod: DeleteRequest = { resource: "pods", namespace: "shop", name: "a", preconditions: { uid: "a", resourceVersion: "1" } };
const status = statusPatch({
  kind: "UpdateStatus",
  owner,
  resourceVersion: "1",
  status: { replicas: 0, fullyLabeledReplicas: 0, readyReplicas: 0, availableReplicas: 0, terminatingReplicas: 0, observedGeneration: 1 },
  absent: [],
});
const adopt = claimPatch({ kind: "Adopt", owner, resource: "pods", name: "a", uid: "a" });
const release = claimPatch({ kind: "Release", owner, resource: "pods", name: "a", uid: "a" });
const resize: PatchRequest = {
  resource: "replicasets",
  namespace: "shop",
  name: "web-1",
  type: "application/merge-patch+json",
  body: { metadata: { uid: "u-1", resourceVersion: "1" }, spec: { replicas: 3 } },
};
const event: CreateRequest = {
  resource: "events",
  namespace: "shop",
  body: eventBody(owner),
};

const countEvent: PatchRequest = {
  resource: "events",
  namespace: "shop",
  name: "web.17c3a9d2f4b81e00",
  type: "application/strategic-merge-patch+json",
  body: { count: 2, lastTimestamp: "2026-03-01T10:00:00Z", message: "m" },
};

const orphan: SeenRow = { namespace: "shop", name: "a", uid: "a" };
const ofSet: SeenRow = { ...orphan, controller: { kind: "ReplicaSet", name: "web", uid: "u" } };
const ofRC: SeenRow = { ...orphan, controller: { kind: "ReplicationController", name: "web", uid: "u" } };
const setOfNobody: SeenRow = { namespace: "shop", name: "web-1", uid: "u-1" };
const ofDeployment: SeenRow = { ...setOfNobody, controller: { kind: "Deployment", name: "web", uid: "u" } };

type Ask = (gateway: RunGateway) => Promise<unknown>;
const create =
  (request: CreateRequest): Ask =>
  (gateway) =>
    gateway.create(request);
const patch =
  (request: PatchRequest, row?: SeenRow): Ask =>
  (gateway) =>
    gateway.patch(request, row);
const remove =
  (request: DeleteRequest, row: SeenRow | undefined): Ask =>
  (gateway) =>
    gateway.delete(request, row);

it("sends nothing for a user controller, which has no contract", async () => {
  const { gateway, sent } = gatewayOf("team-guard" as OwnController);
  await expect(gateway.create(createPod)).rejects.toThrow("team-guard has no contract and may not write: create pods");
  await expect(gateway.delete(deletePod, undefined)).rejects.toThrow(TerminalError);
  expect(sent).toEqual([]);
});

describe("the write gateway allows", () => {
  const table: { name: string; controller: Controller; ask: Ask }[] = [
    { name: "a pod create", controller: "replicaset", ask: create(createPod) },
    { name: "a pod delete", controller: "replicaset", ask: remove(deletePod, ofSet) },
    { name: "an adoption", controller: "replicaset", ask: patch(adopt, orphan) },
    { name: "a release", controller: "replicationcontroller", ask: patch(release, ofRC) },
    { name: "a status write", controller: "replicaset", ask: patch(status) },
    { name: "an Event", controller: "replicaset", ask: create(event) },
    { name: "a count of an Event", controller: "deployment", ask: patch(countEvent) },
    { name: "a change of size", controller: "deployment", ask: patch(resize, ofDeployment) },
    {
      name: "an adoption of a ReplicaSet",
      controller: "deployment",
      ask: patch(
        claimPatch({ kind: "Adopt", owner: { ...owner, resource: "deployments" }, resource: "replicasets", name: "web-1", uid: "u-1" }),
        setOfNobody,
      ),
    },
    {
      name: "a delete of a ReplicaSet",
      controller: "deployment",
      ask: remove(
        { ...deletePod, resource: "replicasets", name: "web-1", preconditions: { uid: "u-1", resourceVersion: "1" } },
        ofDeployment,
      ),
    },
  ];
  it.each(table)("allows $name of $controller", async ({ controller, ask }) => {
    const { gateway, sent } = gatewayOf(controller);
    await expect(ask(gateway)).resolves.toEqual({ kind: "stored", object });
    expect(sent).toHaveLength(1);
    if (!("preconditions" in (sent[0] as object))) expect(sent).toMatchObject([{ fieldManager: `deltaloop-${controller}` }]);
  });

  it("GW3: checks every write in shadow mode, but sends none, not even Events", async () => {
    const { gateway, sent } = gatewayOf("replicaset", "shadow");
    await expect(gateway.create(createPod)).resolves.toEqual({ kind: "notSent" });
    await expect(gateway.create(event)).resolves.toEqual({ kind: "notSent" });
    await expect(gateway.patch(countEvent)).resolves.toEqual({ kind: "notSent" });
    await expect(gateway.create({ ...createPod, resource: "replicasets" })).rejects.toThrow(TerminalError);
    expect(sent).toEqual([]);
  });
});

describe("the write gateway rejects", () => {
  interface Body {
    readonly metadata: Record<string, unknown> & { readonly ownerReferences: object[] };
    readonly spec: Record<string, unknown>;
    readonly status: Record<string, unknown>;
  }
  const body = (change: (body: Body) => void, of: object): object => {
    const copy = structuredClone(of) as Body; // each case changes only fields that its body has
    change(copy);
    return copy;
  };
  const table: { name: string; controller: Controller; ask: Ask; says: string }[] = [
    {
      name: "a pod of a Deployment",
      controller: "deployment",
      ask: create(createPod),
      says: "the contract of deployment does not allow create pods",
    },
    {
      name: "a ReplicaSet of a ReplicaSet",
      controller: "replicaset",
      ask: create({ ...createPod, resource: "replicasets" }),
      says: "does not allow create replicasets",
    },
    {
      name: "the other kind's status",
      controller: "replicationcontroller",
      ask: patch(status),
      says: "does not allow patch replicasets/status",
    },
    {
      name: "a patch of the owner itself",
      controller: "replicaset",
      ask: patch(resize),
      says: "does not allow patch replicasets (application/merge-patch+json)",
    },
    {
      name: "an adoption as a merge patch",
      controller: "replicaset",
      ask: patch({ ...adopt, type: "application/merge-patch+json" }),
      says: "does not allow patch pods (application/merge-patch+json)",
    },
    {
      name: "a pod without our name",
      controller: "replicaset",
      ask: create({ ...createPod, body: body(({ metadata }) => delete metadata["name"], podBody) }),
      says: "/metadata/name is missing",
    },
    {
      name: "a pod with an empty name prefix",
      controller: "replicaset",
      ask: create({ ...createPod, body: body(({ metadata }) => Object.assign(metadata, { name: "" }), podBody) }),
      says: "/metadata/name is missing",
    },
    {
      name: "a pod with two owners",
      controller: "replicaset",
      ask: create({ ...createPod, body: body(({ metadata }) => metadata.ownerReferences.push({ uid: "z" }), podBody) }),
      says: "/metadata/ownerReferences/1/uid may not be written",
    },
    {
      name: "a pod nobody controls",
      controller: "replicaset",
      ask: create({
        ...createPod,
        body: body(({ metadata }) => Object.assign(metadata.ownerReferences[0] ?? {}, { controller: false }), podBody),
      }),
      says: "/metadata/ownerReferences/0/controller is not true",
    },
    {
      name: "a pod with a status",
      controller: "replicaset",
      ask: create({ ...createPod, body: { ...podBody, status: { phase: "Running" } } }),
      says: "/status/phase may not be written",
    },
    {
      name: "a delete without uid",
      controller: "replicaset",
      ask: remove({ ...deletePod, preconditions: { uid: "", resourceVersion: "1" } }, ofSet),
      says: "/uid is missing",
    },
    {
      name: "a pod's delete without resourceVersion",
      controller: "replicationcontroller",
      ask: remove({ ...deletePod, preconditions: { uid: "a" } }, ofRC),
      says: "/resourceVersion is missing",
    },
    {
      name: "a ReplicaSet's delete without resourceVersion",
      controller: "deployment",
      ask: remove({ ...deletePod, resource: "replicasets", preconditions: { uid: "u" } }, ofDeployment),
      says: "/resourceVersion is missing",
    },
    {
      name: "an adoption without uid",
      controller: "replicaset",
      ask: patch({ ...adopt, body: body(({ metadata }) => delete metadata["uid"], adopt.body) }),
      says: "/metadata/uid is missing",
    },
    {
      name: "a release that removes no reference",
      controller: "replicaset",
      ask: patch({
        ...release,
        body: body(({ metadata }) => Object.assign(metadata.ownerReferences[0] ?? {}, { $patch: "merge" }), release.body),
      }),
      says: "/metadata/ownerReferences/0/$patch is not delete",
    },
    {
      name: "a change of labels within an adoption",
      controller: "replicaset",
      ask: patch({ ...adopt, body: body(({ metadata }) => Object.assign(metadata, { labels: { a: "b" } }), adopt.body) }),
      says: "/metadata/labels/a may not be written",
    },
    {
      name: "a status without resourceVersion",
      controller: "replicaset",
      ask: patch({ ...status, body: body(({ metadata }) => delete metadata["resourceVersion"], status.body) }),
      says: "/metadata/resourceVersion is missing",
    },
    {
      name: "a status without one of its counters",
      controller: "replicaset",
      ask: patch({ ...status, body: body(({ status: counters }) => delete counters["readyReplicas"], status.body) }),
      says: "/status/readyReplicas is missing",
    },
    {
      name: "an annotation within a ReplicaSet's status write",
      controller: "replicaset",
      ask: patch({ ...status, body: body(({ metadata }) => Object.assign(metadata, { annotations: { a: "b" } }), status.body) }),
      says: "/metadata/annotations/a may not be written",
    },
    {
      name: "a template within a size write",
      controller: "deployment",
      ask: patch({ ...resize, body: body(({ spec }) => Object.assign(spec, { template: {} }), resize.body) }),
      says: "/spec/template may not be written",
    },
    {
      name: "a removal of labels within a size write",
      controller: "deployment",
      ask: patch({ ...resize, body: body(({ metadata }) => Object.assign(metadata, { labels: null }), resize.body) }),
      says: "/metadata/labels may not be written",
    },
  ];
  it.each(table)("GW1 GW2: rejects $name", async ({ controller, ask, says }) => {
    const { gateway, sent } = gatewayOf(controller);
    const refused = ask(gateway);
    await expect(refused).rejects.toThrow(TerminalError);
    await expect(refused).rejects.toThrow(says);
    expect(sent).toEqual([]);
  });
});

describe("the write gateway checks the run", () => {
  const other: Owner = { resource: "replicasets", namespace: "shop", name: "other", uid: "o" };
  const elsewhere = { namespace: "bank" };
  const deployment: Owner = { ...owner, resource: "deployments" };
  const controlledBy = (change: object, row: SeenRow = ofSet): SeenRow =>
    ({ ...row, controller: { ...row.controller, ...change } }) as SeenRow; // the row of an object with a controller
  const podOf = (reference: object): CreateRequest => ({
    ...createPod,
    body: { ...podBody, metadata: { ...podBody.metadata, ownerReferences: [{ ...podBody.metadata?.ownerReferences?.[0], ...reference }] } },
  });
  const eventAbout = (about: Owner, controller: Controller = "replicaset"): CreateRequest => ({
    ...event,
    namespace: about.namespace,
    body: eventBody(about, controller),
  });
  const claim = (kind: "Adopt" | "Release", of: Owner, resource: "pods" | "replicasets" = "pods"): PatchRequest =>
    claimPatch({ kind, owner: of, resource, name: resource === "pods" ? "a" : "web-1", uid: resource === "pods" ? "a" : "u-1" });
  const foreign = "its row names another controller";
  const notOurs = (field: string): string => `/metadata/ownerReferences/0/${field} is not the owner's`;

  const table: { rule: string; name: string; controller?: Controller; ask: Ask; says: string }[] = [
    { rule: "GW4", name: "a create in another namespace", ask: create({ ...createPod, ...elsewhere }), says: "the request's namespace" },
    {
      rule: "GW4",
      name: "a create whose body names another namespace",
      controller: "deployment",
      ask: create({
        resource: "replicasets",
        namespace: "shop",
        body: {
          metadata: {
            name: "web-1",
            ...elsewhere,
            labels: { a: "b" },
            ownerReferences: [ownerReferenceTo(RESOURCES.deployments, { metadata: owner })],
          },
          spec: { replicas: 1, selector: { matchLabels: { a: "b" } }, template: { metadata: {} } },
        },
      }),
      says: "/metadata/namespace is not the owner's",
    },
    {
      rule: "GW4",
      name: "a delete in another namespace",
      ask: remove({ ...deletePod, ...elsewhere }, { ...ofSet, ...elsewhere }),
      says: "the request's namespace",
    },
    {
      rule: "GW4",
      name: "a delete of an object whose row is in another namespace",
      ask: remove(deletePod, { ...ofSet, ...elsewhere }),
      says: "its row is of another namespace",
    },
    {
      rule: "GW4",
      name: "an adoption in another namespace",
      ask: patch({ ...adopt, ...elsewhere }, { ...orphan, ...elsewhere }),
      says: "the request's namespace",
    },
    { rule: "GW4", name: "a status in another namespace", ask: patch({ ...status, ...elsewhere }), says: "the request's namespace" },
    {
      rule: "GW4",
      name: "an Event in another namespace",
      ask: create(eventAbout({ ...owner, ...elsewhere })),
      says: "the request's namespace",
    },
    {
      rule: "GW5",
      name: "a delete of an object without a row",
      ask: remove(deletePod, undefined),
      says: "the cache has no row of the object",
    },
    { rule: "GW5", name: "a release of an object without a row", ask: patch(release), says: "the cache has no row of the object" },
    { rule: "GW5", name: "an adoption of an object without a row", ask: patch(adopt), says: "the cache has no row of the object" },
    {
      rule: "GW5",
      name: "a delete that cites another object's row",
      ask: remove(deletePod, { ...ofSet, name: "b" }),
      says: "its row has another name",
    },
    { rule: "GW5", name: "a delete of another uid", ask: remove(deletePod, { ...ofSet, uid: "b" }), says: "its row has another uid" },
    { rule: "GW5", name: "a release of another uid", ask: patch(release, { ...ofSet, uid: "b" }), says: "its row has another uid" },
    { rule: "GW6", name: "a delete of an orphan", ask: remove(deletePod, orphan), says: "its row names no controller" },
    { rule: "GW6", name: "a release of an orphan", ask: patch(release, orphan), says: "its row names no controller" },
    {
      rule: "GW6",
      name: "a delete of another controller's pod",
      ask: remove(deletePod, controlledBy({ name: "other", uid: "o" })),
      says: foreign,
    },
    {
      rule: "GW6",
      name: "a delete of the owned uid under another name",
      ask: remove(deletePod, controlledBy({ name: "other" })),
      says: foreign,
    },
    { rule: "GW6", name: "a delete of the owned uid under another kind", ask: remove(deletePod, ofRC), says: foreign },
    { rule: "GW6", name: "a delete of the owned name with another uid", ask: remove(deletePod, controlledBy({ uid: "o" })), says: foreign },
    {
      rule: "GW6",
      name: "a release of another controller's pod",
      ask: patch(release, controlledBy({ name: "other", uid: "o" })),
      says: foreign,
    },
    {
      rule: "GW6",
      name: "a scale of another controller's ReplicaSet",
      controller: "deployment",
      ask: patch(resize, controlledBy({ uid: "o" }, ofDeployment)),
      says: foreign,
    },
    {
      rule: "GW6",
      name: "a scale of an orphan",
      controller: "deployment",
      ask: patch(resize, setOfNobody),
      says: "its row names no controller",
    },
    {
      rule: "GW6",
      name: "an adoption of another controller's pod",
      ask: patch(adopt, controlledBy({ name: "other", uid: "o" })),
      says: "its row names a controller",
    },
    { rule: "GW6", name: "an adoption of an owned pod", ask: patch(adopt, ofSet), says: "its row names a controller" },
    { rule: "GW7", name: "a pod for another owner", ask: create(podOf({ name: "other", uid: "o" })), says: notOurs("name") },
    { rule: "GW7", name: "a pod for our name with another uid", ask: create(podOf({ uid: "o" })), says: notOurs("uid") },
    { rule: "GW7", name: "a pod for another kind", ask: create(podOf({ kind: "ReplicationController" })), says: notOurs("kind") },
    { rule: "GW7", name: "a pod for another group", ask: create(podOf({ apiVersion: "v1" })), says: notOurs("apiVersion") },
    { rule: "GW7", name: "an adoption for another owner", ask: patch(claim("Adopt", other), orphan), says: notOurs("name") },
    { rule: "GW7", name: "a release from another owner", ask: patch(claim("Release", other), ofSet), says: notOurs("uid") },
    {
      rule: "GW8",
      name: "a status of another object",
      ask: patch({ ...status, name: "other" }),
      says: "the request's name is not the owner's",
    },
    {
      rule: "GW8",
      name: "a status of another uid",
      ask: patch({ ...status, body: { ...status.body, metadata: { uid: "o", resourceVersion: "1" } } }),
      says: "/metadata/uid is not the owner's",
    },
    { rule: "GW8", name: "an Event about another object", ask: create(eventAbout(other)), says: "/involvedObject/name is not the owner's" },
    { rule: "GW4", name: "a count in another namespace", ask: patch({ ...countEvent, ...elsewhere }), says: "the request's namespace" },
    {
      rule: "GW8",
      name: "the count of an Event about another object",
      ask: patch({ ...countEvent, name: "web-2.17c3a9d2f4b81e00" }),
      says: "the Event's name is not that of an Event about the owner",
    },
    {
      rule: "GW8",
      name: "an Event about another kind",
      ask: create(eventAbout(deployment)),
      says: "/involvedObject/kind is not the owner's",
    },
    {
      rule: "GW8",
      name: "an Event in this namespace about an object in another one",
      ask: create({
        ...event,
        body: { ...event.body, involvedObject: { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "u", ...elsewhere } },
      }),
      says: "/involvedObject/namespace is not the owner's",
    },
    {
      rule: "GW8",
      name: "an Event of another namespace sent to this one",
      ask: create({ ...eventAbout({ ...owner, ...elsewhere }), namespace: "shop" }),
      says: "/metadata/namespace is not the owner's",
    },
  ];
  it.each(table)("$rule: rejects $name", async ({ controller = "replicaset", ask, says }) => {
    const { gateway, sent } = gatewayOf(controller);
    const refused = ask(gateway);
    await expect(refused).rejects.toThrow(TerminalError);
    await expect(refused).rejects.toThrow(says);
    expect(sent).toEqual([]);
  });

  it("compares the owner reference of a ReplicaSet by uid alone, as upstream does", async () => {
    const { gateway, sent } = gatewayOf("deployment");
    await gateway.patch(resize, controlledBy({ name: "before" }, ofDeployment));
    await gateway.patch(claim("Release", deployment, "replicasets"), controlledBy({ name: "before" }, ofDeployment));
    expect(sent).toHaveLength(2);
  });

  it("rejects every write of a run without an owner", async () => {
    const writer = { create: vi.fn(), patch: vi.fn(), delete: vi.fn(), replace: vi.fn() };
    const gateway = builtInGateway(writer, "replicaset", "act").forRun({ ...owner, uid: "" });
    await expect(gateway.create(createPod)).rejects.toThrow("the run has no owner");
    expect(writer.create).not.toHaveBeenCalled();
  });

  it("quotes paths and names of a rejected body, never values", async () => {
    const { gateway } = gatewayOf("replicaset");
    const secret = { ...podOf({ uid: "hunter2" }) };
    await expect(gateway.create(secret)).rejects.toThrow(
      /^a run of replicaset shop\/web may not create pods: \/metadata\/ownerReferences\/0\/uid is not the owner's$/,
    );
  });
});

describe("a Deployment's status", () => {
  const d: Owner = { ...owner, resource: "deployments" };
  const counters = {
    replicas: 0,
    updatedReplicas: 0,
    readyReplicas: 0,
    availableReplicas: 0,
    unavailableReplicas: 0,
    observedGeneration: 1,
  };
  const statusOf = (annotations: Record<string, string>): PatchRequest =>
    statusPatch({
      kind: "UpdateStatus",
      owner: d,
      resourceVersion: "1",
      status: counters,
      absent: ["terminatingReplicas", "collisionCount"],
      annotations,
    });

  it("a Deployment's status is patched with the revision annotation and with null for removed fields, and with no other annotation", async () => {
    const { gateway, sent } = gatewayOf("deployment");
    await gateway.patch(statusOf({ "deployment.kubernetes.io/revision": "3" }));
    expect(sent).toMatchObject([{ body: { status: { terminatingReplicas: null, collisionCount: null, conditions: null } } }]);
    await expect(gateway.patch(statusOf({ other: "3" }))).rejects.toThrow("/metadata/annotations/other may not be written");
  });
});

describe("a rollback by the deprecated rollback annotation", () => {
  const REQUEST = "deprecated.deployment.rollback.to";
  const rollBack = (annotations: object, more: object = {}, uid = "u"): PatchRequest => ({
    resource: "deployments",
    namespace: "shop",
    name: "web",
    type: "application/merge-patch+json",
    body: { metadata: { uid, resourceVersion: "1", annotations }, ...more },
  });
  const { gateway, sent } = gatewayOf("deployment");

  it("a rollback may replace template and annotations of the Deployment", async () => {
    await gateway.patch(rollBack({ [REQUEST]: null, note: "n" }, { spec: { template: { spec: { containers: [] } } } }));
    expect(sent).toHaveLength(1);
  });

  it.each([
    {
      name: "it does not remove the request annotation",
      request: rollBack({ note: "n" }),
      says: `/metadata/annotations/${REQUEST} is missing`,
    },
    { name: "it sets the request annotation", request: rollBack({ [REQUEST]: "1" }), says: `/metadata/annotations/${REQUEST} is not null` },
    {
      name: "it changes the number of replicas",
      request: rollBack({ [REQUEST]: null }, { spec: { replicas: 9 } }),
      says: "/spec/replicas may not be written",
    },
    { name: "it belongs to another Deployment", request: rollBack({ [REQUEST]: null }, {}, "o"), says: "/metadata/uid is not the owner's" },
  ])("a rollback is rejected if $name", async ({ request, says }) => {
    await expect(gateway.patch(request)).rejects.toThrow(says);
    expect(sent).toHaveLength(1);
  });
});

describe("the RBAC manifests", () => {
  it("grant a controller exactly the writes of its contract and of its inline follow-ups", () => {
    for (const { name: controller, followUps = [] } of REGISTRY.controllers) {
      const role = ROLES.find((each) => each.controller === controller);
      const granted = role ? role.clusterRules.flatMap(({ resource, verbs }) => verbs.map((verb) => `${verb} ${resource}`)) : [];
      const writes = granted.filter((each) => !/^(get|list|watch) |\/finalizers$/.test(each));
      const wanted = CONTROLLERS.filter((each) => each === controller || followUps.includes(each))
        .flatMap((each) => CONTRACT[each])
        .map(({ verb, resource, subresource }) => `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`);
      expect(writes.toSorted()).toEqual([...new Set(wanted)].toSorted());
    }
  });

  it("grant the watcher and the applier only writes of the Lease and of the canary's status", () => {
    for (const role of ROLES.filter(({ controller }) => controller === undefined)) {
      expect(role.clusterRules.flatMap(({ verbs }) => verbs).filter((verb) => !["get", "list", "watch"].includes(verb))).toEqual([]);
    }
    const leases = (...verbs: readonly string[]) => [{ apiGroup: "coordination.k8s.io", resource: "leases", verbs }];
    const canary = { apiGroup: "apps", resource: "replicasets/status", verbs: ["patch"], name: "deltaloop-canary" };
    for (const { name, namespaceRules } of ROLES)
      expect(namespaceRules).toEqual(name === "deltaloop-watcher" ? [canary, ...leases("get", "create", "update")] : leases("get"));
  });

  it("the RBAC manifests never grant secrets, nodes, wildcards or update of an object itself", () => {
    expect(rbacYaml(REGISTRY)).not.toMatch(/secrets|configmaps|nodes|"\*"|escalate|impersonate|bind"/);
    for (const role of ROLES)
      for (const { resource, verbs } of role.clusterRules) expect(verbs.includes("update")).toBe(resource.endsWith("/finalizers"));
  });
});
