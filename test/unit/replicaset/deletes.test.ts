// Deletes of a ReplicaSet: live checks, retries and intents.
import { beforeEach, describe, expect, it } from "vitest";
import { WRITE_MARGIN_MS } from "../../../shared/base/times.ts";
import { refusal, type Fate } from "../../support/scripted-api.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { pod, replicaSet } from "../../support/workloads.ts";

const CONFLICT = refusal(409, "Conflict", "not now");
const KINDS = [
  { controller: "replicaset", resource: "replicasets", kind: "ReplicaSet" },
  { controller: "replicationcontroller", resource: "replicationcontrollers", kind: "ReplicationController" },
] as const;

describe.each(KINDS)("scaling a $kind down", ({ controller, resource, kind }) => {
  let harness: SyncHarness;
  const ownerNow = () => ({ kind, uid: harness.api.uid(resource, "web") });
  const sent = (): readonly string[] =>
    harness.api.calls.flatMap(({ verb, name, resource: of }) =>
      of === "pods" || (of === resource && verb === "get") ? [`${verb} ${name}`] : [],
    );
  const touch = (name: string, metadata: object = { annotations: { touched: "yes" } }): Promise<unknown> =>
    harness.api.change("pods", name, (live) => ({ metadata: { ...live.metadata, ...metadata } }));
  const resize = (replicas: number): Promise<unknown> =>
    harness.api.change(resource, "web", ({ spec }) => ({ spec: { ...spec, replicas } }));
  const create = (replicas: number): Promise<unknown> => {
    const { spec, ...rest } = replicaSet({ replicas });
    return harness.api.put(resource, { ...rest, spec: { ...spec, ...(kind === "ReplicationController" && { selector: { app: "web" } }) } });
  };
  const row = async (name: string): Promise<object | undefined> =>
    (await harness.store.readIndex({ rows: [{ resource: "pods", key: `shop/${name}` }] })).rows[0]?.row;
  /** Returns the pods that the next run would delete first, or wait for. Takes the key, so it must be called last. */
  const left = async (): Promise<readonly string[]> => {
    await harness.clock.advance(5_000); // later than the back-off, but before any deadline
    const key = "shop/web";
    await harness.store.add("epoch-1", controller, key, 0);
    const take = await harness.store.take({ epoch: "epoch-1", controller, key, token: "next" }, { uid: ownerNow().uid });
    return take.kind === "ok" ? take.snapshot.intents.map(({ state }) => state) : [take.kind];
  };

  const start = async (mode: "act" | "shadow" = "act"): Promise<void> => {
    harness = await SyncHarness.create({ controller, mode });
    await create(1);
    for (const name of ["a", "b"])
      await harness.api.put("pods", pod({ name, owner: ownerNow(), phase: name === "a" ? "Pending" : "Running" }));
    await harness.stream();
  };

  beforeEach(() => start());

  describe("reads the owner live first", () => {
    it("reads the owner once, and deletes the pod at the version on which the choice was based", async () => {
      const { uid, resourceVersion } = harness.api.find("pods", "a").metadata;
      await harness.sync();
      expect(sent()).toEqual(["get web", "delete a"]);
      expect(harness.api.calls.find(({ verb }) => verb === "delete")?.preconditions).toEqual({ uid, resourceVersion });
    });

    it("reads the owner once, even in a run that adopts", async () => {
      await harness.api.put("pods", pod({ name: "orphan" }));
      await harness.stream();
      await harness.sync();
      expect(sent().filter((call) => call.startsWith("get"))).toEqual(["get web"]);
      expect(harness.api.writes.filter((write) => write === "delete pods")).toHaveLength(2);
    });

    const table: { name: string; spoil: () => Promise<unknown>; queuedInMs?: number }[] = [
      { name: "was deleted: sends no delete", spoil: () => harness.api.remove(resource, "web") },
      {
        name: "was replaced by another of the same name: sends no delete",
        spoil: async () => (await harness.api.remove(resource, "web"), create(1)),
      },
      {
        name: "has a new generation: requeues it at once",
        spoil: () => harness.api.change(resource, "web", ({ spec }) => ({ spec: { ...spec, minReadySeconds: 1 } })),
        queuedInMs: 0,
      },
      { name: "has another size: requeues it at once", spoil: () => resize(2), queuedInMs: 0 },
      {
        name: "has another size, at a resourceVersion older than the cached one: requeues it in a second, after the cache has changed",
        // Simulates a restore of etcd, which no watch reports.
        spoil: async () => {
          const { metadata, ...live } = harness.api.find(resource, "web");
          const then = { ...live, metadata: { ...metadata, resourceVersion: "1" }, spec: { ...live.spec, replicas: 2 } };
          harness.api.script = { [`get ${resource}`]: { answer: then } };
        },
        queuedInMs: 1_000,
      },
      { name: "is being deleted: leaves its pods to the garbage collector", spoil: () => harness.api.terminate(resource, "web") },
    ];
    it.each(table)("for an owner that $name", async ({ spoil, queuedInMs }) => {
      await spoil();
      await harness.sync();
      expect(harness.api.writes).not.toContain("delete pods");
      expect(harness.storeCalls).not.toContain("registerIntents");
      expect(await harness.failures()).toBe(0);
      if (queuedInMs !== undefined) expect(await harness.queuedInMs()).toBe(queuedInMs);
    });

    it("deletes no pod if the owner's live size differs, nor in the next sync, which uses the new size", async () => {
      await resize(2);
      await harness.sync();
      await harness.ring();
      expect(harness.api.writes).toEqual([`patch ${resource}/status`]);
    });

    it("fails the sync without registering an intent if the owner cannot be read", async () => {
      harness.api.script = { [`get ${resource}`]: "never" };
      await harness.sync();
      expect(harness.api.writes).toEqual([]);
      expect(harness.storeCalls).not.toContain("registerIntents");
      expect(await harness.failures()).toBe(1);
    });
  });

  describe("with a changed pod", () => {
    it("deletes the current version of pods that are still owned, with one write-through for all", async () => {
      await touch("a");
      harness.storeCalls.length = 0;
      await harness.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a", "delete a"]);
      expect(harness.api.find("pods", "a").metadata.deletionTimestamp).toBeDefined();
      expect(harness.api.events).toEqual(["Normal SuccessfulDelete Deleted pod: a"]);
      expect(harness.storeCalls).toEqual(["take", "take", "registerIntents", "writeThrough", "writeThrough", "correlateEvents", "done"]);
      expect(harness.logged).toEqual([]);
    });

    const foreign = (change: object) => ({
      ownerReferences: [{ apiVersion: "apps/v1", kind, name: "web", uid: ownerNow().uid, controller: true, ...change }],
    });
    const skipped: { name: string; spoil: () => Promise<unknown>; reason: string; gone?: boolean }[] = [
      { name: "already deleted", spoil: () => harness.api.remove("pods", "a"), reason: "gone", gone: true },
      {
        name: "replaced",
        spoil: async () => (await harness.api.remove("pods", "a"), harness.api.put("pods", pod({ name: "a", owner: ownerNow() }))),
        reason: "another pod has its name",
      },
      { name: "released", spoil: () => touch("a", { ownerReferences: [] }), reason: "controlled by another owner" },
      { name: "owned by another uid", spoil: () => touch("a", foreign({ uid: "x" })), reason: "controlled by another owner" },
      { name: "owned by another name", spoil: () => touch("a", foreign({ name: "x" })), reason: "controlled by another owner" },
      { name: "owned by another kind", spoil: () => touch("a", foreign({ kind: "Job" })), reason: "controlled by another owner" },
      { name: "being deleted", spoil: () => harness.api.terminate("pods", "a"), reason: "being deleted already" },
    ];
    it.each(skipped)("skips a pod that is $name, with one log line, no Event and no failure", async ({ spoil, reason, gone = false }) => {
      // The first response is a conflict with the precondition, also for a pod that was deleted before the read.
      harness.api.script = { "delete pods": CONFLICT };
      await spoil();
      const live = gone ? undefined : harness.api.find("pods", "a");
      await harness.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a"]);
      expect(harness.logged).toEqual([`pod not deleted ${JSON.stringify({ key: "shop/web", pod: "shop/a", reason })}`]);
      expect(harness.api.events).toEqual([]);
      expect(await harness.failures()).toBe(0);
      expect(await row("a")).toMatchObject(gone ? { gone } : { gone, rv: live?.metadata.resourceVersion });
      expect(await left()).toEqual([]);
    });
  });

  describe("a delete that returns a conflict", () => {
    const refused = (message: string) => ({
      events: [`Warning FailedDelete Error deleting: ${message}`],
      error: `unable to delete pods: ${message}`,
      left: [],
      gone: false,
    });
    const table: {
      name: string;
      second: Fate;
      want: { events: string[]; error?: string; left: readonly string[]; gone: boolean };
    }[] = [
      { name: "succeeds", second: undefined, want: { events: ["Normal SuccessfulDelete Deleted pod: a"], left: [], gone: false } },
      { name: "finds no pod", second: refusal(404, "NotFound", "no"), want: { events: [], left: [], gone: true } },
      { name: "returns a conflict again, so that the delete is rejected", second: CONFLICT, want: refused("not now") },
      { name: "is forbidden, so that the delete is rejected", second: refusal(403, "Forbidden", "no"), want: refused("no") },
      {
        name: "gets no response, so that the delete stays planned",
        second: "never",
        want: { ...refused("no response within 5s"), left: ["planned"] },
      },
      {
        name: "gets a 5xx, so that the delete stays planned",
        second: refusal(500, "InternalError", "oops"),
        want: { ...refused("oops"), left: ["planned"] },
      },
    ];
    it.each(table)("is retried once: the second attempt $name", async ({ second, want }) => {
      harness.api.script = { "delete pods": (_, nth) => (nth === 1 ? CONFLICT : second) };
      await harness.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a", "delete a"]);
      expect(harness.api.events).toEqual(want.events);
      expect(await row("a")).toMatchObject({ gone: want.gone });
      expect(await harness.failures()).toBe(want.error === undefined ? 0 : 1);
      const { conditions = [] } = harness.api.find(resource, "web").status as {
        readonly conditions?: readonly { readonly message: string }[];
      };
      expect(conditions.map(({ message }) => message)).toEqual(want.error === undefined ? [] : [want.error]);
      expect(await left()).toEqual(want.left);
    });

    it("is rejected if the read of the pod gets no response, because nothing was deleted", async () => {
      harness.api.script = { "delete pods": CONFLICT, "get pods": "never" };
      await harness.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a"]);
      expect(harness.api.events).toEqual(["Warning FailedDelete Error deleting: not now"]);
      expect(await row("a")).toMatchObject({ gone: false });
      expect(await left()).toEqual([]);
    });

    it("is not retried after the lease has ended, and leaves no intent pending", async () => {
      harness.invocationMs = WRITE_MARGIN_MS + 4_000; // the second attempt would start after 4.5 s
      harness.api.script = { "delete pods": CONFLICT, "get pods": () => void (harness.invocationMs = undefined) };
      harness.api.latencyMs = 1_500;
      await harness.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a"]);
      expect(harness.api.events).toEqual([]);
      expect(await harness.failures()).toBe(1);
      expect(await left()).toEqual([]);
    });
  });

  describe("[replicaset 127] a delete without a clear response is retried once", () => {
    const OOPS = refusal(500, "InternalError", "oops");
    const deleted = { events: ["Normal SuccessfulDelete Deleted pod: a"], failures: 0, left: [] };
    const plannedAfter = (message: string) => ({
      events: [`Warning FailedDelete Error deleting: ${message}`],
      failures: 1,
      left: ["planned"],
    });
    const quiet = { events: [], failures: 0, left: [] };
    const twice = ["get web", "delete a", "delete a"];
    const table: {
      name: string;
      first: Fate;
      second: Fate;
      sent: string[];
      want: { events: string[]; failures: number; left: readonly string[] };
    }[] = [
      { name: "5xx, then success", first: OOPS, second: undefined, sent: twice, want: deleted },
      { name: "no response, then success", first: "never", second: undefined, sent: twice, want: deleted },
      // The first delete was executed: the second attempt gets a conflict, and a read shows that the pod is terminating.
      {
        name: "a lost response, then a conflict caused by the first attempt",
        first: "lost",
        second: undefined,
        sent: [...twice, "get a"],
        want: quiet,
      },
      { name: "5xx, then not found", first: OOPS, second: refusal(404, "NotFound", "no"), sent: twice, want: quiet },
      // The response says nothing about the first call, which may still be in flight.
      {
        name: "5xx, then forbidden: stays planned",
        first: OOPS,
        second: refusal(403, "Forbidden", "no"),
        sent: twice,
        want: plannedAfter("oops"),
      },
      // For example a rejection by admission: the pod is unchanged, so the first call may still be executed.
      {
        name: "5xx, then a conflict although the pod is unchanged: stays planned",
        first: OOPS,
        second: CONFLICT,
        sent: [...twice, "get a", "delete a"],
        want: plannedAfter("oops"),
      },
      { name: "5xx twice: stays planned", first: OOPS, second: OOPS, sent: twice, want: plannedAfter("oops") },
      {
        name: "no response twice: stays planned",
        first: "never",
        second: "never",
        sent: twice,
        want: plannedAfter("no response within 5s"),
      },
    ];
    it.each(table)("a delete that is retried: $name", async ({ first, second, sent: calls, want }) => {
      harness.api.script = { "delete pods": (_, nth) => (nth === 1 ? first : second) };
      await harness.sync();
      expect(sent()).toEqual(calls);
      expect(harness.api.events).toEqual(want.events);
      expect(await harness.failures()).toBe(want.failures);
      expect(await left()).toEqual(want.left);
    });

    it("a failed delete stays planned if the invocation ends before its retry", async () => {
      harness.invocationMs = WRITE_MARGIN_MS + 2_000; // the second attempt would start after 3 s
      harness.api.script = { "delete pods": OOPS };
      harness.api.latencyMs = 1_500;
      await harness.sync();
      expect(sent()).toEqual(["get web", "delete a"]);
      expect(await left()).toEqual(["planned"]);
    });
  });

  it("after a lost response, neither deletes a new pod of the same name nor counts it as deleted", async () => {
    // A pod without a node is deleted immediately.
    await harness.api.remove("pods", "a");
    await harness.api.put("pods", pod({ name: "a", owner: ownerNow(), phase: "Pending", nodeName: "" }));
    await harness.stream();
    harness.api.script = { "delete pods": (_, nth) => (nth === 1 ? "lost" : "never") };
    await harness.sync();
    harness.api.script = {};
    const other = await harness.api.put("pods", pod({ name: "a", owner: { name: "other", uid: "x" } }));
    await harness.sync();
    expect(harness.api.all("pods").map(({ metadata }) => metadata.uid)).toContain(other.metadata.uid);
    expect(await row("a")).toMatchObject({ gone: false, uid: other.metadata.uid });
    expect(harness.api.writes.filter((write) => write === "delete pods")).toHaveLength(3);
    expect(await left()).toEqual([]);
  });

  it("retries an unanswered delete in the next sync, even if another pod now ranks first", async () => {
    harness.api.script = { "delete pods": refusal(503, "ServiceUnavailable", "starting") };
    await harness.sync();
    harness.api.script = {};
    await harness.api.change("pods", "a", ({ status }) => ({ status: { ...status, phase: "Running" } }));
    await harness.api.change("pods", "b", ({ status }) => ({ status: { ...status, phase: "Pending" } }));
    await harness.stream();
    const beforeMs = harness.clock.now();
    await harness.ring();
    expect(sent().filter((call) => call.startsWith("delete"))).toEqual(["delete a", "delete a", "delete a"]);
    expect(harness.clock.now() - beforeMs).toBeLessThan(1_000);
    expect(await harness.failures()).toBe(0);
    expect(await left()).toEqual([]);
  });

  it("in shadow mode, decides the delete and sends no request", async () => {
    await start("shadow");
    await harness.sync();
    expect(harness.traced.flatMap((line) => (line.kind === "decided" ? [line.write.kind] : []))).toEqual(["DeletePod"]);
    expect(harness.api.calls).toEqual([]);
  });

  it("reads 500 pods that changed after they were cached with 500 reads, and stores them with one write-through", async () => {
    await resize(0);
    for (let i = 0; i < 498; i++) await harness.api.put("pods", pod({ name: `p${i}`, owner: ownerNow() }));
    await harness.stream();
    for (const { metadata } of harness.pods) await touch(metadata.name);
    harness.storeCalls.length = 0;
    await harness.sync();
    expect(sent().filter((call) => call.startsWith("get "))).toHaveLength(501);
    expect(sent().filter((call) => call.startsWith("delete "))).toHaveLength(1_000);
    expect(harness.pods.every(({ metadata }) => metadata.deletionTimestamp !== undefined)).toBe(true);
    expect(harness.storeCalls.filter((verb) => verb === "writeThrough")).toHaveLength(2);
  });
});
