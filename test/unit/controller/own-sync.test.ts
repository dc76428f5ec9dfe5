/**
 * One sync of a user controller, from its result to its line. Catches: a failure that `kubectl describe` does not show, an Event for each
 * retry, an Event with a value that the developer's code or the API server has put into an error, and a taken name that shadow mode hides.
 */
import { describe, expect, it } from "vitest";
import { lineOf } from "../../../cli/own/triggers.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { cachedAs } from "../../../shared/controllers/cache/cache-registry.ts";
import type { OwnRun, SyncPorts } from "../../../shared/controllers/kit/run.ts";
import { createWriteGateway } from "../../../shared/controllers/kit/write-gateway/write-gateway.ts";
import { failureOfCode, ownControllers, ownKeySync, registryOf, SyncFailure } from "../../../shared/controllers/own.ts";
import type { OwnReport } from "../../../shared/controllers/own.ts";
import { cacheOf, gatewayContractOf } from "../../../shared/controllers/registry/cache-of.ts";
import { KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { KubeWriter } from "../../../shared/kube/client/kube.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { customResource, defineController, s } from "../../../shared/sdk/index.ts";
import { ConfigMap } from "../../../shared/sdk/kinds.ts";
import { silentLog } from "../../support/silent-log.ts";

const CANARY = "a-secret-value";
const digester = createDigester("a key for tests");
const Site = customResource({ group: "x.example.com", version: "v1", kind: "Site", spec: s.object({}), status: s.object({}) });
const { definition } = defineController({ name: "site", for: Site, owns: [ConfigMap], sync: () => undefined });
// one definition, one entry
const [entry] = ownControllers([definition]) as [ReturnType<typeof ownControllers>[number]];
const registry = registryOf([entry]);
const cache = cacheOf(registry);
const [primaryView, ownedView] = entry.views;

const site = (metadata: object = {}) => ({
  ...{ apiVersion: "x.example.com/v1", kind: "Site", spec: {} },
  metadata: { namespace: "shop", name: "a", uid: "u1", resourceVersion: "5", generation: 1, ...metadata },
});
const configMap = (name: string, owner: object) => ({
  ...{ apiVersion: "v1", kind: "ConfigMap" },
  metadata: {
    ...{ namespace: "shop", name, uid: `uid-${name}`, resourceVersion: "7" },
    ownerReferences: [{ controller: true, ...owner }],
    managedFields: [{ manager: "deltaloop-site", operation: "Apply", apiVersion: "v1", fieldsV1: {} }],
  },
});
const SELF = { apiVersion: "x.example.com/v1", kind: "Site", name: "a", uid: "u1" };
const DB = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db", uid: "u9" };
const BODY = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "x" } };

interface Scene {
  readonly mode: "act" | "shadow";
  /** Objects that live reads find, by `<resource> <name>`. */
  readonly live?: Readonly<Record<string, object>>;
  readonly owned?: readonly ReturnType<typeof configMap>[];
  /** What the API server answers to a create of an owned object. */
  readonly refusal?: Error;
}

/** A host that runs one key repeatedly. `sync` is what each run returns or throws; `failures` is the streak before it. */
function scene({ mode, live = { "sites a": site() }, owned = [], refusal }: Scene) {
  const [events, calls, lines]: [string[], string[], string[]] = [[], [], []];
  const writer = {
    create: ({ resource, body }: { readonly resource: string; readonly body: object }) => {
      if (resource !== "events" && refusal) return Promise.reject(refusal);
      if (resource === "events") events.push(`${(body as { reason: string }).reason}: ${(body as { message: string }).message}`);
      calls.push(`create ${resource}`);
      return Promise.resolve(body);
    },
    patch: () => Promise.reject(new Error("not used")),
  } as unknown as KubeWriter; // what the sync uses of it
  const ports = {
    ...{ digester, registry: cache, clock: createVirtualClock(1_000), log: silentLog },
    reader: { get: async (resource: string, _: string, name: string) => live[`${resource.split(".")[0]} ${name}`] },
    gateway: createWriteGateway(writer, entry.name, mode, gatewayContractOf(registry, entry.name)),
    doorbells: { ring: async () => undefined },
    store: { correlateEvents: () => Promise.reject(new Error("no history")) },
  } as unknown as SyncPorts; // what the sync uses of them
  const rowOf = (view: { readonly name: string }, object: ReturnType<typeof site | typeof configMap>) => ({
    ...{ key: `shop/${object.metadata.name}`, uid: object.metadata.uid, rv: object.metadata.resourceVersion },
    object: cachedAs(cache, view.name as never, object as never, digester), // of a view of this registry
  });
  const slices = new Map([[ownedView?.name, owned.map((object) => rowOf(ownedView as { readonly name: string }, object))]]);
  let returns: unknown;
  const keySync = ownKeySync(entry, {
    functions: { sync: () => (returns instanceof Error ? Promise.reject(returns) : Promise.resolve(returns)) },
    report: (report: OwnReport) => lines.push(lineOf(report, "created", new Date(0)).replace(/^\S+ | {3}\d+ ms$/g, "")),
  });
  const sync = async (returned: unknown, failures = 0): Promise<unknown> => {
    returns = returned;
    const run = {
      ...{ epoch: "e", controller: entry.name, key: "shop/a", token: "t", mayWrite: () => true },
      snapshot: { primary: rowOf(primaryView, site()), dependents: [], orphans: [], intents: [], failures, slices },
    } as unknown as OwnRun; // what the sync uses of it
    return await keySync.run(ports, run).then(
      () => undefined,
      (error: unknown) => error,
    );
  };
  return { sync, events, calls, lines };
}

const thrown = (place = "site.ts:3:5"): SyncFailure => failureOfCode(`cannot parse ${CANARY}`, "TypeError", place);
const refusedWith = (code: number, reason: string, more: object = {}): KubeApiError =>
  new KubeApiError({ code, reason, message: `data: Invalid value: "${CANARY}"`, ...more });
const PREFIX = "SyncFailed: sync failed, is retried with back-off: ";

describe("a sync that fails", () => {
  it.each([
    { why: "its code throws", returned: thrown(), says: "TypeError at site.ts:3:5" },
    { why: "its code throws an error with an invalid name", returned: failureOfCode("m", CANARY.repeat(9)), says: "Error" },
    {
      why: "its result has no list",
      returned: { apply: CANARY },
      says: "`apply` must be a list",
    },
    { why: "its result has a wrong duration", returned: { again: CANARY }, says: '`again` must be a Date or a duration such as "10m"' },
    {
      why: "the API server refuses a write",
      returned: { apply: [BODY] },
      refusal: refusedWith(422, "Invalid"),
      says: "create ConfigMap shop/x: 422 Invalid",
    },
  ])("emits one Event without values when $why", async ({ returned, refusal, says }) => {
    const { sync, events, lines } = scene({ mode: "act", ...(refusal && { refusal }) });
    expect(await sync(returned)).toBeInstanceOf(Error);
    expect(await sync(returned, 1)).toBeInstanceOf(Error);
    expect(events).toEqual([PREFIX + says]);
    expect(events.join()).not.toContain(CANARY);
    expect(lines[0]).toContain("sync failed: ");
  });

  it("emits a new Event for each series of failures and each different failure, but at most three in one series", async () => {
    const { sync, events } = scene({ mode: "act" });
    for (const failures of [0, 1, 0]) await sync(thrown(), failures);
    for (const line of [4, 5, 6, 7]) await sync(thrown(`site.ts:${line}:5`), line);
    expect(events.map((event) => event.slice(PREFIX.length))).toEqual([3, 3, 4, 5].map((line) => `TypeError at site.ts:${line}:5`));
  });

  it.each([
    { why: "a response is lost", refusal: new UnansweredError("the connection broke") },
    { why: "the API server is overloaded", refusal: refusedWith(429, "TooManyRequests") },
    {
      why: "the namespace is being deleted",
      refusal: refusedWith(403, "Forbidden", { causes: [{ reason: "NamespaceTerminating" }] }),
    },
    { why: "its files were saved during the sync", returned: new SyncFailure("its files were saved while it ran") },
    { why: "the primary was deleted", returned: thrown(), live: {} },
    { why: "the primary is being deleted", returned: thrown(), live: { "sites a": site({ deletionTimestamp: "2026-03-01T10:00:00Z" }) } },
    { why: "nothing is sent in shadow mode", returned: thrown(), mode: "shadow" as const },
  ])("emits no Event when $why", async ({ returned = { apply: [BODY] }, mode = "act" as const, ...more }) => {
    const { sync, calls } = scene({ mode, ...more });
    expect(await sync(returned)).toBeInstanceOf(Error);
    expect(calls).toEqual([]);
  });
});

describe("a sync in shadow mode", () => {
  it.each([
    { by: "has another controller", owner: DB, says: "is controlled by StatefulSet db" },
    { by: "belongs to an earlier primary of the same name", owner: { ...SELF, uid: "u0" }, says: "is controlled by Site a of another uid" },
    { by: "has no controller", owner: { ...DB, controller: false }, says: "has no controller" },
  ])("prints a create as blocked when the existing object of that name $by, and prints no deletion", async ({ owner, says }) => {
    const live = { "sites a": site(), "configmaps x": configMap("x", owner) };
    const { sync, lines, calls } = scene({ mode: "shadow", live, owned: [configMap("old", SELF)] });
    await sync({ apply: [BODY], status: {} });
    expect(lines).toEqual([
      `site shop/a   created → would status (desired state changed); blocked: create ConfigMap shop/x (NameTaken: ConfigMap shop/x exists and ${says}: delete or rename it)`,
    ]);
    expect(calls).toEqual([]);
  });

  it("prints no create of its own object that exists but is not in the cache yet", async () => {
    const live = { "sites a": site(), "configmaps x": configMap("x", SELF) };
    const { sync, lines } = scene({ mode: "shadow", live });
    await sync({ apply: [BODY] });
    expect(lines).toEqual(["site shop/a   created → nothing"]);
  });

  it("prints a create and what would be deleted when the name is free", async () => {
    const { sync, lines } = scene({ mode: "shadow", owned: [configMap("old", SELF)] });
    await sync({ apply: [BODY] });
    expect(lines).toEqual([
      "site shop/a   created → would create ConfigMap shop/x (missing), prune ConfigMap shop/old (no longer desired)",
    ]);
  });
});
