/** Catches a function that crashes on a doorbell it cannot read, works for a foreign cluster, or loses a record of Redis' outage. */
import type { Context, SQSEvent } from "aws-lambda";
import { expect, it } from "vitest";

import { createEmfMetrics } from "../../../shared/adapters/emf/emf.ts";
import { createSweep } from "../../../functions/sweep/handler.ts";
import { createVirtualClock } from "../../../shared/adapters/memory/clock.ts";
import { createSeededRandom } from "../../../shared/adapters/memory/random.ts";
import { createDigester } from "../../../shared/api/digest.ts";
import { createSyncFunction } from "../../../shared/lambda/sync-function.ts";
import type { ClusterWiring, FunctionWiring } from "../../../shared/lambda/wiring.ts";
import { invocationContext, sqsEvent } from "../../../shared/local/invocation.ts";
import type { Doorbell } from "../../../shared/ports/doorbells.ts";
import type { TakeResult } from "../../../shared/ports/store.ts";
import { recordingLog } from "../recording-log.ts";

const CID = "5d3f00aa11bb";

function wiring(store: object) {
  const log = recordingLog();
  const rung: Doorbell[] = [];
  const cluster = {
    store,
    doorbells: { ring: (bells: readonly Doorbell[]) => Promise.resolve(void rung.push(...bells)) },
    reader: {},
    gateway: () => ({}),
    // Only what these functions call; anything else would be a TypeError.
  } as unknown as ClusterWiring;
  const wired: FunctionWiring = {
    clock: createVirtualClock(1_000_000),
    random: createSeededRandom(1),
    log,
    digester: createDigester("0123456789abcdef"),
    cluster: (cid) => (cid === CID ? cluster : undefined),
    clusters: [CID],
  };
  return { wired, log, rung };
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

it("acknowledges by name what it cannot read and what is for someone else, and works on the rest", async () => {
  const taken: string[] = [];
  const { wired, log } = wiring({
    take: ({ key }: { key: string }): Promise<TakeResult> => (taken.push(key), Promise.resolve({ kind: "empty" })),
  });
  const handler = createSyncFunction(wired, "replicaset", () => expect.unreachable("nothing was taken"));
  const answer = await handler(
    event("{", bell("shop/foreign", { c: "000000000000" }), bell("shop/other", { ctl: "deployment" }), bell("shop/mine")),
    context,
  );
  expect(answer).toEqual({ batchItemFailures: [] });
  expect(taken).toEqual(["shop/mine"]);
  const loud = log.lines.filter(({ level }) => level !== "debug");
  expect(loud.map(({ fields }) => fields["messageId"])).toEqual(["m0", "m1", "m2"]);
});

it("leaves only those records in the queue whose Store was out of reach", async () => {
  const { wired } = wiring({
    take: ({ key }: { key: string }): Promise<TakeResult> =>
      key === "shop/a" ? Promise.reject(new Error("redis is away")) : Promise.resolve({ kind: "busy" }),
  });
  const handler = createSyncFunction(wired, "replicaset", () => expect.unreachable("nothing was taken"));
  expect(await handler(event(bell("shop/a"), bell("shop/b")), context)).toEqual({ batchItemFailures: [{ itemIdentifier: "m0" }] });
});

it("a sync may write until the invocation's own end, less a margin", async () => {
  const store = {
    take: (): Promise<TakeResult> =>
      Promise.resolve({ kind: "ok", snapshot: { dependents: [], orphans: [], intents: [], failures: 0 }, leaseUntilMs: 1_015_000 }),
    renew: () => Promise.resolve(1_015_000),
    done: () => Promise.resolve({ kind: "done", failures: 0 }),
  };
  const { wired } = wiring(store);
  const seen: boolean[] = [];
  const handler = createSyncFunction(wired, "replicaset", ({ mayWrite }) => (seen.push(mayWrite()), Promise.resolve({ kind: "done" })));
  await handler(event(bell("shop/a")), context);
  await handler(event(bell("shop/a")), { ...context, getRemainingTimeInMillis: () => 5_999 });
  expect(seen).toEqual([true, false]);
});

it("sweeps pass after pass until nothing is due, and nothing at all without an epoch", async () => {
  const passes = [["a", "b"], ["c"], []].map((keys) =>
    keys.map((key): Doorbell => ({ controller: "replicaset", key, epoch: "e1", delayMs: 0 })),
  );
  const { wired, rung } = wiring({ epoch: () => Promise.resolve({ epoch: "e1" }), sweep: () => Promise.resolve(passes.shift() ?? []) });
  expect(await createSweep(wired)()).toEqual({ rung: 3 });
  expect(rung.map(({ key }) => key)).toEqual(["a", "b", "c"]);
  const empty = wiring({ epoch: () => Promise.resolve(undefined) });
  expect(await createSweep(empty.wired)()).toEqual({ rung: 0 });
});

it("a sweep tells which gates are open, without an epoch, too: an alarm listens", async () => {
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
