/** The conformance suite of delta queues and their sources (shared/store/ports/delta-queue.ts). */
import { afterEach, describe, expect, it } from "vitest";

import type { DeltaQueue, MessageSource, ReceivedMessage } from "../../shared/store/ports/delta-queue.ts";

export interface DeltaQueueUnderTest {
  /** An empty queue. */
  readonly queue: DeltaQueue;
  readonly source: MessageSource;
  readonly maxReceiveCount: number;
  /** Bodies of the messages in the dead-letter queue. */
  deadLetters(): Promise<readonly string[]>;
  /** Advances the clock. Absent for adapters with real time, which skip the cases that need it. */
  elapse?(ms: number): Promise<void>;
  close(): Promise<void>;
}

const BYTES_MAX = 1024 * 1024;
const NOW = { max: 10, waitMs: 0 } as const;

export function deltaQueueConformance(name: string, factory: () => Promise<DeltaQueueUnderTest>): void {
  describe(`delta queue on ${name}`, () => {
    const opened: DeltaQueueUnderTest[] = [];
    const open = async (): Promise<DeltaQueueUnderTest> => {
      const subject = await factory();
      opened.push(subject);
      return subject;
    };
    afterEach(async () => {
      for (const subject of opened.splice(0)) await subject.close();
    });

    it("DQ1 delivers messages with their attributes", async () => {
      const { queue, source } = await open();
      expect(await queue.send([entry("c.pods.0", 1)])).toEqual({ failed: [] });
      const [message] = await source.receive(NOW);
      expect(message).toEqual({
        messageId: expect.any(String),
        receipt: expect.any(String),
        body: "c.pods.0 1",
        receiveCount: 1,
        group: "c.pods.0",
        sentAtMs: expect.any(Number),
      });
    });

    it("DQ1 receives at most the requested number of messages, and none from an empty queue", async () => {
      const { queue, source } = await open();
      expect(await source.receive(NOW)).toEqual([]);
      await queue.send(Array.from({ length: 9 }, (_, lane) => entry(`c.pods.${lane}`, 1)));
      expect((await source.receive({ max: 2, waitMs: 0 })).length).toBeLessThanOrEqual(2);
    });

    it("DQ2 keeps the order within a group", async () => {
      const { queue, source } = await open();
      const groups = ["c.pods.0", "c.pods.1"];
      for (let sequence = 1; sequence <= 5; sequence++) await queue.send(groups.map((group) => entry(group, sequence)));
      const bodies = (await drain(source)).map((message) => message.body);
      for (const group of groups)
        expect(bodies.filter((body) => body.startsWith(group))).toEqual([1, 2, 3, 4, 5].map((sequence) => `${group} ${sequence}`));
    });

    it("DQ2 delivers no message of a group while an earlier one is in flight", async () => {
      const { queue, source } = await open();
      await queue.send([entry("c.pods.0", 1)]);
      const [first] = await source.receive(NOW);
      await queue.send([entry("c.pods.0", 2), entry("c.pods.1", 1)]);
      expect((await source.receive(NOW)).map((message) => message.body)).toEqual(["c.pods.1 1"]);
      await source.remove([first?.receipt ?? ""]);
      expect((await source.receive(NOW)).map((message) => message.body)).toEqual(["c.pods.0 2"]);
    });

    it("DQ3 delivers messages of two resources that have the same lane, fence and sequence", async () => {
      const { queue, source } = await open();
      await queue.send([entry("5d3f.pods.0", 1), entry("5d3f.replicasets.0", 1)]);
      expect((await drain(source)).map((message) => message.body).sort()).toEqual(["5d3f.pods.0 1", "5d3f.replicasets.0 1"]);
    });

    it("DQ3 [informer T27] delivers the same object again under another id", async () => {
      const { queue, source } = await open();
      await queue.send([{ ...entry("c.pods.0", 1), body: "same" }]);
      await queue.send([{ ...entry("c.pods.0", 2), body: "same" }]);
      expect((await drain(source)).map((message) => message.body)).toEqual(["same", "same"]);
    });

    it("DQ4 [informer T28] deduplicates a repeated send, even after the message was removed", async () => {
      const { queue, source } = await open();
      await queue.send([entry("c.pods.0", 1)]);
      expect(await queue.send([entry("c.pods.0", 1), entry("c.pods.0", 2)])).toEqual({ failed: [] });
      const bodies = (await drain(source)).map((message) => message.body);
      expect(new Set(bodies)).toEqual(new Set(["c.pods.0 1", "c.pods.0 2"]));
      expect(await queue.send([entry("c.pods.0", 1)])).toEqual({ failed: [] });
    });

    it("DQ4 [informer T59] accepts ids of almost 128 characters", async () => {
      const { queue, source } = await open();
      const group = `c.${"x".repeat(100)}.0`;
      expect(await queue.send([{ group, id: `${group}-e-812-1`.padEnd(127, "0"), body: "long" }])).toEqual({ failed: [] });
      expect((await drain(source)).map((message) => message.body)).toEqual(["long"]);
    });

    it("DQ5 DQ7 [informer T25] accepts messages of 1 MiB unchanged, and rejects only a larger message of the call, by its id", async () => {
      const { queue, source } = await open();
      const text = '{"name":"größer","note":"\\u0000 \\ud83d\\ude42"}';
      expect(
        await queue.send([
          { ...entry("c.pods.0", 1), body: text },
          { ...entry("c.pods.1", 1), body: "x".repeat(BYTES_MAX + 1) },
          entry("c.pods.2", 1),
        ]),
      ).toEqual({
        failed: [{ id: entry("c.pods.1", 1).id, reason: expect.any(String), permanent: true }],
      });
      expect((await drain(source)).map((message) => message.body).sort()).toEqual(["c.pods.2 1", text].sort());
      const full = `${"ü".repeat(BYTES_MAX / 2 - 1)}yz`;
      expect(await queue.send([{ ...entry("c.pods.0", 2), body: full }])).toEqual({ failed: [] });
      const [whole] = await drain(source);
      expect(whole?.body === full).toBe(true);
    });

    it("DQ7 counts bytes, not characters", async () => {
      const { queue } = await open();
      expect((await queue.send([{ ...entry("c.pods.0", 1), body: "ü".repeat(BYTES_MAX / 2 + 1) }])).failed).toMatchObject([
        { permanent: true },
      ]);
    });

    it("DQ4 DQ7 [informer T107] accepts a smaller body with the deduplication id of a permanently rejected message", async () => {
      const { queue, source } = await open();
      const { id } = entry("c.pods.0", 1);
      expect((await queue.send([{ ...entry("c.pods.0", 1), body: "x".repeat(BYTES_MAX + 1) }, entry("c.pods.0", 2)])).failed).toMatchObject(
        [{ id, permanent: true }],
      );
      expect(await queue.send([{ ...entry("c.pods.0", 1), body: "small" }])).toEqual({ failed: [] });
      expect((await drain(source)).map((message) => message.body).sort()).toEqual(["c.pods.0 2", "small"]);
    });

    it("DQ6 redelivers a message with its receive count after the visibility timeout, unless it was deleted", async () => {
      const { queue, source } = await open();
      await queue.send([entry("c.pods.0", 1)]);
      const [first] = await source.receive(NOW);
      expect(await source.receive(NOW)).toEqual([]);
      await source.setVisibility([first?.receipt ?? ""], 0);
      const [second] = await source.receive(NOW);
      expect(second).toMatchObject({ messageId: first?.messageId, body: "c.pods.0 1", receiveCount: 2 });
      await source.remove([second?.receipt ?? ""]);
      expect(await source.receive(NOW)).toEqual([]);
    });

    it("DQ6 redelivers a message when its visibility timeout expires, even if the timeout was changed after the receive", async (context) => {
      const { queue, source, elapse } = await open();
      if (!elapse) return context.skip("time cannot be moved");
      await queue.send([entry("c.pods.0", 1)]);
      const [first] = await source.receive(NOW);
      await source.setVisibility([first?.receipt ?? ""], 5);
      await elapse(4_999);
      expect(await source.receive(NOW)).toEqual([]);
      await elapse(1);
      expect(await source.receive(NOW)).toMatchObject([{ receiveCount: 2 }]);
      await elapse(3_600_000);
      expect(await source.receive(NOW)).toMatchObject([{ receiveCount: 3 }]);
    });

    it("DQ6 ignores unknown and expired receipts without an error", async () => {
      const { queue, source } = await open();
      await queue.send([entry("c.pods.0", 1)]);
      const [first] = await source.receive(NOW);
      await source.setVisibility([first?.receipt ?? ""], 0);
      const [second] = await source.receive(NOW);
      await source.remove([second?.receipt ?? ""]);
      await source.remove([second?.receipt ?? "", first?.receipt ?? ""]);
      await source.setVisibility([first?.receipt ?? ""], 0);
      expect(await source.receive(NOW)).toEqual([]);
    });

    it("DQ6 moves a message that exceeds the maximum receive count to the dead-letter queue", async () => {
      const { queue, source, maxReceiveCount, deadLetters } = await open();
      await queue.send([entry("c.pods.0", 1)]);
      for (let count = 1; count <= maxReceiveCount; count++) {
        const [message] = await source.receive(NOW);
        expect(message?.receiveCount).toBe(count);
        await source.setVisibility([message?.receipt ?? ""], 0);
      }
      expect(await source.receive(NOW)).toEqual([]);
      expect(await deadLetters()).toEqual(["c.pods.0 1"]);
    });

    it("a waiting receive returns a message that arrives, and throws the signal's reason when it is aborted", async () => {
      const { queue, source } = await open();
      const waiting = source.receive({ max: 1, waitMs: 10_000 });
      await queue.send([entry("c.pods.0", 1)]);
      expect(await waiting).toHaveLength(1);
      const abort = new AbortController();
      const aborted = source.receive({ max: 1, waitMs: 10_000, signal: abort.signal });
      abort.abort(new Error("enough"));
      await expect(aborted).rejects.toThrow("enough");
    });
  });
}

function entry(group: string, sequence: number) {
  return { group, id: `${group}-e1-812-${sequence}`, body: `${group} ${sequence}` };
}

/** Receives and removes messages until the queue is empty. */
async function drain(source: MessageSource): Promise<readonly ReceivedMessage[]> {
  const all: ReceivedMessage[] = [];
  for (;;) {
    const some = await source.receive(NOW);
    if (some.length === 0) return all;
    all.push(...some);
    await source.remove(some.map(({ receipt }) => receipt));
  }
}
