// Would catch: a pod deleted for an owner that wants it, or that is not the pod that was chosen; a healthy pod counted as gone.
import { beforeEach, describe, expect, it } from "vitest";
import { WRITE_MARGIN_MS } from "../../../shared/ports/times.ts";
import { pod, refusal, replicaSet } from "./fake-api.ts";
import type { FakeApi, Script } from "./fake-api.ts";
import { World } from "./world.ts";

const CONFLICT = refusal(409, "Conflict", "not now");
const KINDS = [
  { controller: "replicaset", resource: "replicasets", kind: "ReplicaSet" },
  { controller: "replicationcontroller", resource: "replicationcontrollers", kind: "ReplicationController" },
] as const;

describe.each(KINDS)("a $kind that shrinks", ({ controller, resource, kind }) => {
  let world: World;
  const owner = { kind, uid: "o-1" };
  const sent = (): readonly string[] =>
    world.api.calls.flatMap(({ verb, name, resource: of }) =>
      of === "pods" || (of === resource && verb === "get") ? [`${verb} ${name}`] : [],
    );
  const touch = (name: string, metadata: object = {}): void =>
    void world.api.change("pods", name, (live) => ({ metadata: { ...live.metadata, ...metadata } }));
  const resize = (replicas: number, metadata: object = {}): void =>
    void world.api.change(resource, "web", (live) => ({
      metadata: { ...live.metadata, ...metadata },
      spec: { ...live.spec, replicas },
    }));
  const row = async (name: string): Promise<object | undefined> =>
    (await world.store.readIndex({ rows: [{ resource: "pods", key: `shop/${name}` }] })).rows[0]?.row;
  /** What the next run would wait for. Takes the key, so it comes last. */
  const pending = async (): Promise<readonly object[]> => {
    await world.clock.advance(5_000); // past the back-off, before any deadline
    const key = "shop/web";
    await world.store.add("epoch-1", controller, key, 0);
    const take = await world.store.take({ epoch: "epoch-1", controller, key, token: "next" }, { uid: "o-1" });
    return take.kind === "ok" ? take.snapshot.intents.filter(({ state }) => state === "pending") : [take];
  };

  beforeEach(async () => {
    world = await World.create({ controller });
    const { spec, ...rest } = replicaSet({ uid: "o-1", replicas: 1 });
    world.api.put(resource, { ...rest, spec: { ...spec, ...(kind === "ReplicationController" && { selector: { app: "web" } }) } });
    for (const name of ["a", "b"]) world.api.put("pods", pod({ name, owner, phase: name === "a" ? "Pending" : "Running" }));
    await world.stream();
  });

  describe("reads its owner live first", () => {
    it("once, and deletes the version that was chosen", async () => {
      const { uid, resourceVersion } = world.api.find("pods", "a").metadata;
      await world.sync();
      expect(sent()).toEqual(["get web", "delete a"]);
      expect(world.api.calls.find(({ verb }) => verb === "delete")?.body).toEqual({ uid, resourceVersion });
    });

    it("once in a run that adopts, too", async () => {
      world.api.put("pods", pod({ name: "orphan" }));
      await world.stream();
      await world.sync();
      expect(sent().filter((call) => call.startsWith("get"))).toEqual(["get web"]);
      expect(world.api.writes.filter((write) => write === "delete pods")).toHaveLength(2);
    });

    const table: { name: string; spoil: () => void; queuedInMs?: number }[] = [
      { name: "gone: nothing more", spoil: () => world.api.remove(resource, "web") },
      { name: "another one of that name: nothing more", spoil: () => resize(1, { uid: "o-2" }) },
      { name: "of another generation: runs again at once", spoil: () => resize(1, { generation: 2 }), queuedInMs: 0 },
      { name: "of another size: runs again at once", spoil: () => resize(2), queuedInMs: 0 },
      {
        name: "of another size, at a version older than the cached one: runs again in a second, the cache has to change first",
        spoil: () => world.api.restore(resource, "web", "1", ({ spec }) => ({ spec: { ...spec, replicas: 2 } })),
        queuedInMs: 1_000,
      },
      {
        name: "being deleted: its pods are the garbage collector's",
        spoil: () => resize(1, { deletionTimestamp: "2026-03-01T10:00:00Z" }),
      },
    ];
    it.each(table)("$name", async ({ spoil, queuedInMs }) => {
      spoil();
      await world.sync();
      expect(world.api.writes).not.toContain("delete pods");
      expect(world.storeCalls).not.toContain("registerIntents");
      expect(await world.failures()).toBe(0);
      if (queuedInMs !== undefined) expect(await world.queuedInMs()).toBe(queuedInMs);
    });

    it("of another size: the next run decides on it", async () => {
      resize(2);
      await world.sync();
      await world.ring();
      expect(world.api.writes).toEqual([`patch ${resource}/status`]);
    });

    it("that cannot be read: the sync fails, and nothing was registered", async () => {
      world.api.script = ({ verb }) => (verb === "get" ? "never" : undefined);
      await world.sync();
      expect(world.api.writes).toEqual([]);
      expect(world.storeCalls).not.toContain("registerIntents");
      expect(await world.failures()).toBe(1);
    });
  });

  describe("whose chosen pod has changed", () => {
    it("and still is its own: deletes it as it stands now, with one write-through for all", async () => {
      touch("a");
      world.storeCalls.length = 0;
      await world.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a", "delete a"]);
      expect(world.api.find("pods", "a").metadata.deletionTimestamp).toBeDefined();
      expect(world.api.events).toEqual(["Normal SuccessfulDelete Deleted pod: a"]);
      expect(world.storeCalls).toEqual(["take", "take", "registerIntents", "writeThrough", "writeThrough", "done"]);
      expect(world.logged).toEqual([]);
    });

    const foreign = (change: object) => [{ apiVersion: "apps/v1", kind, name: "web", uid: "o-1", controller: true, ...change }];
    const skipped: { name: string; spoil: (api: FakeApi) => void; reason: string; gone?: boolean }[] = [
      { name: "gone", spoil: (api) => api.remove("pods", "a"), reason: "gone", gone: true },
      {
        name: "replaced",
        spoil: (api) => (api.remove("pods", "a"), api.put("pods", pod({ name: "a", owner }))),
        reason: "another pod has its name",
      },
      { name: "released", spoil: () => touch("a", { ownerReferences: [] }), reason: "controlled by somebody else" },
      {
        name: "of another uid's",
        spoil: () => touch("a", { ownerReferences: foreign({ uid: "x" }) }),
        reason: "controlled by somebody else",
      },
      {
        name: "of another name's",
        spoil: () => touch("a", { ownerReferences: foreign({ name: "x" }) }),
        reason: "controlled by somebody else",
      },
      {
        name: "of another kind's",
        spoil: () => touch("a", { ownerReferences: foreign({ kind: "Job" }) }),
        reason: "controlled by somebody else",
      },
      {
        name: "being deleted",
        spoil: () => touch("a", { deletionTimestamp: "2026-03-01T09:59:59Z" }),
        reason: "being deleted already",
      },
    ];
    it.each(skipped)("and is $name: skips it with one line, no Event and no failure", async ({ spoil, reason, gone = false }) => {
      // The first answer is the precondition's, also for what is gone by the time of the look.
      world.api.script = ({ verb, resource: of }) => (verb === "delete" && of === "pods" ? CONFLICT : undefined);
      spoil(world.api);
      const live = gone ? undefined : world.api.find("pods", "a");
      await world.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a"]);
      expect(world.logged).toEqual([`pod not deleted ${JSON.stringify({ key: "shop/web", pod: "shop/a", reason })}`]);
      expect(world.api.events).toEqual([]);
      expect(await world.failures()).toBe(0);
      expect(await row("a")).toMatchObject(gone ? { gone } : { gone, rv: live?.metadata.resourceVersion });
      expect(await pending()).toEqual([]);
    });
  });

  describe("and is answered with a conflict", () => {
    /** The first DELETE and those after it, by number. */
    const deletes =
      (answer: (nth: number) => ReturnType<Script>): Script =>
      ({ verb, resource: of }, nth) =>
        verb === "delete" && of === "pods" ? answer(nth) : undefined;
    const refused = (message: string) => ({
      events: [`Warning FailedDelete Error deleting: ${message}`],
      error: `unable to delete pods: ${message}`,
      pending: 0,
      gone: false,
    });
    const table: {
      name: string;
      second: ReturnType<Script>;
      want: { events: string[]; error?: string; pending: number; gone: boolean };
    }[] = [
      { name: "done", second: undefined, want: { events: ["Normal SuccessfulDelete Deleted pod: a"], pending: 0, gone: false } },
      { name: "gone", second: refusal(404, "NotFound", "no"), want: { events: [], pending: 0, gone: true } },
      { name: "a conflict again: refused", second: CONFLICT, want: refused("not now") },
      { name: "forbidden: refused", second: refusal(403, "Forbidden", "no"), want: refused("no") },
      { name: "not answered: pending", second: "never", want: { ...refused("no answer within 5s"), pending: 1 } },
      { name: "5xx: pending", second: refusal(500, "InternalError", "oops"), want: { ...refused("oops"), pending: 1 } },
    ];
    it.each(table)("the second try is $name", async ({ second, want }) => {
      world.api.script = deletes((nth) => (nth === 1 ? CONFLICT : second));
      await world.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a", "delete a"]);
      expect(world.api.events).toEqual(want.events);
      expect(await row("a")).toMatchObject({ gone: want.gone });
      expect(await world.failures()).toBe(want.error === undefined ? 0 : 1);
      const { conditions = [] } = world.api.find(resource, "web").status as {
        readonly conditions?: readonly { readonly message: string }[];
      };
      expect(conditions.map(({ message }) => message)).toEqual(want.error === undefined ? [] : [want.error]);
      expect(await pending()).toHaveLength(want.pending);
    });

    it("and the look is not answered: refused, for nothing was deleted", async () => {
      world.api.script = ({ verb, name }) =>
        name !== "a" ? undefined : verb === "delete" ? CONFLICT : verb === "get" ? "never" : undefined;
      await world.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a"]);
      expect(world.api.events).toEqual(["Warning FailedDelete Error deleting: not now"]);
      expect(await row("a")).toMatchObject({ gone: false });
      expect(await pending()).toEqual([]);
    });

    it("and the lease ends before the second try: nothing more is sent, and nothing is left pending", async () => {
      world.invocationMs = WRITE_MARGIN_MS + 4_000; // the second try would begin after 4.5 s
      world.api.script = ({ verb, name }) => {
        if (verb === "get" && name === "a") world.invocationMs = undefined;
        return verb === "delete" ? CONFLICT : undefined;
      };
      world.api.latencyMs = 1_500;
      await world.sync();
      expect(sent()).toEqual(["get web", "delete a", "get a"]);
      expect(world.api.events).toEqual([]);
      expect(await world.failures()).toBe(1);
      expect(await pending()).toEqual([]);
    });
  });

  it("after a lost answer: whoever has the name by then is looked up, left alone and not taken for gone", async () => {
    world.api.graceful = false;
    world.api.script = ({ verb, resource: of }) => (verb === "delete" && of === "pods" ? "lost" : undefined);
    await world.sync();
    world.api.script = () => undefined;
    const other = world.api.put("pods", pod({ name: "a", owner: { name: "other", uid: "x" } }));
    await world.clock.advance(20_000);
    await world.ring(); // recovers
    await world.ring();
    expect(await row("a")).toMatchObject({ gone: false, uid: other.metadata.uid });
    expect(world.api.writes.filter((write) => write === "delete pods")).toHaveLength(1);
    expect(await pending()).toEqual([]);
  });

  it("in shadow: decides, and reads nothing", async () => {
    const { api } = world;
    const shadow = await World.create({ controller, mode: "shadow" });
    for (const { resource: of, object } of api.log) shadow.api.put(of, object);
    await shadow.stream();
    await shadow.sync();
    expect(shadow.traced.flatMap((line) => (line.kind === "decided" ? [line.write.kind] : []))).toEqual(["DeletePod"]);
    expect(shadow.api.calls).toEqual([]);
  });

  it("all at once: 500 stale rows cost 500 looks and one write-through", async () => {
    resize(0, { generation: 2 });
    for (let i = 0; i < 498; i++) world.api.put("pods", pod({ name: `p${i}`, owner }));
    await world.stream();
    for (const { metadata } of world.pods) touch(metadata.name);
    world.storeCalls.length = 0;
    await world.sync();
    expect(sent().filter((call) => call.startsWith("get "))).toHaveLength(501);
    expect(sent().filter((call) => call.startsWith("delete "))).toHaveLength(1_000);
    expect(world.pods.every(({ metadata }) => metadata.deletionTimestamp !== undefined)).toBe(true);
    expect(world.storeCalls.filter((verb) => verb === "writeThrough")).toHaveLength(2);
  });
});
