/** Batches: independent records, order within a group, and the returned ids. */
import type { SQSRecord } from "aws-lambda";
import fc from "fast-check";
import { expect, it } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { settleRecords, type RecordOutcome } from "../../../shared/controllers/lambda/batch.ts";
import { KubeApiError } from "../../../shared/kube/client/errors.ts";
import { recordingLog } from "../recording-log.ts";

function record(messageId: string, group?: string): SQSRecord {
  return {
    messageId,
    receiptHandle: `receipt of ${messageId}`,
    body: messageId,
    attributes: {
      ApproximateReceiveCount: "1",
      SentTimestamp: "0",
      SenderId: "s",
      ApproximateFirstReceiveTimestamp: "0",
      ...(group === undefined ? {} : { MessageGroupId: group }),
    },
    messageAttributes: {},
    md5OfBody: "",
    eventSource: "aws:sqs",
    eventSourceARN: "arn",
    awsRegion: "r",
  };
}

const RETRY: RecordOutcome = { kind: "retry", afterSeconds: 2, why: "early" };

it("BA3 after a failed record fails the later records of its group without running them, and continues with other groups", async () => {
  const tried: string[] = [];
  const visibility: [readonly string[], number][] = [];
  const event = { Records: [record("a1", "a"), record("b1", "b"), record("a2", "a"), record("b2", "b"), record("a3", "a")] };
  const answer = await settleRecords(
    event,
    ({ messageId }) => {
      tried.push(messageId);
      return Promise.resolve(messageId === "a2" ? RETRY : { kind: "ack" });
    },
    { log: recordingLog(), source: { setVisibility: (receipts, seconds) => Promise.resolve(void visibility.push([receipts, seconds])) } },
  );
  expect(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)).toEqual(["a2", "a3"]);
  expect(tried.toSorted()).toEqual(["a1", "a2", "b1", "b2"]);
  expect(visibility).toEqual([[["receipt of a2", "receipt of a3"], 2]]);
});

it("BA1 fails only the record whose handler throws, delays it by 5 s, and logs no text from the API server", async () => {
  const log = recordingLog();
  const visibility: number[] = [];
  const answer = await settleRecords(
    { Records: [record("x"), record("y")] },
    ({ messageId }) => {
      if (messageId === "x") throw new KubeApiError({ code: 422, reason: "Invalid", message: 'env[0]: Invalid value: "hunter2"' });
      return Promise.resolve({ kind: "ack" });
    },
    { log, source: { setVisibility: (_receipts, seconds) => Promise.resolve(void visibility.push(seconds)) } },
  );
  expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: "x" }] });
  expect(visibility).toEqual([5]);
  expect(JSON.stringify(log.lines)).toContain("422 Invalid");
  expect(JSON.stringify(log.lines)).not.toContain("hunter2");
});

it("BA4 logs a warning if a visibility timeout cannot be changed, and continues", async () => {
  const log = recordingLog();
  const source = { setVisibility: () => Promise.reject(new Error("gone")) };
  const answer = await settleRecords({ Records: [record("x")] }, () => Promise.resolve(RETRY), { log, source });
  expect(answer.batchItemFailures).toHaveLength(1);
  expect(log.lines.some(({ message }) => message.startsWith("failed to change the visibility"))).toBe(true);
});

it("BA1 BA2 BA3 hold for generated batches of any outcome", async () => {
  const records = fc.uniqueArray(fc.tuple(fc.nat(50), fc.option(fc.constantFrom("a", "b", "c"), { nil: undefined }), fc.boolean()), {
    selector: ([id]) => id,
  });
  await fc.assert(
    fc.asyncProperty(records, async (specs) => {
      const running = new Set<string | undefined>();
      const failing = new Set(specs.filter(([, , fails]) => fails).map(([id]) => `${id}`));
      const answer = await settleRecords(
        { Records: specs.map(([id, group]) => record(`${id}`, group)) },
        async ({ messageId, attributes }) => {
          const group = attributes.MessageGroupId;
          if (group !== undefined) expect(running.has(group)).toBe(false);
          running.add(group);
          await Promise.resolve();
          running.delete(group);
          return failing.has(messageId) ? RETRY : { kind: "ack" };
        },
        { log: recordingLog() },
      );
      const broken = new Set<string>();
      const want = specs.flatMap(([id, group, fails]) => {
        if (fails && group !== undefined) broken.add(group);
        return fails || (group !== undefined && broken.has(group)) ? [`${id}`] : [];
      });
      expect(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier).toSorted()).toEqual(want.toSorted());
    }),
  );
});

it("BA5 one second before the invocation ends, returns unfinished records and their groups as failed, and logs them", async () => {
  const clock = createVirtualClock(0);
  const log = recordingLog();
  const visibility: [readonly string[], number][] = [];
  const tried: string[] = [];
  const answering = settleRecords(
    { Records: [record("a1", "a"), record("b1", "b"), record("a2", "a")] },
    async ({ messageId }) => {
      tried.push(messageId);
      if (messageId === "a1") await new Promise(() => {}); // a stalled Redis
      return { kind: "ack" };
    },
    {
      log,
      ends: { clock, remainingMs: 5_000 },
      source: { setVisibility: (receipts, seconds) => Promise.resolve(void visibility.push([receipts, seconds])) },
    },
  );
  let answer: Awaited<typeof answering> | undefined;
  void answering.then((given) => (answer = given));
  await clock.advance(3_999);
  expect(answer).toBeUndefined();
  await clock.advance(1);
  expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: "a1" }, { itemIdentifier: "a2" }] });
  expect(tried).toEqual(["a1", "b1"]);
  expect(visibility).toEqual([[["receipt of a1", "receipt of a2"], 5]]);
  expect(log.lines).toMatchObject([{ level: "warn", fields: { messageId: "a1", why: "the invocation ends", heldBack: 1 } }]);
});

it("BA5 calls to an unresponsive queue take at most half of the last second", async () => {
  const clock = createVirtualClock(0);
  const answering = settleRecords({ Records: [record("x")] }, () => new Promise(() => {}), {
    log: recordingLog(),
    ends: { clock, remainingMs: 5_000 },
    source: { setVisibility: () => new Promise(() => {}) },
  });
  let answeredAtMs: number | undefined;
  void answering.then(() => (answeredAtMs = clock.now()));
  await clock.advance(5_000);
  expect(answeredAtMs).toBe(4_500);
});
