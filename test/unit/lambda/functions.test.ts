/** The functions: unreadable doorbells, other clusters, and outages of Redis. */
import type { Context, SQSEvent } from "aws-lambda";
import { describe, expect, it } from "vitest";

import { createEmfMetrics } from "../../../shared/base/emf/emf.ts";
import { createSweep } from "../../../functions/sweep/handler.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import { inSession } from "../../../shared/controllers/kit/sync/in-session.ts";
import type { SyncHandler } from "../../../shared/controllers/kit/sync/session.ts";
import { createSyncFunction } from "../../../shared/controllers/lambda/sync-function.ts";
import { REGISTRY } from "../../../shared/controllers/registry/registry.ts";
import type { ClusterWiring, FunctionWiring } from "../../../shared/controllers/lambda/wiring.ts";
import { invocationContext, sqsEvent } from "../../../shared/local/invocation.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import type { Taken, TakeResult } from "../../../shared/store/ports/store.ts";
import { recordingLog } from "../recording-log.ts";

const CID = "5d3f00aa11bb";

function wiring(store: object) {
  const log = recordingLog();
  const rung: Doorbell[] = [];
  const gateways: string[] = [];
  const cluster = {
    store,
    doorbells: { ring: (bells: readonly Doorbell[]) => Promise.resolve(void rung.push(...bells)) },
    reader: {},
    gateway: (controller: string) => (gateways.push(controller), {}),
    // Contains only the members that these functions use; using any other one is a TypeError.
  } as unknown as ClusterWiring;
  const wired: FunctionWiring = {
    clock: createVirtualClock(1_000_000),
    random: createSeededRandom(1),
    log,
    digester: createDigester("0123456789abcdef"),
    cluster: (cid) => (cid === CID ? cluster : undefined),
    clusters: [CID],
  };
  return { wired, log, rung, gateways };
}

function event(...bodies: readonly (object | string)[]): SQSEvent {
  const text = (body: object | string): string => (typeof body === "string" ? body : JSON.stringify(body));
  return sqsEvent(
    bodies.map((body, index) => ({ messageId: `m${index}`, receipt: `r${index}`, body: text(body), receiveCount: 1, sentAtMs: 0 })),
    "arn:aws:sqs:eu-central-1:0:q",
  );
}

const context: Context = invocationContext({ functionName: "f", requestId: "1", remainingMs: () => 60_000 });
const bell = (key: string, more: object = {}): object => ({ v: 1, c: CID, ctl: "replicaset", e: "e1", k: key, ...more });

/** The replicaset function, which also runs the Deployment controller. */
function syncedBy(sync: SyncHandler, deployment: SyncHandler = sync): Parameters<typeof createSyncFunction>[3] {
  return { replicaset: inSession(sync), deployment: inSession(deployment) };
}

it("acknowledges and logs unreadable records and records of other clusters, and processes the rest", async () => {
  const taken: string[] = [];
  const { wired, log } = wiring({
    take: ({ key }: { key: string }): Promise<TakeResult> => (taken.push(key), Promise.resolve({ kind: "empty" })),
  });
  const handler = createSyncFunction(
    wired,
    REGISTRY,
    "replicaset",
    syncedBy(() => expect.unreachable("nothing was taken")),
  );
  const answer = await handler(
    event("{", bell("shop/foreign", { c: "000000000000" }), bell("shop/other", { ctl: "deployment" }), bell("shop/mine")),
    context,
  );
  expect(answer).toEqual({ batchItemFailures: [] });
  expect(taken).toEqual(["shop/mine"]);
  const loud = log.lines.filter(({ level }) => level !== "debug");
  expect(loud.map(({ fields }) => fields["messageId"])).toEqual(["m0", "m1", "m2"]);
});

it("reports only those records as failed for which the Store was unavailable", async () => {
  const { wired } = wiring({
    take: ({ key }: { key: string }): Promise<TakeResult> =>
      key === "shop/a" ? Promise.reject(new Error("redis is unavailable")) : Promise.resolve({ kind: "busy" }),
  });
  const handler = createSyncFunction(
    wired,
    REGISTRY,
    "replicaset",
    syncedBy(() => expect.unreachable("nothing was taken")),
  );
  expect(await handler(event(bell("shop/a"), bell("shop/b")), context)).toEqual({ batchItemFailures: [{ itemIdentifier: "m0" }] });
});

it("a sync may write until a margin before the end of the invocation", async () => {
  const store = {
    take: (): Promise<TakeResult> =>
      Promise.resolve({ kind: "ok", snapshot: { dependents: [], orphans: [], intents: [], failures: 0 }, leaseUntilMs: 1_015_000 }),
    renew: () => Promise.resolve(1_015_000),
    done: () => Promise.resolve({ kind: "done", failures: 0 }),
  };
  const { wired } = wiring(store);
  const seen: boolean[] = [];
  const handler = createSyncFunction(
    wired,
    REGISTRY,
    "replicaset",
    syncedBy(({ mayWrite }) => (seen.push(mayWrite()), Promise.resolve({ kind: "done" }))),
  );
  await handler(event(bell("shop/a")), context);
  await handler(event(bell("shop/a")), { ...context, getRemainingTimeInMillis: () => 5_999 });
  expect(seen).toEqual([true, false]);
});

describe("a key that a run makes due", () => {
  /** Every key can be taken; `due` becomes due when the ReplicaSet's run ends. */
  const ends = (due: Doorbell) => {
    const taken: string[] = [];
    const store = {
      take: ({ controller, key }: Taken): Promise<TakeResult> => {
        taken.push(`${controller} ${key}`);
        return Promise.resolve({
          kind: "ok",
          snapshot: { dependents: [], orphans: [], intents: [], failures: 0 },
          leaseUntilMs: 1_015_000,
        });
      },
      renew: () => Promise.resolve(1_015_000),
      done: ({ key }: Taken) => Promise.resolve({ kind: "done", failures: 0, ...(key === "shop/a" && { bell: due }) }),
    };
    return { ...wiring(store), taken };
  };
  const sync: SyncHandler = () => Promise.resolve({ kind: "done" });
  const due: Doorbell = { controller: "deployment", key: "shop/web", epoch: "e1", delayMs: 0 };

  it("a due key is synced in the same invocation, with the code and the API client of its own controller", async () => {
    const { wired, rung, taken, gateways } = ends(due);
    const seen: string[] = [];
    const syncs = syncedBy(sync, ({ key }) => (seen.push(key), Promise.resolve({ kind: "done" })));
    await createSyncFunction(wired, REGISTRY, "replicaset", syncs)(event(bell("shop/a")), context);
    expect({ taken, seen, rung }).toEqual({ taken: ["replicaset shop/a", "deployment shop/web"], seen: ["shop/web"], rung: [] });
    expect(gateways).toEqual(["replicaset", "deployment"]);
  });

  it("a due key gets a doorbell if the function does not contain its controller's code", async () => {
    const foreign: Doorbell = { ...due, controller: "replicationcontroller" };
    const { wired, rung, taken } = ends(foreign);
    await createSyncFunction(wired, REGISTRY, "replicaset", syncedBy(sync))(event(bell("shop/a")), context);
    expect({ taken, rung }).toEqual({ taken: ["replicaset shop/a"], rung: [foreign] });
  });
});

it("rejects code of a controller that the registry does not list for the function", () => {
  const { wired } = wiring({});
  const replicaset = { run: () => expect.unreachable() };
  expect(() => createSyncFunction(wired, REGISTRY, "replicaset", { replicaset })).toThrow(
    "the function of replicaset receives keys of replicaset; the registry lists deployment, replicaset",
  );
  const alone = { ...REGISTRY, controllers: REGISTRY.controllers.map((entry) => ({ ...entry, followUps: [] })) };
  expect(() => createSyncFunction(wired, alone, "replicaset", { replicaset })).not.toThrow();
});

it("repeats the sweep until no key is due, and sends no doorbell without an epoch", async () => {
  const passes = [["a", "b"], ["c"], []].map((keys) =>
    keys.map((key): Doorbell => ({ controller: "replicaset", key, epoch: "e1", delayMs: 0 })),
  );
  const { wired, rung } = wiring({ epoch: () => Promise.resolve({ epoch: "e1" }), sweep: () => Promise.resolve(passes.shift() ?? []) });
  expect(await createSweep(wired)()).toEqual({ rung: 3 });
  expect(rung.map(({ key }) => key)).toEqual(["a", "b", "c"]);
  const empty = wiring({ epoch: () => Promise.resolve(undefined) });
  expect(await createSweep(empty.wired)()).toEqual({ rung: 0 });
});

it("a sweep publishes which gates are open, even without an epoch", async () => {
  const gate = (controller: string) => Promise.resolve(controller === "deployment" ? { open: true } : { open: false, reason: "INIT" });
  const { wired } = wiring({ epoch: () => Promise.resolve(undefined), gate });
  const lines: string[] = [];
  const metrics = createEmfMetrics({ namespace: "n", dimensions: { function: "sweep" }, now: () => 0, write: (line) => lines.push(line) });
  await createSweep({ ...wired, metrics })();
  const told = lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>).filter((line) => "deltaloop_gate_open" in line);
  expect(Object.fromEntries(told.map((line) => [line["controller"], line["deltaloop_gate_open"]]))).toEqual({
    deployment: 1,
    replicaset: 0,
    replicationcontroller: 0,
  });
});

it("[informer T121] a sweep publishes which gates are open and then fails if the queue is unavailable", async () => {
  const { wired } = wiring({
    epoch: () => Promise.resolve({ epoch: "e1" }),
    sweep: () => Promise.resolve([{ controller: "replicaset", key: "shop/web", epoch: "e1", delayMs: 0 }]),
    gate: () => Promise.resolve({ open: true }),
  });
  const away = {
    ...wired.cluster(CID),
    doorbells: { ring: () => Promise.reject(new Error("SQS is unavailable")) },
  } as unknown as ClusterWiring;
  const lines: string[] = [];
  const metrics = createEmfMetrics({ namespace: "n", dimensions: { function: "sweep" }, now: () => 0, write: (line) => lines.push(line) });
  const sweep = createSweep({ ...wired, cluster: () => away, metrics });
  await expect(sweep()).rejects.toThrow("SQS is unavailable");
  expect(lines.filter((line) => line.includes('"deltaloop_gate_open":1'))).toHaveLength(CONTROLLERS.length);
  // No sweep has run, so no count is reported.
  expect(lines.join()).not.toContain("deltaloop_sweeper_rings_total");
});

it("sweeps every cluster of a directory although one fails, and counts a gate as open if it is in all of them", async () => {
  const bells = [{ controller: "replicaset", key: "shop/web", epoch: "e1", delayMs: 0 }];
  const clusterOf = (isOpen: boolean, sweep: () => Promise<unknown>) =>
    wiring({
      epoch: () => Promise.resolve({ epoch: "e1" }),
      sweep: async () => (isOpen ? await sweep() : []),
      gate: (controller: string) => Promise.resolve({ open: isOpen || controller === "deployment" }),
    });
  const due = [bells, []];
  const clusters = new Map([
    ["broken", clusterOf(true, () => Promise.reject(new Error("its keys are spoilt")))],
    ["due", clusterOf(true, () => Promise.resolve(due.shift() ?? []))],
    ["shut", clusterOf(false, () => Promise.resolve([]))],
  ]);
  const { wired } = wiring({});
  const lines: string[] = [];
  const metrics = createEmfMetrics({ namespace: "n", dimensions: { function: "sweep" }, now: () => 0, write: (line) => lines.push(line) });
  const cluster = (cid: string | undefined) => clusters.get(cid ?? "")?.wired.cluster(CID);
  await expect(createSweep({ ...wired, clusters: [...clusters.keys()], cluster, metrics })()).rejects.toThrow("its keys are spoilt");
  expect(clusters.get("due")?.rung).toEqual(bells);
  const told = lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>).filter((line) => "deltaloop_gate_open" in line);
  expect(Object.fromEntries(told.map((line) => [line["controller"], line["deltaloop_gate_open"]]))).toEqual({
    deployment: 1,
    replicaset: 0,
    replicationcontroller: 0,
  });
});
