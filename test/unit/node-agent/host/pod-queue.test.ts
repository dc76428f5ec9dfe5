/**
 * The node's queue under a virtual clock. Catches: two concurrent iterations of one pod, a message that arrives during an iteration and is
 * lost, an iteration per message where one would suffice, more concurrent iterations than allowed, a failed iteration that is lost or
 * retried too early or forever, and a hanging iteration that never releases its pod or its slot.
 */
import { expect, test } from "vitest";

import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { PodQueue } from "../../../../shared/node-agent/host/pod-queue.ts";
import { recordingLog } from "../../recording-log.ts";

const SECONDS = 1_000;

/** A queue whose iterations end when the test says so. */
function started({ concurrencyMax = 10 } = {}) {
  const clock = createVirtualClock(0);
  const log = recordingLog();
  const queue = new PodQueue({ name: "pod-sync", concurrencyMax, clock, log });
  const begun: { readonly uid: string; readonly reason: string; readonly atMs: number }[] = [];
  const open = new Map<string, PromiseWithResolvers<void>>();
  const start = (): void =>
    queue.start(async ({ uid, reason }) => {
      begun.push({ uid, reason, atMs: clock.now() });
      const end = Promise.withResolvers<void>();
      open.set(uid, end);
      await end.promise;
    });
  start();
  return {
    queue,
    clock,
    log,
    begun,
    send: async (...messages: readonly (readonly [uid: string, reason: string])[]) => {
      for (const [uid, reason] of messages) queue.send({ uid, reason });
      await clock.advance(0);
    },
    end: async (uid: string, error?: Error) => {
      if (error === undefined) open.get(uid)?.resolve();
      else open.get(uid)?.reject(error);
      await clock.advance(0);
    },
    reasons: () => begun.map(({ uid, reason }) => `${uid} ${reason}`),
  };
}

test("TQ1 syncs pods in parallel, but never runs two syncs of one pod", async () => {
  const { send, end, reasons } = started();
  await send(["a", "1"], ["b", "1"]);
  await send(["a", "2"]);
  expect(reasons()).toEqual(["a 1", "b 1"]);
  await end("b");
  expect(reasons()).toHaveLength(2);
  await end("a");
  expect(reasons()).toEqual(["a 1", "b 1", "a 2"]);
});

test("TQ1 runs at most concurrencyMax syncs, longest waiting pod first, and skips pods in progress", async () => {
  const { send, end, reasons } = started({ concurrencyMax: 2 });
  await send(["a", "1"], ["b", "1"], ["c", "1"]);
  await send(["a", "2"], ["d", "1"]);
  expect(reasons()).toEqual(["a 1", "b 1"]);
  await end("b");
  await end("c");
  expect(reasons()).toEqual(["a 1", "b 1", "c 1", "d 1"]);
});

test("TQ2 all messages that wait for a pod lead to one sync, and a message during a sync to one more", async () => {
  const { send, end, reasons } = started({ concurrencyMax: 1 });
  await send(["a", "1"], ["b", "1"], ["b", "2"], ["a", "2"], ["a", "3"]);
  await end("a");
  await end("b");
  await end("a");
  await end("b");
  expect(reasons()).toEqual(["a 1", "b 1", "a 2"]);
});

test("TQ3 redelivers a failed message 120 s after its start, together with later ones", async () => {
  const { send, end, begun, clock, log } = started();
  await send(["a", "1"]);
  await clock.advance(20 * SECONDS);
  await end("a", new Error("the store is away"));
  expect(log.lines).toMatchObject([
    { level: "error", fields: { what: "pod-sync", pod: "a", attempt: 1, error: "Error: the store is away" } },
  ]);
  await send(["a", "2"], ["b", "1"]);
  await clock.advance(100 * SECONDS - 1);
  expect(begun.map(({ uid }) => uid)).toEqual(["a", "b"]);
  await clock.advance(1);
  await end("a");
  await clock.advance(300 * SECONDS);
  expect(begun.filter(({ uid }) => uid === "a")).toEqual([
    { uid: "a", reason: "1", atMs: 0 },
    { uid: "a", reason: "2", atMs: 120 * SECONDS },
  ]);
});

test("TQ3 drops a message after five failures, and counts failures of the next message from zero", async () => {
  const { send, end, begun, clock } = started();
  await send(["a", "1"]);
  for (let turn = 0; turn < 9; turn++) {
    await end("a", new Error("no"));
    await clock.advance(120 * SECONDS);
  }
  expect(begun).toHaveLength(5);
  await send(["a", "2"]);
  expect(begun).toHaveLength(6);
});

test("TQ3 counts a handler that throws before its first await as failed", async () => {
  const { queue, clock, log } = started();
  queue.start(() => {
    throw new Error("at once");
  });
  queue.send({ uid: "a", reason: "1" });
  await clock.advance(0);
  expect(log.lines).toMatchObject([{ fields: { error: "Error: at once" } }]);
});

test("TQ4 a hanging handler frees its slot after 110 s and its pod after 120 s, and its result is ignored", async () => {
  const { send, end, reasons, clock } = started({ concurrencyMax: 1 });
  await send(["a", "1"], ["b", "1"]);
  await clock.advance(110 * SECONDS - 1);
  expect(reasons()).toEqual(["a 1"]);
  await clock.advance(1);
  expect(reasons()).toEqual(["a 1", "b 1"]);
  await end("b");
  await clock.advance(10 * SECONDS);
  expect(reasons()).toEqual(["a 1", "b 1", "a 1"]);
  await end("a");
  await send(["a", "2"]);
  expect(reasons()).toEqual(["a 1", "b 1", "a 1", "a 2"]);
});

test("keeps messages sent before the start", async () => {
  const clock = createVirtualClock(0);
  const queue = new PodQueue({ name: "q", concurrencyMax: 1, clock, log: recordingLog() });
  const seen: string[] = [];
  queue.send({ uid: "a", reason: "early" });
  queue.start(async ({ reason }) => void seen.push(reason));
  await clock.advance(0);
  expect(seen).toEqual(["early"]);
});

test("starts no further handlers after a stop, and waits for running handlers", async () => {
  const { queue, send, end, reasons } = started({ concurrencyMax: 1 });
  await send(["a", "1"], ["b", "1"]);
  let stopped = false;
  const stopping = queue.stop().then(() => (stopped = true));
  await send(["c", "1"]);
  expect(stopped).toBe(false);
  await end("a");
  await stopping;
  expect(reasons()).toEqual(["a 1"]);
});
