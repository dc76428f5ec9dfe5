/**
 * Threat: entries of managedFields are forged, so that a tenant's change appears to be another controller's status write, and the
 * foreign-write guard stops all functions of the deployment (informer §11.9). Who: anyone who may change one Deployment, without rights on
 * its status: the API server keeps managedFields as a PATCH of the main resource sends them. Worst effect before the guard verified such
 * entries: all functions of the cluster stopped until a user resumed them, as often as the attacker liked. After an entry with a time in
 * 2099 was accepted once, every real conflict was hidden.
 *
 * The test changes managedFields as apimachinery pkg/util/managedfields does; test/e2e/dev.test.ts uses a real API server.
 */
import { beforeEach, expect, it } from "vitest";

import { decideResume, newestForeignWrite } from "../../cli/cluster/resume.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { stoppedNamespaces } from "../../shared/store/ports/guard-store.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import { createForeignWriteGuard } from "../../shared/controllers/cache/watcher/foreign-write-guard.ts";
import type { ListQuery } from "../../shared/kube/client/kube.ts";
import { IDENTITY } from "../harness/store/store.ts";
import { silentLog } from "../support/silent-log.ts";

const START_MS = Date.parse("2026-03-01T10:00:00Z");
const UPSTREAM = "kube-controller-manager";
const OURS = "deltaloop-deployment";
const owns = (...fields: readonly string[]) => ({ "f:status": Object.fromEntries(fields.map((field) => [`f:${field}`, {}])) });

interface Entry {
  readonly manager: string;
  readonly operation: "Update";
  readonly subresource?: "status";
  readonly time: string;
  readonly fieldsV1: Record<string, Record<string, object>>;
}
type Status = Readonly<Record<string, number>>;

function scene() {
  const clock = createVirtualClock(START_MS);
  const store = createMemoryStore({ deployment: "d", cluster: "c", identity: IDENTITY, holeLimitMs: 1_000, clock });
  /** Each version of mallory/web. */
  const versions: { readonly metadata: { readonly managedFields: readonly Entry[] }; readonly status: Status }[] = [];
  const kube = {
    get: async () => undefined,
    patch: async () => ({ metadata: { name: "x", uid: "u", resourceVersion: "1" } }),
    listPage: async (resource: string, { resourceVersion, fieldSelector }: ListQuery) => {
      const version = versions[(resourceVersion === undefined ? versions.length : Number(resourceVersion)) - 1];
      const isMeant = resource === "deployments" && (fieldSelector ?? "metadata.name=web").includes("metadata.name=web");
      return { resourceVersion: String(versions.length), items: isMeant && version ? [version] : [] };
    },
  };
  const guard = createForeignWriteGuard({ store, kube, clock, log: silentLog }, { namespace: "deltaloop", name: "deltaloop-canary" });
  const now = (): string => new Date(Math.floor(clock.now() / 1_000) * 1_000).toISOString();
  const becomes = async (status: Status, managedFields: readonly Entry[]): Promise<void> => {
    const resourceVersion = String(versions.length + 1);
    versions.push({ metadata: { namespace: "mallory", name: "web", uid: "u1", resourceVersion, managedFields }, status } as never);
    guard.look("deployments", versions.at(-1));
    await clock.advance(1_000);
  };
  guard.begin(START_MS);
  void guard.run(new AbortController().signal);
  return {
    store,
    clock,
    /** Patches the main resource: sets its fields and keeps the status. */
    tenant: (...managedFields: readonly Partial<Entry>[]) =>
      becomes(
        versions.at(-1)?.status ?? {},
        managedFields.map((entry) => ({
          manager: UPSTREAM,
          operation: "Update",
          subresource: "status",
          time: now(),
          fieldsV1: owns("replicas"),
          ...entry,
        })),
      ),
    /** Writes the status: the writer becomes the only manager of the fields that it changes. */
    writes(manager: string, status: Status): Promise<void> {
      const before = versions.at(-1);
      const changed = Object.keys(status).filter((name) => before?.status[name] !== status[name]);
      const others = (before?.metadata.managedFields ?? []).map((entry) => {
        const isLeft = ([field, below]: readonly [string, object]): boolean =>
          !changed.includes(field.slice(2)) || Object.keys(below).length > 0; // a path below it counts as a separate field
        const left = Object.entries(entry.fieldsV1["f:status"] ?? {}).filter(isLeft);
        return { ...entry, fieldsV1: { ...entry.fieldsV1, "f:status": Object.fromEntries(left) } };
      });
      const own = others.find((entry) => entry.manager === manager && entry.subresource === "status")?.fieldsV1["f:status"];
      const fieldsV1 = { "f:status": { ...own, ...owns(...changed)["f:status"] } };
      const entry: Entry = { manager, operation: "Update", subresource: "status", time: now(), fieldsV1 };
      return becomes({ ...before?.status, ...status }, [...others.filter((each) => each.manager !== manager), entry]);
    },
    isStopped: async () => stoppedNamespaces(await store.guard()).has("mallory"),
    async resume(isForced = false) {
      const state = await store.guard();
      const newest = await newestForeignWrite(kube, clock.now(), new AbortController().signal);
      const decision = decideResume([...stoppedNamespaces(state).values()], newest, clock.now(), isForced);
      if (decision.kind === "resume") await store.resume({ seen: state, acceptedMs: decision.acceptedMs });
      await clock.advance(10_000);
      return decision;
    },
  };
}

let s: ReturnType<typeof scene>;
beforeEach(async () => {
  s = scene();
  await s.clock.advance(60_000);
  await s.writes(OURS, { replicas: 3, observedGeneration: 1 });
});

it.each<{ readonly name: string; readonly entries: readonly Partial<Entry>[] }>([
  { name: "with a time in 2099, for a label", entries: [{ time: "2099-01-01T00:00:00Z", fieldsV1: { "f:metadata": { "f:labels": {} } } }] },
  { name: "with a time in 2099, for the status", entries: [{ time: "2099-01-01T00:00:00Z" }] },
  { name: "with the current time", entries: [{}] },
  { name: "with the current time, under another manager name", entries: [{ manager: "k3s" }] },
  { name: "of a subfield, which no other manager can take over", entries: [{ fieldsV1: { "f:status": { "f:replicas": { "f:x": {} } } } }] },
  {
    name: "in large number, with this controller's entries removed",
    entries: Array.from({ length: 30 }, (_, nth) => ({ manager: `made-up-${nth}` })),
  },
])("fabricated managedFields entries stop a controller neither before nor after its own writes: $name", async ({ entries }) => {
  for (let replicas = 4; replicas < 8; replicas++) {
    await s.tenant(...entries);
    expect(await s.isStopped()).toBe(false);
    await s.writes(OURS, { replicas, observedGeneration: replicas });
    expect(await s.isStopped()).toBe(false);
  }
});

it("a real write among forged entries stops the controller at once, and a resume covers only writes shown to the user", async () => {
  await s.tenant({ manager: "k3s", time: "2099-01-01T00:00:00Z" });
  await s.writes(UPSTREAM, { replicas: 5 });
  expect(stoppedNamespaces(await s.store.guard()).get("mallory")).toMatchObject({ write: { manager: UPSTREAM, key: "mallory/web" } });
  await s.tenant({ time: "2099-01-01T00:00:00Z" });
  await s.clock.advance(60_000);
  expect(await s.resume()).toMatchObject({ kind: "resume" });
  expect(await s.isStopped()).toBe(false);
  await s.writes(UPSTREAM, { replicas: 6 });
  expect(await s.isStopped()).toBe(true);
});

it("with a constant stream of fabricated entries, a user can still resume with --force", async () => {
  await s.writes(UPSTREAM, { replicas: 5 });
  await s.tenant({});
  expect(await s.resume()).toMatchObject({ kind: "refused" });
  await s.tenant({});
  expect(await s.resume(true)).toMatchObject({ kind: "resume" });
  await s.tenant({});
  expect(await s.isStopped()).toBe(false);
  await s.writes(UPSTREAM, { replicas: 6 });
  expect(await s.isStopped()).toBe(true);
});
