/** Lambda's rules for SQS event sources, under a virtual clock. */
import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { expect, it } from "vitest";

import { createVirtualClock, type VirtualClock } from "../../../shared/base/memory/clock.ts";
import { startEventSourceMapping, type EventSourceMappingOptions, type Invocation } from "../../../shared/local/event-source-mapping.ts";
import type { MessageSource, ReceivedMessage } from "../../../shared/store/ports/delta-queue.ts";
import { recordingLog } from "../recording-log.ts";

const VISIBILITY_MS = 30_000;
const ARN = "arn:aws:sqs:eu-central-1:000000000000:q";

/** A queue with visibility timeouts and receive counts, without order and group locks. */
function testQueue(clock: VirtualClock) {
  const messages = new Map<string, { readonly body: string; readonly group: string | undefined; visibleMs: number; count: number }>();
  const receives: number[] = [];
  let sent = 0;
  let failing = false;
  const source: MessageSource = {
    async receive({ max, waitMs }) {
      receives.push(max);
      if (failing) throw new Error("queue is unavailable");
      const untilMs = clock.now() + waitMs;
      for (;;) {
        const found = [...messages].filter(([, { visibleMs }]) => visibleMs <= clock.now()).slice(0, max);
        if (found.length > 0 || clock.now() >= untilMs)
          return found.map(([id, message]): ReceivedMessage => {
            message.visibleMs = clock.now() + VISIBILITY_MS;
            message.count++;
            const { body, group, count } = message;
            return {
              messageId: id,
              receipt: `${id}#${count}`,
              body,
              receiveCount: count,
              sentAtMs: 0,
              ...(group === undefined ? {} : { group }),
            };
          });
        await clock.after(10);
      }
    },
    remove: (receipts) => Promise.resolve(receipts.forEach((receipt) => messages.delete(receipt.split("#")[0] ?? ""))),
    setVisibility(receipts, seconds) {
      for (const receipt of receipts) {
        const message = messages.get(receipt.split("#")[0] ?? "");
        if (message !== undefined) message.visibleMs = clock.now() + seconds * 1000;
      }
      return Promise.resolve();
    },
  };
  return {
    source,
    receives,
    send(body: string, group?: string) {
      messages.set(`m${++sent}`, { body, group, visibleMs: 0, count: 0 });
    },
    left: () => [...messages.values()].map(({ body }) => body),
    visible: () => [...messages.values()].filter(({ visibleMs }) => visibleMs <= clock.now()).map(({ body }) => body),
    fail(value: boolean) {
      failing = value;
    },
  };
}

interface Call {
  readonly atMs: number;
  readonly bodies: readonly string[];
  readonly event: SQSEvent;
  readonly remainingMs: number;
}

function start(overrides: Partial<EventSourceMappingOptions> = {}) {
  const clock = createVirtualClock(1_000_000);
  const queue = testQueue(clock);
  const calls: Call[] = [];
  const invocations: Invocation[] = [];
  const log = recordingLog();
  let answer: (call: Call) => Promise<SQSBatchResponse | void> = () => Promise.resolve();
  const mapping = startEventSourceMapping(
    { source: queue.source, clock, log },
    {
      functionName: "f",
      queueArn: ARN,
      batchSize: 10,
      maximumConcurrency: 5,
      timeoutMs: 5_000,
      handler: (event, context) => {
        const call = {
          atMs: clock.now(),
          bodies: event.Records.map(({ body }) => body),
          event,
          remainingMs: context.getRemainingTimeInMillis(),
        };
        calls.push(call);
        return answer(call);
      },
      onInvocation: (invocation) => invocations.push(invocation),
      ...overrides,
    },
  );
  return {
    clock,
    queue,
    calls,
    invocations,
    log,
    mapping,
    answer(next: typeof answer) {
      answer = next;
    },
  };
}

it("EM1 delivers SQS records and removes successful ones", async () => {
  const { clock, queue, calls, invocations, mapping } = start();
  queue.send("one", "g");
  await clock.advance(1_000);
  expect(calls).toHaveLength(1);
  expect(calls[0]?.event.Records[0]).toEqual({
    messageId: "m1",
    receiptHandle: "m1#1",
    body: "one",
    attributes: {
      ApproximateReceiveCount: "1",
      SentTimestamp: "0",
      SenderId: "local",
      ApproximateFirstReceiveTimestamp: "0",
      MessageGroupId: "g",
    },
    messageAttributes: {},
    md5OfBody: "f97c5d29941bfb1b2fdab0874906ab82",
    eventSource: "aws:sqs",
    eventSourceARN: ARN,
    awsRegion: "eu-central-1",
  });
  expect(calls[0]?.remainingMs).toBe(5_000);
  expect(queue.left()).toEqual([]);
  expect(invocations).toEqual([{ function: "f", records: 1, durationMs: 0, failures: 0 }]);
  await stopped(clock, mapping);
});

it("EM1 EM2 redelivers records that the handler reports as failed after their visibility timeout", async () => {
  const { clock, queue, calls, invocations, answer, mapping } = start();
  answer(({ event }) =>
    Promise.resolve({
      batchItemFailures: event.Records.filter(({ body }) => body === "bad").map(({ messageId }) => ({ itemIdentifier: messageId })),
    }),
  );
  for (const body of ["good", "bad", "fine"]) queue.send(body);
  await clock.advance(VISIBILITY_MS - 1_000);
  expect(queue.left()).toEqual(["bad"]);
  expect(calls).toHaveLength(1);
  await clock.advance(2_000);
  expect(calls.map(({ bodies }) => bodies)).toEqual([["good", "bad", "fine"], ["bad"]]);
  expect(calls[1]?.event.Records[0]?.attributes.ApproximateReceiveCount).toBe("2");
  expect(invocations.map(({ failures }) => failures)).toEqual([1, 1]);
  await stopped(clock, mapping);
});

const ALL_FAILED: readonly { readonly name: string; readonly answer: () => unknown }[] = [
  { name: "a thrown error", answer: () => Promise.reject(new Error("boom")) },
  {
    name: "an error thrown before the first await",
    answer: () => {
      throw new Error("boom");
    },
  },
  { name: "an id that is not in the batch", answer: () => ({ batchItemFailures: [{ itemIdentifier: "m9" }] }) },
  { name: "an empty id", answer: () => ({ batchItemFailures: [{ itemIdentifier: "" }] }) },
  { name: "an id under another field", answer: () => ({ batchItemFailures: [{ id: "m1" }] }) },
  { name: "a failure list that is not a list", answer: () => ({ batchItemFailures: "m1" }) },
  { name: "a response that is not an object", answer: () => 42 },
];

it.each(ALL_FAILED)("EM3 $name fails the whole batch", async ({ answer: bad }) => {
  const { clock, queue, answer, invocations, mapping } = start();
  // Responses that a typed handler cannot return, as Lambda may receive them as JSON.
  answer(bad as Parameters<typeof answer>[0]);
  queue.send("one");
  queue.send("two");
  await clock.advance(1_000);
  expect(queue.left()).toEqual(["one", "two"]);
  expect(invocations).toEqual([{ function: "f", records: 2, durationMs: 0, failures: 2, error: expect.any(String) }]);
  await stopped(clock, mapping);
});

it.each([{ batchItemFailures: [] }, { batchItemFailures: null }, {}, null, undefined])("EM3 treats %j as success", async (good) => {
  const { clock, queue, answer, mapping } = start();
  answer(() => Promise.resolve(good as SQSBatchResponse));
  queue.send("one");
  await clock.advance(1_000);
  expect(queue.left()).toEqual([]);
  await stopped(clock, mapping);
});

it("ignores a failure list when the mapping does not use ReportBatchItemFailures", async () => {
  const { clock, queue, answer, mapping } = start({ reportBatchItemFailures: false });
  answer(() => Promise.resolve({ batchItemFailures: [{ itemIdentifier: "m1" }] }));
  queue.send("one");
  await clock.advance(1_000);
  expect(queue.left()).toEqual([]);
  await stopped(clock, mapping);
});

it("EM3 EM6 fails the batch of an invocation at its timeout, frees its slot, and removes the messages that its late response reports as processed", async () => {
  const { clock, queue, answer, calls, invocations, mapping } = start({ maximumConcurrency: 1 });
  answer(({ bodies }) => (bodies[0] === "slow" ? clock.after(8_000) : Promise.resolve()));
  queue.send("slow");
  await clock.advance(1_000);
  queue.send("next");
  await clock.advance(6_000);
  expect(queue.left()).toEqual(["slow"]);
  await clock.advance(2_000);
  expect(calls.map(({ bodies }) => bodies)).toEqual([["slow"], ["next"]]);
  expect((calls[1]?.atMs ?? 0) - (calls[0]?.atMs ?? 0)).toBe(5_000);
  expect(invocations[0]).toMatchObject({ failures: 1, durationMs: 5_000, error: expect.stringContaining("timed out") });
  expect(queue.left()).toEqual([]);
  await stopped(clock, mapping);
});

it("EM4 runs the allowed number of concurrent invocations under load, and never more", async () => {
  const { clock, queue, answer, mapping, calls } = start({ batchSize: 1, maximumConcurrency: 3 });
  let most = 0;
  answer(async () => {
    most = Math.max(most, mapping.running());
    await clock.after(100);
    most = Math.max(most, mapping.running());
  });
  for (let index = 0; index < 9; index++) queue.send(`${index}`);
  await clock.advance(400);
  expect(most).toBe(3);
  expect(calls).toHaveLength(9);
  await stopped(clock, mapping);
});

it("EM5 keeps at most one batch per message group in flight and the order within the group, while other groups continue", async () => {
  const { clock, queue, answer, calls, mapping } = start({ batchSize: 2 });
  answer(({ bodies }) => (bodies.includes("a1") ? clock.after(1_000) : Promise.resolve()));
  for (const [body, group] of [
    ["a1", "a"],
    ["a2", "a"],
    ["a3", "a"],
    ["b1", "b"],
    ["a4", "a"],
    ["b2", "b"],
  ] as const)
    queue.send(body, group);
  await clock.advance(500);
  expect(calls.map(({ bodies }) => bodies)).toEqual([["a1", "a2"], ["b1"]]);
  await clock.advance(2_000);
  const seen = calls.flatMap(({ bodies }) => bodies);
  expect(seen.filter((body) => body.startsWith("a"))).toEqual(["a1", "a2", "a3", "a4"]);
  expect(seen.filter((body) => body.startsWith("b"))).toEqual(["b1", "b2"]);
  await stopped(clock, mapping);
});

it("EM7 gathers what arrives during an invocation in one batch, and invokes an idle function at once", async () => {
  const { clock, queue, answer, calls, mapping } = start();
  answer(({ bodies }) => (bodies.includes("first") ? clock.after(100) : Promise.resolve()));
  await clock.advance(10_000);
  const sentMs = clock.now();
  queue.send("first");
  while (calls.length === 0) await clock.advance(1);
  queue.send("second");
  await clock.advance(2);
  queue.send("third");
  await clock.advance(20);
  expect(calls.map(({ bodies }) => bodies)).toEqual([["first"], ["second", "third"]]);
  expect((calls[0]?.atMs ?? 0) - sentMs).toBeLessThanOrEqual(10); // the queue of this test looks every 10 ms
  await stopped(clock, mapping);
});

it("EM7 does not wait between polls while each is full", async () => {
  const { clock, queue, answer, calls, mapping } = start({ batchSize: 2 });
  answer(() => clock.after(100));
  for (let index = 0; index < 8; index++) queue.send(`${index}`);
  while (calls.length === 0) await clock.advance(1);
  await clock.advance(1);
  expect(calls.map(({ bodies }) => bodies.length)).toEqual([2, 2, 2, 2]);
  await stopped(clock, mapping);
});

it("EM5 does not dispatch a message again that was dispatched during a poll", async () => {
  const { clock, queue, answer, calls, mapping } = start();
  answer(() => clock.after(300));
  for (const body of ["a1", "a2"]) {
    queue.send(body, "a");
    await clock.advance(100);
  }
  await clock.advance(5_000);
  expect(calls.map(({ bodies }) => bodies)).toEqual([["a1"], ["a2"]]);
  await stopped(clock, mapping);
});

it("EM8 serves a quiet group of a fair queue before the backlog of a group that was sent first", async () => {
  const fairGroupOf = ({ body }: ReceivedMessage): string => body.split("-")[0] ?? "";
  const { clock, queue, answer, calls, mapping } = start({ batchSize: 2, maximumConcurrency: 2, fairGroupOf });
  answer(() => clock.after(1_000));
  for (let index = 0; index < 60; index++) queue.send(`storm-${index}`);
  await clock.advance(1_500);
  for (const body of ["quiet-0", "quiet-1", "other-0"]) queue.send(body);
  await clock.advance(2_500);
  const before = calls.flatMap(({ bodies }) => bodies);
  expect(before.slice(0, 8).every((body) => body.startsWith("storm"))).toBe(true);
  expect(before.slice(8, 10).toSorted()).toEqual(["other-0", "quiet-0"]);
  expect(before.slice(10, 14)).toContain("quiet-1"); // their groups are in flight now, as is the storm's
  await clock.advance(120_000);
  const seen = calls.flatMap(({ bodies }) => bodies);
  expect(seen).toHaveLength(63); // the storm alone is served without limit
  expect(new Set(seen).size).toBe(63);
  await stopped(clock, mapping);
});

it("EM8 does not lock the groups of a fair queue", async () => {
  const { clock, queue, answer, calls, mapping } = start({ batchSize: 1, maximumConcurrency: 3, fairGroupOf: () => "one" });
  answer(() => clock.after(1_000));
  for (let index = 0; index < 3; index++) queue.send(`${index}`, "one");
  await clock.advance(100);
  expect(calls).toHaveLength(3);
  await clock.advance(5_000);
  await stopped(clock, mapping);
});

it("collects a batch of more than ten records during the batching window", async () => {
  const { clock, queue, calls, mapping } = start({ batchSize: 100, batchingWindowMs: 2_000 });
  for (let index = 0; index < 15; index++) queue.send(`${index}`);
  await clock.advance(500);
  queue.send("late");
  await clock.advance(3_000);
  expect(calls.map(({ bodies }) => bodies.length)).toEqual([16]);
  expect(calls[0]?.atMs).toBe(1_002_010);
  await stopped(clock, mapping);
});

it("EM4 limits an event to 6 MB, and leaves the remaining messages in the queue", async () => {
  const { clock, queue, answer, calls, mapping } = start({ maximumConcurrency: 1 });
  answer(() => clock.after(500));
  for (let index = 0; index < 8; index++) queue.send("x".repeat(1024 * 1024));
  await clock.advance(1_000);
  expect(calls.map(({ bodies }) => bodies.length)).toEqual([6, 2]);
  expect((calls[1]?.atMs ?? 0) - (calls[0]?.atMs ?? 0)).toBe(500);
  await stopped(clock, mapping);
});

it("EM5 does not let a smaller message overtake an earlier one of its group that does not fit", async () => {
  const { clock, queue, calls, mapping } = start();
  for (let index = 0; index < 5; index++) queue.send("x".repeat(1024 * 1024), `g${index}`);
  queue.send("a1".repeat(1024 * 1024), "a");
  queue.send("a2", "a");
  queue.send("b1", "b");
  await clock.advance(1_000);
  expect(calls.map(({ bodies }) => bodies.map((body) => body.slice(0, 2)))).toEqual([
    ["xx", "xx", "xx", "xx", "xx", "b1"],
    ["a1", "a2"],
  ]);
  await stopped(clock, mapping);
});

it("continues to poll after an error of the queue, without a hot loop", async () => {
  const { clock, queue, calls, log, mapping } = start();
  await clock.advance(0);
  queue.fail(true);
  await clock.advance(5_500);
  expect(queue.receives.length).toBeLessThan(8);
  expect(log.lines.some(({ message }) => message === "polling failed")).toBe(true);
  queue.fail(false);
  queue.send("one");
  await clock.advance(2_000);
  expect(calls).toHaveLength(1);
  await stopped(clock, mapping);
});

it("waits up to 5 s for running invocations on a stop, and returns undelivered messages", async () => {
  const { clock, queue, answer, mapping, calls } = start({ batchSize: 2, maximumConcurrency: 2, timeoutMs: 60_000 });
  answer(({ bodies }) => clock.after(bodies.includes("a1") ? 2_000 : 50_000));
  for (const body of ["a1", "a2", "a3"]) queue.send(body, "a");
  await clock.advance(1_500);
  const ended = stopped(clock, mapping);
  await ended;
  expect(calls).toHaveLength(1);
  expect(queue.left()).toEqual(["a3"]);
  expect(queue.visible()).toEqual(["a3"]);
  const hanging = start({ timeoutMs: 60_000 });
  hanging.answer(() => hanging.clock.after(50_000));
  hanging.queue.send("x");
  await hanging.clock.advance(100);
  const before = hanging.clock.now();
  await stopped(hanging.clock, hanging.mapping);
  expect(hanging.clock.now() - before).toBeLessThanOrEqual(6_000);
});

/** Stops the mapping while virtual time advances. */
async function stopped(clock: VirtualClock, mapping: { stop(): Promise<void> }): Promise<void> {
  let done = false;
  const stopping = mapping.stop().then(() => (done = true));
  for (let step = 0; step < 60 && !done; step++) await clock.advance(100);
  await stopping;
}
