/**
 * The context of a sync. Catches: an object of another namespace, a live read that the definition does not allow, and a time that changes
 * within a sync.
 */
import { describe, expect, it } from "vitest";

import { createContext } from "../../../shared/sdk/context.ts";
import type { Surroundings, VisibleObject } from "../../../shared/sdk/context.ts";
import { defineController, only, watch } from "../../../shared/sdk/index.ts";
import type { AnyKind, Condition, Controller } from "../../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Namespace, Secret, Service } from "../../../shared/sdk/kinds.ts";

interface AnyContext {
  readonly object: VisibleObject;
  readonly owned: (kind: AnyKind, name?: string, namespace?: string) => unknown;
  readonly watched: (kind: AnyKind, name?: string, namespace?: string) => unknown;
  readonly live: (kind?: AnyKind, name?: string, namespace?: string) => Promise<unknown>;
  readonly condition: (type: string, status: boolean | "Unknown", reason: string) => Condition;
}

const object: VisibleObject = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "a", namespace: "shop", generation: 4 },
  status: { conditions: [{ type: "Ready", status: "True", reason: "Old", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" }] },
};
const named = (apiVersion: string, kind: string, namespace: string, name: string) => ({ apiVersion, kind, metadata: { name, namespace } });
const services = [named("v1", "Service", "other", "web"), named("v1", "Service", "shop", "web"), named("v1", "Service", "shop", "api")];

const byDeployment = defineController({
  name: "a",
  for: Deployment,
  owns: [Service],
  watches: [watch(ConfigMap, { by: { name: "same" } })],
  reads: [Service, only(Secret, { namespace: "registry", name: "pull" })],
  sync: () => undefined,
});
const byNamespace = defineController({ name: "a", for: Namespace, owns: [Service], sync: () => undefined });

function contextOf(
  { definition }: Controller,
  live: Surroundings["live"] = () => Promise.resolve(undefined),
  primary = object,
): AnyContext {
  const [now, { signal }, log] = [new Date("2026-03-01T12:00:00.500Z"), new AbortController(), { info: () => undefined }];
  // the context as its types present it to `sync`
  return createContext(definition, { object: primary, owned: services, watched: [] }, { now, signal, log, live }) as AnyContext;
}

describe("owned", () => {
  it.each([
    { what: "all owned objects of a kind", call: (c: AnyContext) => c.owned(Service), want: ["other/web", "shop/web", "shop/api"] },
    { what: "an owned object by name, in the primary's namespace", call: (c: AnyContext) => [c.owned(Service, "web")], want: ["shop/web"] },
    { what: "an owned object in another namespace", call: (c: AnyContext) => [c.owned(Service, "web", "other")], want: ["other/web"] },
    { what: "undefined for an unknown name", call: (c: AnyContext) => [c.owned(Service, "no")].filter(Boolean), want: [] },
  ])("returns $what", ({ call, want }) => {
    const found = call(contextOf(byDeployment)) as readonly VisibleObject[];
    expect(found.map(({ metadata: { namespace, name } }) => `${namespace}/${name}`)).toEqual(want);
  });

  it("finds an owned object by name in any namespace under a cluster-scoped primary", () => {
    const context = contextOf(byNamespace, undefined, { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } });
    expect(context.owned(Service, "api")).toMatchObject({ metadata: { namespace: "shop", labels: {} } });
  });

  it("throws for a kind that the definition lacks", () => {
    expect(() => contextOf(byDeployment).owned(Deployment)).toThrow("Deployment is not in `owns`: add it");
    expect(() => contextOf(byDeployment).watched(Service)).toThrow("Service is not in `watches`: add it");
  });
});

describe("live", () => {
  const read: string[] = [];
  const live: Surroundings["live"] = ({ plural }, name, namespace) => {
    read.push(`${plural} ${namespace}/${name}`);
    return Promise.resolve(name === "gone" ? undefined : named("v1", "X", namespace, name));
  };
  const context = contextOf(byDeployment, live);

  it.each([
    { what: "the primary", call: () => context.live(), want: "deployments shop/a" },
    { what: "an object in the primary's namespace", call: () => context.live(Service, "web"), want: "services shop/web" },
    { what: "the object that `only` selects", call: () => context.live(Secret, "pull", "registry"), want: "secrets registry/pull" },
  ])("reads $what", async ({ call, want }) => {
    read.length = 0;
    await call();
    expect(read).toEqual([want]);
  });

  it.each([
    { what: "an object in another namespace", call: () => context.live(Service, "web", "other") },
    { what: "an object whose name is not the one that `only` selects", call: () => context.live(Secret, "root", "registry") },
    { what: "an object outside the namespace that `only` selects", call: () => context.live(Secret, "pull") },
    { what: "an object of a kind that is not in `reads`", call: () => context.live(Deployment, "a") },
  ])("rejects a live read of $what, and sends no request", async ({ call }) => {
    read.length = 0;
    await expect(call()).rejects.toThrow("is not in `reads`");
    expect(read).toEqual([]);
  });

  it("throws when the primary was deleted", async () => {
    const gone = contextOf(byDeployment, live, { ...object, metadata: { name: "gone", namespace: "shop" } });
    await expect(gone.live()).rejects.toThrow("Deployment gone was deleted");
    await expect(context.live(Service, "gone")).resolves.toBeUndefined();
  });
});

describe("condition", () => {
  it.each([
    { status: true, want: { status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" } },
    { status: false, want: { status: "False", lastTransitionTime: "2026-03-01T12:00:00Z" } },
    { status: "Unknown", want: { status: "Unknown", lastTransitionTime: "2026-03-01T12:00:00Z" } },
  ] as const)("has lastTransitionTime $want.lastTransitionTime when $status follows True", ({ status, want }) => {
    expect(contextOf(byDeployment).condition("Ready", status, "New")).toEqual({
      type: "Ready",
      reason: "New",
      message: "",
      observedGeneration: 4,
      ...want,
    });
  });
});
