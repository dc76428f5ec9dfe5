// Heartbeats of several clusters in one message: their format, how they are sent, and how they are applied.
import { expect, test } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { applyMessage } from "../../../shared/controllers/cache/applier.ts";
import {
  heartbeatLine,
  isHeartbeats,
  joinHeartbeats,
  openHeartbeat,
  splitHeartbeats,
} from "../../../shared/controllers/cache/messages/heartbeats.ts";
import { signBody } from "../../../shared/controllers/cache/messages/signed-body.ts";
import { createHeartbeats } from "../../../shared/controllers/cache/watcher/heartbeats.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { QueueEntry } from "../../../shared/store/ports/delta-queue.ts";
import type { Forgery, Heartbeat, Store } from "../../../shared/store/ports/store.ts";
import { testSigner } from "../../support/signer.ts";
import { recordingLog } from "../recording-log.ts";

const BEAT: Heartbeat = {
  ...{ epoch: "e1", fence: "812", sentMs: 5_000 },
  lanes: [
    { resource: "pods", lane: 0, sequence: 3, rv: "4711" },
    { resource: "pods", lane: 2, sequence: 7, rv: "4711" },
    { resource: "deployments", lane: 0, sequence: 0, rv: "0" },
  ],
};
const line = (cluster: string, beat: Heartbeat = BEAT): string => heartbeatLine(testSigner(cluster), cluster, beat);

test("HM1 a line is read as it was written, with the key of its own cluster only", () => {
  expect(openHeartbeat(line("c1"), testSigner)).toEqual({ kind: "heartbeat", cluster: "c1", heartbeat: BEAT });
  const renamed = `c2${line("c1").slice(2)}`;
  expect(openHeartbeat(renamed, testSigner)).toMatchObject({ kind: "forged", cluster: "c2" });
  expect(openHeartbeat(line("c1").replace('"3', '"4').replace("[3", "[4"), testSigner)).toMatchObject({ kind: "forged" });
  expect(openHeartbeat(line("c1"), () => undefined)).toMatchObject({ kind: "forged" });
});

test("HM1 a signed delta message is no heartbeat, and a heartbeat no delta message", () => {
  const payload = line("c1").split(".").slice(2).join(".");
  expect(openHeartbeat(signBody(testSigner("c1"), "c1", payload), testSigner)).toMatchObject({ kind: "forged" });
  expect(openHeartbeat(signBody(testSigner("c1"), "c1", payload, "h"), testSigner)).toMatchObject({ kind: "heartbeat" });
});

test.each([
  ["not JSON", "{"],
  ["another version", { v: 2, e: "e1", f: "1", t: 1, l: {} }],
  ["no epoch", { v: 1, f: "1", t: 1, l: {} }],
  ["a fence that is no version", { v: 1, e: "e1", f: "x", t: 1, l: {} }],
  ["a time that is no number", { v: 1, e: "e1", f: "1", t: "1", l: {} }],
  ["a sequence number below zero", { v: 1, e: "e1", f: "1", t: 1, l: { pods: { rv: "1", sq: [-1] } } }],
  ["a version with a leading zero", { v: 1, e: "e1", f: "1", t: 1, l: { pods: { rv: "01", sq: [1] } } }],
  ["a list", []],
])("reads no line with %s", (_, payload) => {
  const text = typeof payload === "string" ? payload : JSON.stringify(payload);
  expect(openHeartbeat(signBody(testSigner("c1"), "c1", text, "h"), testSigner)).toMatchObject({ kind: "unreadable", cluster: "c1" });
});

test("skips the lanes of a view that only a newer build knows", () => {
  const payload = { v: 1, e: "e1", f: "1", t: 1, l: { jobs: { rv: "1", sq: [1] }, pods: { rv: "2", sq: [null, 5] } } };
  expect(openHeartbeat(signBody(testSigner("c1"), "c1", JSON.stringify(payload), "h"), testSigner)).toMatchObject({
    heartbeat: { lanes: [{ resource: "pods", lane: 1, sequence: 5, rv: "2" }] },
  });
});

function applier(failing: readonly string[] = []) {
  const applied: (readonly [string, Heartbeat])[] = [];
  const forgeries: (readonly [string, Forgery])[] = [];
  const log = recordingLog();
  const cluster = (cid: string | undefined) => {
    if (cid === undefined || !["c1", "c2", "c3"].includes(cid)) return undefined;
    const store = {
      async heartbeat(beat: Heartbeat) {
        if (failing.includes(cid)) throw new Error("the Store does not answer");
        await Promise.resolve(applied.push([cid, beat]));
        return { kind: "applied", ahead: cid === "c3" ? beat.lanes.slice(0, 1) : [] };
      },
      async noteForgery(forgery: Forgery) {
        await Promise.resolve(forgeries.push([cid, forgery]));
      },
    } as unknown as Store; // heartbeats call nothing else
    return { store, signer: testSigner(cid), doorbells: { ring: async () => {} }, reader: undefined as never };
  };
  const ports = {
    cluster,
    clusters: ["c1", "c2", "c3"],
    registry: CORE_CACHE,
    digester: createDigester("k"),
    clock: createVirtualClock(0),
    log,
  };
  return {
    applied,
    forgeries,
    log,
    apply: async (lines: readonly string[]) => await applyMessage(ports, { id: "m1", body: joinHeartbeats(lines) }),
  };
}

test("AH1 each line is applied by its cluster, and a cluster that fails delays no other", async () => {
  const { applied, log, apply } = applier(["c1"]);
  expect(await apply([line("c1"), line("c2"), line("c3")])).toEqual({ kind: "ack" });
  expect(applied).toEqual([
    ["c2", BEAT],
    ["c3", BEAT],
  ]);
  expect(log.lines.map(({ message }) => message).toSorted()).toEqual([
    "failed to apply a heartbeat; the next one follows",
    "messages before a heartbeat are missing",
  ]);
});

test("AH2 reports one forged line of a message, and applies the others", async () => {
  const { applied, forgeries, apply } = applier();
  const forged = heartbeatLine(testSigner("c1"), "c2", BEAT);
  expect(await apply([forged, forged, line("c1"), "", "x".repeat(1_000)])).toEqual({ kind: "ack" });
  expect(applied).toEqual([["c1", BEAT]]);
  expect(forgeries).toMatchObject([["c2", { messageId: "m1", where: "delta queue" }]]);
});

function sender() {
  const clock = createVirtualClock(0);
  const sent: QueueEntry[] = [];
  const log = recordingLog();
  let isAway = false;
  const queue = {
    async send(entries: readonly QueueEntry[]) {
      if (isAway) throw new Error("the queue does not answer");
      await Promise.resolve(sent.push(...entries));
      return { failed: [] };
    },
  };
  const heartbeats = createHeartbeats({ queue, clock, random: { next: () => 0.5 }, log });
  return { clock, sent, log, heartbeats, away: (value: boolean) => void (isAway = value) };
}

test("HT1 the heartbeats of 5 s share one message; the messages have different ids", async () => {
  const { clock, sent, heartbeats } = sender();
  heartbeats.add("a", () => true);
  await clock.advance(4_999);
  heartbeats.add("b", () => true);
  expect(sent).toEqual([]);
  await clock.advance(1);
  heartbeats.add("c", () => true);
  await clock.advance(5_000);
  expect(sent.map(({ body }) => [isHeartbeats(body), splitHeartbeats(body)])).toEqual([
    [true, ["a", "b"]],
    [true, ["c"]],
  ]);
  expect(new Set(sent.map(({ id }) => id)).size).toBe(2);
  expect(new Set(sent.map(({ group }) => group)).size).toBe(1);
});

test("HT1 a full message leaves at once", async () => {
  const { clock, sent, heartbeats } = sender();
  for (let i = 0; i < 150; i++) heartbeats.add(String(i), () => true);
  await clock.advance(1);
  expect(sent.map(({ body }) => splitHeartbeats(body).length)).toEqual([100]);
  await clock.advance(5_000);
  expect(sent.map(({ body }) => splitHeartbeats(body).length)).toEqual([100, 50]);
});

test("HT2 sends nothing of a leader that has lost its Lease meanwhile", async () => {
  const { clock, sent, heartbeats } = sender();
  heartbeats.add("a", () => false);
  await clock.advance(5_000);
  expect(sent).toEqual([]);
  heartbeats.add("b", () => true);
  heartbeats.add("c", () => false);
  await clock.advance(5_000);
  expect(sent.map(({ body }) => splitHeartbeats(body))).toEqual([["b"]]);
});

test("HT3 a failed message is reported and not sent again", async () => {
  const { clock, sent, log, heartbeats, away } = sender();
  away(true);
  heartbeats.add("a", () => true);
  await clock.advance(5_000);
  away(false);
  heartbeats.add("b", () => true);
  await clock.advance(60_000);
  expect(sent.map(({ body }) => splitHeartbeats(body))).toEqual([["b"]]);
  expect(log.lines).toMatchObject([{ message: "heartbeats not sent; the next ones follow" }]);
});
