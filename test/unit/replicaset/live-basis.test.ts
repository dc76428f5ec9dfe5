/** The first creates and deletes are decided on a live list (replicaset §18), with the API server and the Store in memory. */
import { beforeEach, describe, expect, it } from "vitest";

import { statusContradicts } from "../../../shared/controllers/replicaset/live-basis.ts";
import { cachedPod } from "../../support/builders.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { refusal } from "../../support/scripted-api.ts";
import { pod, replicaSet } from "../../support/workloads.ts";

describe.each([
  { controller: "replicaset", resource: "replicasets", kind: "ReplicaSet" },
  { controller: "replicationcontroller", resource: "replicationcontrollers", kind: "ReplicationController" },
] as const)("a $kind", ({ controller, resource, kind }) => {
  let harness: SyncHarness;
  beforeEach(async () => void (harness = await SyncHarness.create({ controller, unmarked: true })));
  const create = (replicas: number): Promise<unknown> => {
    const { spec, ...rest } = replicaSet({ replicas });
    return harness.api.put(resource, { ...rest, spec: { ...spec, ...(kind === "ReplicationController" && { selector: { app: "web" } }) } });
  };
  const owned = (name: string): Promise<unknown> =>
    harness.api.put("pods", pod({ name, owner: { kind, uid: harness.api.find(resource, "web").metadata.uid } }));
  const resize = (replicas: number): Promise<unknown> =>
    harness.api.change(resource, "web", ({ spec }) => ({ spec: { ...spec, replicas } }));
  const lists = (): number => harness.api.reads.filter((call) => call.startsWith("list pods")).length;
  const writes = (what: string): number => harness.api.writes.filter((call) => call === what).length;

  it("an owner that is synced before the 520 pods it selects are cached adopts them and creates none", async () => {
    for (let i = 0; i < 520; i++) await harness.api.put("pods", pod({ name: `web-${i}` }));
    await create(520);
    await harness.stream((change) => change.resource === resource);
    await harness.sync();
    expect([harness.pods.length, writes("create pods"), writes("patch pods"), lists()]).toEqual([520, 0, 520, 1]);
    await harness.stream();
    await harness.sync();
    expect([harness.pods.length, writes("create pods"), writes("delete pods"), lists()]).toEqual([520, 0, 0, 1]);
  });

  it("lists its pods once, and then creates and deletes on the basis of the cache", async () => {
    await create(2);
    await harness.stream();
    await harness.sync();
    await harness.stream();
    for (const replicas of [5, 1, 3]) {
      await resize(replicas);
      await harness.stream();
      await harness.sync();
      await harness.stream();
      await harness.sync();
      expect([harness.pods.length, lists()]).toEqual([replicas, 1]);
    }
  });

  it("ignores a pod whose controller reference has its uid but another name", async () => {
    await create(2);
    const { uid } = harness.api.find(resource, "web").metadata;
    await harness.api.put("pods", pod({ name: "partial", owner: { kind, uid, name: "other" } }));
    await harness.stream();
    await harness.sync();
    expect([writes("create pods"), lists(), harness.logged]).toEqual([2, 1, []]);
  });

  it("lists its pods before each delete while a loss in the Store could go unnoticed, so that a lost deletion causes no second delete", async () => {
    const { take } = harness.ports.store;
    const losing: typeof take = async (...request) => {
      const result = await take(...request);
      return "lineage" in result && result.lineage ? { ...result, lineage: { ...result.lineage, losesUnseen: true } } : result;
    };
    Object.assign(harness.ports.store, { take: losing });
    await create(3);
    await harness.stream();
    await harness.sync();
    await harness.stream();
    await harness.clock.advance(6_000);
    await resize(2);
    const [lost = ""] = harness.names("pods");
    await harness.api.remove("pods", lost);
    // the DELETED event of the pod is lost, but its watermark arrives
    await harness.stream(({ resource: changed }) => changed === resource);
    await harness.sync();
    expect([harness.pods.length, writes("delete pods"), lists()]).toEqual([2, 0, 2]);
  });

  it("does not delete pods because of cached pods that a list no longer contains, and releases a relabelled pod", async () => {
    await create(2);
    for (const name of ["a", "b", "c", "d"]) await owned(name);
    await harness.stream();
    await harness.api.remove("pods", "a");
    await harness.api.change("pods", "b", ({ metadata }) => ({ metadata: { ...metadata, labels: { app: "other" } } }));
    await harness.sync();
    expect(writes("delete pods")).toBe(0);
    expect(harness.api.find("pods", "b").metadata.ownerReferences ?? []).toEqual([]);
    const { dependents } = await harness.snapshot();
    expect(dependents.map(({ key, gone }) => `${key} ${gone}`)).toEqual(["shop/a true", "shop/c false", "shop/d false"]);
  });

  it("at the third list within a minute that contradicts the cache, writes nothing and marks the pods SUSPECT", async () => {
    await create(1);
    let written: readonly string[] = [];
    for (const nth of [1, 2, 3]) {
      await harness.stream();
      await owned(`lost-${nth}`);
      await resize(2 + 2 * nth);
      await harness.stream((change) => change.resource === resource); // the event of the pod is lost, but its watermark arrives
      await harness.clock.advance(6_000);
      await harness.heartbeat();
      expect((await harness.store.gate(controller)).open).toBe(true);
      written = [...harness.api.writes];
      await harness.sync();
      expect(lists()).toBe(nth);
    }
    expect(harness.api.writes).toEqual(written);
    expect(await harness.store.gate(controller)).toMatchObject({ open: false, reason: expect.stringContaining("live lists contradict") });
  });

  it("writes nothing if the list fails", async () => {
    await create(2);
    await harness.stream();
    harness.api.script = { "list pods": "never" };
    await harness.sync();
    expect([harness.api.writes, await harness.failures()]).toEqual([[], 1]);
  });

  it("keeps ReplicaFailure while it waits for its next list", async () => {
    await create(3);
    for (const name of ["a", "b", "c"]) await owned(name);
    await harness.stream();
    await resize(1);
    await harness.stream((change) => change.resource === resource);
    await harness.api.put("pods", pod({ name: "other", labels: { app: "other" } })); // makes the list newer than every pod lane
    harness.api.script = { "delete pods": refusal(403, "Forbidden", "no") };
    await harness.sync();
    const failure = (): unknown => harness.api.find(resource, "web").status?.["conditions"];
    const first = failure();
    expect([first, lists()]).toEqual([[expect.objectContaining({ type: "ReplicaFailure", reason: "FailedDelete" })], 1]);
    const deletes = writes("delete pods");
    await harness.clock.advance(1_000);
    await harness.sync();
    expect([failure(), lists(), writes("delete pods")]).toEqual([first, 1, deletes]);
    harness.api.script = {};
    await harness.clock.advance(6_000);
    await harness.sync();
    expect([failure() ?? [], lists(), writes("delete pods")]).toEqual([[], 2, deletes + 2]);
  });

  it.each([
    { name: "creates nothing for 27 s if its creates were rejected", rejected: true, waits: true },
    { name: "creates its pods at once otherwise", rejected: false, waits: false },
  ])("after a list has ended a SUSPECT mark, $name", async ({ rejected, waits }) => {
    await create(2);
    await harness.stream();
    if (rejected) {
      harness.api.script = { "create pods": refusal(403, "Forbidden", "exceeded quota") };
      await harness.sync();
      await harness.stream();
      harness.api.script = {};
    }
    const failure = (): unknown => harness.api.find(resource, "web").status?.["conditions"] ?? [];
    const [before, tried, relistedMs] = [failure(), writes("create pods"), harness.clock.now()];
    const { take } = harness.ports.store;
    const relisted: typeof take = async (...request) => {
      const result = await take(...request);
      if (result.kind !== "ok" || !result.snapshot.pods) return result;
      return { ...result, snapshot: { ...result.snapshot, pods: { ...result.snapshot.pods, relistedMs } } };
    };
    Object.assign(harness.ports.store, { take: relisted });
    await harness.sync();
    expect(writes("create pods") - tried).toBe(waits ? 0 : 2);
    if (!waits) return;
    expect([failure(), await harness.queuedInMs()]).toEqual([before, 27_000]);
    await harness.clock.advance(27_000);
    await harness.heartbeat();
    await harness.ring();
    expect([writes("create pods") - tried, harness.pods.length, failure()]).toEqual([2, 2, []]);
  });

  it("lists its pods before it lowers its status below what the cached deletions explain", async () => {
    await create(2);
    for (const name of ["a", "b"]) await owned(name);
    await harness.stream();
    await harness.sync();
    await harness.api.put("pods", pod({ name: "c", owner: { kind, uid: harness.api.find(resource, "web").metadata.uid } }));
    await harness.api.change(resource, "web", ({ status }) => ({ status: { ...status, replicas: 3 } }));
    await harness.stream((change) => change.resource === resource);
    await harness.sync();
    expect(lists()).toBe(1);
    expect(harness.pods.length).toBeGreaterThanOrEqual(2);
  });
});

describe("the owner's status", () => {
  const at = (name: string, resourceVersion: string) => cachedPod({ name, uid: name, resourceVersion });
  const behind = { pods: { fence: "1", suspects: 0, watermark: "10", atMs: 0 }, dependents: [] };
  it.each([
    {
      name: "agrees with a cache that contains the same number of pods",
      replicas: 2,
      claimed: [at("a", "5"), at("b", "5")],
      want: undefined,
    },
    {
      name: "contradicts a cache that contains one pod fewer",
      replicas: 3,
      claimed: [at("a", "5"), at("b", "5")],
      want: "status above the pods",
    },
    {
      name: "agrees if the missing pod has been deleted since",
      replicas: 2,
      claimed: [at("a", "5")],
      left: 1,
      want: undefined,
    },
    {
      name: "agrees if the additional pod is terminating",
      replicas: 2,
      claimed: [at("a", "5")],
      others: [{ ...at("b", "6"), deletionTimestamp: "2026-03-01T10:00:00Z" }],
      want: undefined,
    },
    {
      name: "agrees if the additional pod has been relabelled",
      replicas: 2,
      claimed: [at("a", "5")],
      others: [at("b", "6")],
      want: undefined,
    },
    {
      name: "agrees if the additional pod has been released since",
      replicas: 2,
      claimed: [at("a", "5")],
      orphans: [at("b", "21")],
      want: undefined,
    },
    {
      name: "contradicts the cache if the orphan was released before the status was written",
      replicas: 2,
      claimed: [at("a", "5")],
      orphans: [at("b", "6")],
      want: "status above the pods",
    },
    { name: "may count fewer pods if no delete follows", replicas: 0, claimed: [at("a", "5")], want: undefined },
    {
      name: "contradicts a cache that contains more pods if some of them would be deleted",
      replicas: 0,
      claimed: [at("a", "5")],
      deletes: true,
      want: "status below the pods",
    },
    {
      name: "may count fewer pods if all other pods have been created since",
      replicas: 0,
      claimed: [at("a", "21")],
      deletes: true,
      want: undefined,
    },
    {
      name: "may count fewer pods if the cache is as new as the status",
      replicas: 0,
      claimed: [at("a", "5")],
      deletes: true,
      watermark: "20",
      want: undefined,
    },
  ])("the owner's status $name", ({ replicas, claimed, left, others = [], orphans = [], deletes = false, watermark = "10", want }) => {
    const snapshot = { ...behind, pods: { ...behind.pods, watermark }, ...(left !== undefined && { left }) };
    const observed = { pods: [...claimed, ...others], orphans };
    expect(statusContradicts(snapshot, { resourceVersion: "20", replicas }, { observed, claimed, deletes })).toBe(want);
  });
});
