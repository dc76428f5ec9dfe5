/** Routing of queue records to clusters. Catches: text from a queue that selects a cluster without a signature of that cluster. */
import type { Context, SQSRecord } from "aws-lambda";
import { it as base, expect } from "vitest";

import { routeRecords } from "../../../../shared/controllers/lambda/clusters/route-records.ts";
import type { ClusterFunction, RouterPorts } from "../../../../shared/controllers/lambda/clusters/route-records.ts";
import { joinHeartbeats } from "../../../../shared/controllers/cache/messages/heartbeats.ts";
import { createSystemClock } from "../../../../shared/base/system/clock.ts";
import { doorbellParts } from "../../../../shared/store/ports/doorbells.ts";
import { createSigner } from "../../../../shared/store/signer.ts";
import { createSqsDoorbells } from "../../../../shared/store/sqs/doorbells.ts";
import { silentLog } from "../../../support/silent-log.ts";

const SECRETS = ["a mac key of this test"];
const [BLUE, RED, NEW] = ["b", "e", "a"].map((digit) => digit.repeat(32)) as [string, string, string]; // three hexadecimal digits
const bell = (c: string): { readonly c: string; readonly ctl: string; readonly e: string; readonly k: string } => ({
  ...{ c, ctl: "deployment", e: "e1", k: "shop/web" },
});
const signedBell = (c: string, signer = c, more: object = {}): string => {
  const m = createSigner(SECRETS, signer).sign("d", doorbellParts(bell(c)));
  return JSON.stringify({ v: 1, ...bell(c), m, ...more });
};

interface Harness {
  /** The bodies that each cluster's handler received, in order. */
  readonly handled: (readonly [cid: string, bodies: readonly string[]])[];
  readonly postponed: string[];
  /** Counts by `cluster kind`. */
  readonly load: Record<string, number>;
  /** What the router asked the directory for: kind and cluster. */
  readonly asked: string[];
  readonly states: Record<string, "active" | "paused">;
  /** Clusters of which the directory cannot tell anything. */
  readonly unknown: Set<string>;
  /** Warnings: cluster, count, message. */
  readonly lines: string[];
  nowMs: number;
  /** The next calls of handlers wait for this. */
  gate: Promise<unknown>;
  readonly failing: Set<string>;
  /** Receipts that became visible early, with the seconds. */
  readonly visible: string[];
  /** The message groups that handlers received. */
  readonly groups: (string | undefined)[];
  route(records: RouterPorts["records"], ...bodies: readonly string[]): Promise<readonly string[]>;
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const functionOf: RouterPorts["functionOf"] = async (cid, { kind }) => {
      harness.asked.push(`${kind} ${cid}`);
      if (harness.unknown.has(cid)) throw new Error("the directory does not answer");
      const state = await Promise.resolve(harness.states[cid]);
      if (state === "paused" || state === undefined) return state ?? "missing";
      return functions(cid);
    };
    const functions = (cid: string): ClusterFunction => ({
      signer: createSigner(SECRETS, cid),
      async handler({ Records }) {
        harness.handled.push([cid, Records.map(({ body }) => body)]);
        harness.groups.push(...Records.map(({ attributes }) => attributes.MessageGroupId));
        await harness.gate;
        if (harness.failing.has(cid)) throw new Error("it failed");
        return {
          batchItemFailures: Records.filter(({ body }) => body.includes("fails")).map((each) => ({ itemIdentifier: each.messageId })),
        };
      },
    });
    const routers = new Map(
      (["deltas", "doorbells"] as const).map((records) => [
        records,
        routeRecords({
          ...{ records, functionOf, clock: { ...createSystemClock(), now: () => harness.nowMs } },
          source: {
            setVisibility: async (receipts, seconds) =>
              void (await Promise.resolve(harness.visible.push(...receipts.map((receipt) => `${receipt} ${seconds}`)))),
          },
          log: {
            ...silentLog,
            warn: (message, fields) => void harness.lines.push(`${fields?.["cluster"]} ${fields?.["count"]}: ${message}`),
          },
          share: { most: 2, postpone: async (_cid, bodies) => void (await Promise.resolve(harness.postponed.push(...bodies))) },
          onLoad: (cid, kind, by) => void (harness.load[`${cid} ${kind}`] = (harness.load[`${cid} ${kind}`] ?? 0) + by),
        }),
      ]),
    );
    const harness: Harness = {
      ...{
        handled: [],
        postponed: [],
        load: {},
        asked: [],
        lines: [],
        nowMs: 0,
        unknown: new Set(),
        gate: Promise.resolve(),
        failing: new Set(),
        groups: [],
        visible: [],
      },
      states: { [BLUE]: "active", [RED]: "active" },
      async route(records, ...bodies) {
        const Records = bodies.map((body, i) => ({
          messageId: `m${i}`,
          receiptHandle: `r${i}`,
          body,
          attributes: { MessageGroupId: "g" },
        })) as SQSRecord[]; // the router reads only these fields
        const answer = await routers.get(records)?.({ Records }, { getRemainingTimeInMillis: () => 30_000 } as Context);
        return (answer?.batchItemFailures ?? []).map(({ itemIdentifier }) => itemIdentifier);
      },
    };
    await use(harness);
  },
});

it("routes the doorbells of createSqsDoorbells to the cluster that signed them", async ({ harness }) => {
  const bodies: string[] = [];
  const call = async (_: string, { Entries }: { readonly Entries: readonly { readonly MessageBody: string }[] }) => {
    bodies.push(...Entries.map(({ MessageBody }) => MessageBody));
    return await Promise.resolve({});
  };
  for (const cid of [BLUE, RED])
    await createSqsDoorbells({ call } as never, { queueUrls: { deployment: "q" } as never, cid, signer: createSigner(SECRETS, cid) }).ring([
      { controller: "deployment", key: "shop/web" as never, epoch: "e1", uid: "u", delayMs: 0 },
    ]);
  expect(await harness.route("doorbells", ...bodies)).toEqual([]);
  expect(harness.handled.map(([cid, own]) => [cid, own.length])).toEqual([
    [BLUE, 1],
    [RED, 1],
  ]);
});

it.for([
  { name: "no signature", body: JSON.stringify({ v: 1, ...bell(BLUE) }) },
  { name: "another cluster's signature", body: signedBell(BLUE, RED) },
  { name: "another key", body: signedBell(BLUE, BLUE, { k: "shop/other" }) },
  { name: "an owner that was not signed", body: signedBell(BLUE, BLUE, { o: "o" }) },
  { name: "a signature that is not a string", body: signedBell(BLUE, BLUE, { m: {} }) },
  { name: "a field that is not a string", body: signedBell(BLUE, BLUE, { u: { length: 1 } }) },
  { name: "a body that is not JSON", body: "{" },
  { name: "the body null", body: "null" },
  { name: "an invalid cluster id", body: signedBell("__proto__") },
])("acknowledges a doorbell with $name, and no handler gets it", async ({ body }, { harness }) => {
  expect(await harness.route("doorbells", body, signedBell(RED))).toEqual([]);
  expect(harness.handled.map(([cid]) => cid)).toEqual([RED]);
});

it("routes deltas by their frame, whose MAC the handler verifies", async ({ harness }) => {
  await harness.route("deltas", `${BLUE}.sig.payload`, `${RED}.sig.payload`, "odd", `${BLUE}0.x`);
  expect(harness.handled).toEqual([
    [BLUE, [`${BLUE}.sig.payload`]],
    [RED, [`${RED}.sig.payload`]],
  ]);
});

it("RO2 drops messages of a missing cluster and doorbells of a paused one, with one line for each cluster and minute", async ({
  harness,
}) => {
  harness.states[RED] = "paused";
  const delta = `${NEW}.sig.payload`;
  for (let i = 0; i < 2; i++) {
    expect(await harness.route("deltas", delta, delta)).toEqual([]);
    expect(await harness.route("doorbells", signedBell(RED), signedBell(BLUE))).toEqual([]);
  }
  expect(harness.handled.map(([cid]) => cid)).toEqual([BLUE, BLUE]);
  const lines = [
    `${NEW} 2: cluster is not in the directory, or its kubeconfig is rejected; acknowledging its messages`,
    `${RED} 1: cluster is paused; acknowledging its doorbells, whose keys stay queued`,
  ];
  expect(harness.lines).toEqual(lines);
  harness.nowMs = 60_000;
  await harness.route("deltas", delta, delta);
  expect(harness.lines).toEqual([...lines, lines[0]]);
});

it("leaves the records of a cluster in the queue while the directory cannot be read, and handles the others", async ({ harness }) => {
  harness.unknown.add(NEW);
  expect(await harness.route("deltas", `${NEW}.sig.payload`, `${BLUE}.sig.payload`)).toEqual(["m0"]);
  expect(harness.visible, "not after the visibility timeout").toEqual(["r0 5"]);
  expect(harness.handled.map(([cid]) => cid)).toEqual([BLUE]);
});

it("reports only the failed records of the cluster that failed", async ({ harness }) => {
  harness.failing.add(RED);
  expect(await harness.route("deltas", `${BLUE}.a`, `${RED}.b`, `${BLUE}.fails`)).toEqual(["m2", "m1"]);
  expect(harness.visible, "that of m2 is its handler's").toEqual(["r1 5"]);
});

it("RO5 passes doorbells on without their message group, so that they are handled in parallel, and deltas with it", async ({ harness }) => {
  await harness.route("doorbells", signedBell(BLUE), signedBell(BLUE));
  expect(harness.groups.splice(0)).toEqual([undefined, undefined]);
  await harness.route("deltas", `${BLUE}.a`, `${BLUE}.b`);
  expect(harness.groups).toEqual(["g", "g"]);
});

it("postpones doorbells of a cluster that uses its full share of invocations, and handles those of other clusters", async ({ harness }) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  harness.gate = promise;
  const hanging = [1, 2].map(async () => await harness.route("doorbells", signedBell(BLUE)));
  expect(await Promise.race([harness.route("doorbells", signedBell(BLUE)), promise])).toEqual([]);
  expect(harness.postponed).toEqual([signedBell(BLUE)]);
  expect(harness.load).toMatchObject({ [`${BLUE} invocations`]: 2, [`${BLUE} postponed`]: 1 });
  harness.gate = Promise.resolve();
  await harness.route("doorbells", signedBell(RED));
  expect(harness.handled.map(([cid]) => cid)).toEqual([BLUE, BLUE, RED]);
  resolve();
  await Promise.all(hanging);
  await harness.route("doorbells", signedBell(BLUE));
  expect(harness.postponed).toHaveLength(1);
});

it("RO4 passes each cluster its own heartbeats, whatever another cluster's handler does", async ({ harness }) => {
  harness.failing.add(BLUE);
  const lines = [`${BLUE}.x.1`, `${RED}.x.2`, `${NEW}.x.3`, "no cluster", `${RED}.x.4`];
  expect(await harness.route("deltas", joinHeartbeats(lines), `${RED}.x.delta`)).toEqual([]);
  expect(harness.handled.toSorted()).toEqual([
    [BLUE, [joinHeartbeats([`${BLUE}.x.1`])]],
    [RED, [`${RED}.x.delta`]],
    [RED, [joinHeartbeats([`${RED}.x.2`, `${RED}.x.4`])]],
  ]);
  expect(harness.asked, "as heartbeats, for which nobody waits").toContain(`heartbeats ${NEW}`);
});
