/**
 * The writes of one sync of a user controller. Catches: a write for a deleted primary, a write to another owner's object with the same
 * name, fields taken from another user controller, an object pruned after a failed write, a request without its precondition, writes that
 * wait for each other unnecessarily, and a run that ends before all its writes have ended.
 */
import { describe, expect, it } from "vitest";
import { cachedAs } from "../../../shared/controllers/cache/cache-registry.ts";
import type { OwnRun, Succeeded, SyncPorts } from "../../../shared/controllers/kit/run.ts";
import { createWriteGateway } from "../../../shared/controllers/kit/write-gateway/write-gateway.ts";
import { observe } from "../../../shared/controllers/own/observed.ts";
import { OwnCalls } from "../../../shared/controllers/own/perform.ts";
import type { PerformedOwn } from "../../../shared/controllers/own/perform.ts";
import { ownControllers, registryOf } from "../../../shared/controllers/own.ts";
import { cacheOf, gatewayContractOf } from "../../../shared/controllers/registry/cache-of.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { KubeApiError } from "../../../shared/kube/client/errors.ts";
import type { KubeWriter } from "../../../shared/kube/client/kube.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { Row } from "../../../shared/store/ports/store.ts";
import type { OwnWrite } from "../../../shared/sdk/writes.ts";
import { customResource, defineController, s } from "../../../shared/sdk/index.ts";
import { ConfigMap } from "../../../shared/sdk/kinds.ts";
import { silentLog } from "../../support/silent-log.ts";

const digester = createDigester("a key for tests");
const Site = customResource({
  ...{ group: "x.example.com", version: "v1", kind: "Site", status: s.object({}) },
  spec: s.object({ image: s.string(), token: s.string().optional().secret() }),
});
const { definition } = defineController({ name: "site", for: Site, owns: [ConfigMap], sync: () => undefined });
// one definition has one entry
const [entry] = ownControllers([definition]) as [ReturnType<typeof ownControllers>[number]];
const registry = registryOf([entry]);
const cache = cacheOf(registry);
const [primaryView, ownedView] = entry.views;
if (ownedView === undefined) throw new Error("no view");

type Live = Parameters<typeof cachedAs>[2];
const site = (metadata: object = {}, spec: object = { image: "i" }) => ({
  ...{ apiVersion: "x.example.com/v1", kind: "Site", spec },
  metadata: { namespace: "shop", name: "a", uid: "u1", resourceVersion: "5", generation: 1, ...metadata },
});
const reference = { apiVersion: "x.example.com/v1", kind: "Site", name: "a", uid: "u1", controller: true, blockOwnerDeletion: true };
const managed = (operation: string) => [{ manager: "deltaloop-site", operation, apiVersion: "v1", fieldsV1: {} }];
const configMap = (name: string, metadata: object = {}) => ({
  ...{ apiVersion: "v1", kind: "ConfigMap" },
  metadata: {
    ...{ namespace: "shop", name, uid: `uid-${name}`, resourceVersion: "7", ownerReferences: [reference], managedFields: managed("Apply") },
    ...metadata,
  },
});
const rowOf = (view: { readonly name: string }, object: ReturnType<typeof configMap | typeof site>): Row => {
  const { namespace, name, uid, resourceVersion: rv } = object.metadata;
  // the view belongs to this registry
  return { key: `${namespace}/${name}`, uid, rv, object: cachedAs(cache, view.name as never, object as Live, digester) } as Row;
};

const body = (name: string) => ({
  ...{ apiVersion: "v1", kind: "ConfigMap", data: { a: "1" } },
  metadata: { name, namespace: "shop", ownerReferences: [reference] },
});
const id = (name: string) => ({ kind: ConfigMap.data, namespace: "shop", name });
const create = (name: string): OwnWrite => ({ kind: "create", id: id(name), body: body(name), why: "missing" });
const apply = (name: string): OwnWrite => ({
  ...{ kind: "apply", id: id(name), body: body(name), uid: `uid-${name}`, readVersion: "7" },
  ...{ isRevert: false, why: "desired state changed" },
});
const prune = (name: string): OwnWrite => ({
  kind: "prune",
  id: id(name),
  uid: `uid-${name}`,
  resourceVersion: "7",
  why: "no longer desired",
});
const REMOVE: OwnWrite = { kind: "remove", uid: "u1", resourceVersion: "5", why: "returned by sync" };
const STATUS: OwnWrite = { kind: "status", body: {}, uid: "u1", resourceVersion: "5", isRevert: false, why: "missing" };

const refused = (code: number, reason: string, managers: readonly string[] = []): KubeApiError =>
  new KubeApiError({
    ...{ code, reason },
    causes: managers.map((manager) => ({ reason: "FieldManagerConflict", message: `conflict with "${manager}" using v1: .data.a` })),
  });

interface Scene {
  /** Objects that live reads return, by `<resource> <name>`. */
  readonly live?: Readonly<Record<string, object>>;
  readonly owned?: readonly ReturnType<typeof configMap>[];
  /** Errors of calls, by `<verb> <name>`, in order. */
  readonly errors?: Readonly<Record<string, readonly (KubeApiError | undefined)[]>>;
  readonly mayWrite?: boolean;
  /** Names whose creates are answered only after all other calls. */
  readonly slow?: readonly string[];
  /** The result of the sync, which the last write may report. */
  readonly finalResult?: Succeeded;
  /** managedFields of a primary that `where` no longer selects. */
  readonly released?: readonly object[];
}

async function perform(
  writes: readonly OwnWrite[],
  { live = {}, owned = [], errors = {}, mayWrite = true, slow = [], finalResult, released }: Scene = {},
) {
  const [calls, records, events, ends, read]: [string[], string[], string[], unknown[], unknown[]] = [[], [], [], [], []];
  const left = new Map(Object.entries(errors).map(([call, all]) => [call, [...all]]));
  const call = (verb: string, name: string, more: object): void => {
    calls.push(`${verb} ${name} ${JSON.stringify(more)}`);
    const error = left.get(`${verb} ${name}`)?.shift();
    if (error) throw error;
  };
  const answered = (name: string) => configMap(name, { resourceVersion: "9" });
  const writer: KubeWriter = {
    create: async ({ resource, body: sent }) => {
      // the body that perform() sends
      const { metadata, reason } = sent as { readonly metadata: { readonly name: string }; readonly reason?: string };
      if (resource === "events") events.push(reason ?? "");
      else call("create", metadata.name, {});
      if (slow.includes(metadata.name)) await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
      return answered(metadata.name);
    },
    patch: async ({ name, type, body: sent, subresource, ...rest }) => {
      // the body that perform() sends
      const { metadata } = sent as { readonly metadata?: { readonly uid?: string; readonly resourceVersion?: string } };
      const { uid, resourceVersion } = metadata ?? {};
      call(type.includes("json-patch") ? "turn" : "patch", name, { uid, resourceVersion, ...("force" in rest && { force: true }) });
      return subresource === "status" ? site({ resourceVersion: "9" }) : answered(name);
    },
    delete: async ({ name, preconditions }) => {
      call("delete", name, preconditions);
    },
    replace: () => Promise.reject(new Error("not used")),
  } as KubeWriter;
  const row = rowOf(primaryView, site(released && { managedFields: released }));
  const run = {
    ...{ epoch: "e", controller: entry.name, key: "shop/a", token: "t", mayWrite: () => mayWrite },
    snapshot: { primary: row, dependents: [], orphans: [], intents: [], failures: 0 },
  } as unknown as OwnRun; // the fields that the writes use
  const ports = {
    ...{ digester, registry: cache, clock: createVirtualClock(1_000), log: silentLog },
    reader: { get: async (resource: string, _: string, name: string) => live[`${resource.split(".")[0]} ${name}`] },
    gateway: createWriteGateway(writer, entry.name, "act", gatewayContractOf(registry, entry.name)),
    doorbells: { ring: async () => undefined },
    store: {
      readIndex: (request: object) => {
        read.push(request);
        return Promise.resolve({ rows: [], primaries: [], counts: [] });
      },
      correlateEvents: () => Promise.reject(new Error("no history")),
      writeThrough: async (
        _: unknown,
        {
          records: all = [],
          ends: end,
        }: { readonly records?: readonly { readonly id: string; readonly record?: object }[]; readonly ends?: unknown },
      ) => {
        for (const each of all) records.push(`${each.record ? "keep" : "drop"} ${each.id}`);
        if (end === undefined) return { kind: "ok", bells: [] };
        ends.push(end);
        return { kind: "ok", bells: [], done: { kind: "ok" } };
      },
    },
  } as unknown as SyncPorts; // the dependencies that the writes use
  const slices = new Map([[ownedView?.name, owned.map((object) => rowOf(ownedView as { readonly name: string }, object))]]);
  const observed = observe(entry, row, { ...run.snapshot, slices } as never); // the same snapshot with another type
  const own = new OwnCalls(ports, run, entry, observed, row);
  const needsLiveRead = writes.some(({ kind }) => kind === "create" || kind === "prune" || kind === "remove");
  const performing: Promise<PerformedOwn> = own.perform(writes, needsLiveRead, false, finalResult);
  const failed = performing.then(
    () => undefined,
    (error: unknown) => ({ error, recordsThen: [...records] }),
  );
  const performed = await performing.catch(() => undefined);
  if (released) await own.release();
  await own.sendEvents();
  return { performed, calls, records, events, ends, read, hasEnded: own.done !== undefined, failed: await failed };
}

/** A delay in ms longer than all other calls of a test. */
const SLOW_MS = 20;

const SAME = { "sites a": site() };

describe("the writes of a user controller", () => {
  it.each([
    { what: "is gone", live: {} },
    { what: "has another uid", live: { "sites a": site({ uid: "u2" }) } },
    { what: "is being deleted", live: { "sites a": site({ deletionTimestamp: "2026-03-01T10:00:00Z" }) } },
  ])("OW1 are not sent when the primary $what", async ({ live }) => {
    expect(await perform([create("x"), STATUS], { live })).toMatchObject({
      performed: { kind: "gone" },
      calls: [],
      records: [],
      events: [],
    });
  });

  it("are decided again when a visible field of the primary has changed", async () => {
    const { performed, calls } = await perform([create("x")], { live: { "sites a": site({ resourceVersion: "6" }, { image: "new" }) } });
    expect({ performed, calls }).toEqual({ performed: { kind: "again", why: "the primary changed" }, calls: [] });
  });

  it("use the primary's current version when only a hidden field has changed", async () => {
    const live = { "sites a": site({ resourceVersion: "6" }, { image: "i", token: "new" }) };
    expect((await perform([create("x"), REMOVE], { live })).calls).toEqual(["create x {}", 'delete a {"uid":"u1","resourceVersion":"6"}']);
  });

  it.each([
    { what: "the controller's fields", subresource: {}, calls: ["turn a {}"] },
    { what: "nothing if the controller owns only status fields", subresource: { subresource: "status" }, calls: [] },
  ])("of a primary that leaves `where` release $what", async ({ subresource, calls }) => {
    const released = [
      { ...managed("Apply")[0], ...subresource },
      { manager: "kubectl", operation: "Update" },
    ];
    const live = { "sites a": site({ managedFields: released }) };
    expect((await perform([], { live, released })).calls).toEqual(calls);
  });

  it("OW2 store a record of each response", async () => {
    const { performed, records } = await perform([create("x"), apply("y")], { live: SAME, owned: [configMap("y")] });
    expect(performed).toEqual({ kind: "done", isHeld: false, held: [] });
    expect(records).toEqual(["keep ConfigMap./shop/x", "keep ConfigMap./shop/y"]);
  });

  it("OW3 OW4 do not change another owner's object of the desired name, prune nothing afterwards, and report the conflict", async () => {
    const live = { ...SAME, "configmaps x": configMap("x", { ownerReferences: [{ ...reference, uid: "another" }] }) };
    const errors = { "create x": [refused(409, "AlreadyExists")] };
    expect(await perform([create("x"), apply("y"), prune("z")], { live, errors, owned: [configMap("y"), configMap("z")] })).toMatchObject({
      performed: { kind: "done", isHeld: true },
      calls: ["create x {}", expect.stringMatching(/^patch y /)],
      records: ["keep held:ConfigMap./shop/x", "keep ConfigMap./shop/y"],
      events: ["NameTaken"],
    });
  });

  it("OW5 count an object of the primary whose create had no response as created", async () => {
    const live = { ...SAME, "configmaps x": configMap("x") };
    const found = await perform([create("x")], { live, errors: { "create x": [refused(409, "AlreadyExists")] } });
    expect(found).toMatchObject({ performed: { kind: "done", isHeld: false }, events: [], records: [] });
  });

  it("take over fields from kubectl with force, after a request without force", async () => {
    const errors = { "patch y": [refused(409, "Conflict", ["kubectl"])] };
    expect((await perform([apply("y")], { errors, owned: [configMap("y")] })).calls).toEqual([
      'patch y {"uid":"uid-y"}',
      'patch y {"uid":"uid-y","force":true}',
    ]);
  });

  it("OW4 take over no field from another user controller", async () => {
    const errors = { "patch y": [refused(409, "Conflict", ["kubectl", "deltaloop-rival"])] };
    expect(await perform([apply("y")], { errors, owned: [configMap("y")] })).toMatchObject({
      performed: { kind: "done", isHeld: true },
      calls: ['patch y {"uid":"uid-y"}'],
      events: ["Contested"],
    });
  });

  it("replace the managedFields entry of a create by one of an apply before the first apply", async () => {
    const created = configMap("y", { managedFields: managed("Update") });
    const { calls } = await perform([apply("y")], { owned: [created], live: { "configmaps y": created } });
    expect(calls).toEqual(["turn y {}", 'patch y {"uid":"uid-y"}']);
  });

  it("are decided again when another object has the name of the one to apply", async () => {
    const created = configMap("y", { managedFields: managed("Update") });
    const { performed, calls } = await perform([apply("y")], {
      owned: [created],
      live: { "configmaps y": configMap("y", { uid: "other" }) },
    });
    expect(performed?.kind).toBe("again");
    expect(calls).toEqual([]);
  });

  it("delete with uid and version, and are decided again when the primary was modified in the meantime", async () => {
    const { performed, calls } = await perform([REMOVE], { live: SAME, errors: { "delete a": [refused(409, "Conflict")] } });
    expect(performed?.kind).toBe("again");
    expect(calls).toEqual(['delete a {"uid":"u1","resourceVersion":"5"}']);
  });

  it("skip an object to prune that has changed in the meantime", async () => {
    const errors = { "delete z": [refused(409, "Conflict")] };
    const { performed, calls } = await perform([prune("z")], { live: SAME, errors, owned: [configMap("z")] });
    expect(performed).toEqual({ kind: "done", isHeld: false, held: [] });
    expect(calls).toEqual(['delete z {"uid":"uid-z","resourceVersion":"7"}']);
  });

  it("are not sent shortly before the key's lease ends", async () => {
    const { failed, calls } = await perform([apply("y")], { owned: [configMap("y")], mayWrite: false });
    expect({ error: String(failed?.error), calls }).toEqual({ error: "LeaseEndsError: lease ends", calls: [] });
  });

  it("OW6 are sent concurrently if none depends on another, and the status after all of them", async () => {
    const { calls, records } = await perform([create("x"), create("y"), STATUS], { live: SAME, slow: ["x"] });
    expect(calls).toEqual(["create x {}", "create y {}", 'patch a {"uid":"u1","resourceVersion":"5"}']);
    expect(records).toEqual(["keep ConfigMap./shop/y", "keep ConfigMap./shop/x", "keep status"]);
  });

  it("OW6 fail only after all responses are stored, and the status is not written", async () => {
    const errors = { "create y": [refused(500, "InternalError")] };
    const { failed, calls } = await perform([create("x"), create("y"), STATUS], { live: SAME, errors, slow: ["x"] });
    expect(calls).toEqual(["create x {}", "create y {}"]);
    expect(failed).toMatchObject({ error: refused(500, "InternalError"), recordsThen: ["keep ConfigMap./shop/x"] });
  });

  it("OW7 end the run with the last write-through, based on the rows in the snapshot", async () => {
    const live = { live: SAME, owned: [configMap("y")], finalResult: { kind: "again", afterMs: 500 } } as const;
    expect(await perform([create("x"), apply("y"), STATUS], live)).toMatchObject({
      ...{ records: ["keep ConfigMap./shop/x", "keep ConfigMap./shop/y", "keep status"], read: [] },
      ...{ ends: [{ kind: "requeueAfter", delayMs: 500 }], hasEnded: true },
    });
  });

  it("OW7 do not end the run while an Event is still to be sent or another writer contests an object", async () => {
    const live = { ...SAME, "configmaps x": configMap("x", { ownerReferences: [{ ...reference, uid: "another" }] }) };
    const errors = { "create x": [refused(409, "AlreadyExists")] };
    expect(await perform([create("x"), STATUS], { live, errors, finalResult: { kind: "done" } })).toMatchObject({
      ...{ records: ["keep held:ConfigMap./shop/x", "keep status"], events: ["NameTaken"], ends: [], hasEnded: false },
    });
  });
});
