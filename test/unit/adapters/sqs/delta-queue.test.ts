// The delta queue on SQS: batches shared by several streams.
import { describe, expect, it } from "vitest";

import type { SqsCalls } from "../../../../shared/store/sqs/calls.ts";
import { createSqsDeltaQueue } from "../../../../shared/store/sqs/delta-queue.ts";
import type { QueueEntry } from "../../../../shared/store/ports/delta-queue.ts";

interface Sent {
  readonly Entries: readonly { readonly Id: string; readonly MessageDeduplicationId: string }[];
}

/** A queue that rejects those ids, or never responds. */
function harness(refused: readonly string[] | "all" = []) {
  const calls: (readonly string[])[] = [];
  const call = async (_: string, input: unknown): Promise<unknown> => {
    const { Entries } = input as Sent; // SendMessageBatch, the only call
    calls.push(Entries.map((entry) => entry.MessageDeduplicationId));
    if (refused === "all") throw new Error("no answer");
    const bad = Entries.filter((entry) => refused.includes(entry.MessageDeduplicationId));
    return { Failed: bad.map(({ Id }) => ({ Id, Code: "InternalError" })) };
  };
  const sqs = { call } as unknown as SqsCalls; // no other call is made
  return { calls, queue: createSqsDeltaQueue(sqs, { queueUrl: "http://127.0.0.1/q.fifo" }) };
}

const entries = (name: string, count: number, body = "x"): readonly QueueEntry[] =>
  Array.from({ length: count }, (_, i) => ({ group: name, id: `${name}${i}`, body }));

describe("messages that several streams send in one event loop tick", () => {
  it("messages of several streams share one call, and each stream receives its own results", async () => {
    const { calls, queue } = harness(["b0"]);
    const answers = await Promise.all([queue.send(entries("a", 2)), queue.send(entries("b", 1)), queue.send(entries("c", 1))]);
    expect(calls).toEqual([["a0", "a1", "b0", "c0"]]);
    expect(answers.map(({ failed }) => failed.map(({ id }) => id))).toEqual([[], ["b0"], []]);
  });

  it.each([
    { what: "more entries than one call holds", sent: [entries("a", 6), entries("b", 5), entries("c", 5)], calls: [6, 10] },
    {
      what: "more bytes than one call holds",
      sent: [entries("a", 1, "x".repeat(700_000)), entries("b", 1, "x".repeat(700_000))],
      calls: [1, 1],
    },
  ])("messages are split into calls so that those of one stream stay together: $what", async ({ sent, calls: expected }) => {
    const { calls, queue } = harness();
    await Promise.all(sent.map((each) => queue.send(each)));
    expect(calls.map(({ length }) => length)).toEqual(expected);
  });

  it("messages fail for every stream if the call gets no response", async () => {
    const { queue } = harness("all");
    const answers = await Promise.allSettled([queue.send(entries("a", 1)), queue.send(entries("b", 1))]);
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });
});

it("messages that are sent in another event loop tick use another call", async () => {
  const { calls, queue } = harness();
  await queue.send(entries("a", 1));
  await queue.send(entries("b", 1));
  expect(calls).toEqual([["a0"], ["b0"]]);
});
