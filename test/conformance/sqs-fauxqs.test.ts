/** The SQS adapters against fauxqs over HTTP, with our own client and with the AWS SDK. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { sqsCalls, type SqsCalls } from "../../shared/store/sqs/calls.ts";
import { sqsClient } from "../../shared/store/sqs/client.ts";
import { createSqsDeltaQueue } from "../../shared/store/sqs/delta-queue.ts";
import { createSqsDoorbells } from "../../shared/store/sqs/doorbells.ts";
import { createSqsMessageSource } from "../../shared/store/sqs/message-source.ts";
import type { ReceivedMessage } from "../../shared/store/ports/delta-queue.ts";
import type { Doorbell, DoorbellMessage } from "../../shared/store/ports/doorbells.ts";
import { startFauxqs, type OwnSqs } from "../../shared/local/fauxqs.ts";
import { doorbellUrls, freshQueues, portsBy, sqsPortsConformance } from "./sqs-ports.ts";

let sqs: OwnSqs;
let client: ReturnType<typeof sqsClient>;
let calls: SqsCalls;
beforeAll(async () => {
  sqs = await startFauxqs();
  client = sqsClient({ endpoint: sqs.endpoint });
  calls = sqsCalls({ endpoint: sqs.endpoint });
});
afterAll(async () => {
  client.destroy();
  calls.close();
  await sqs.stop();
});

async function setUp() {
  const queues = await freshQueues(client);
  const { url: queueUrl } = queues.deltas;
  return {
    deltas: queues.deltas,
    queue: createSqsDeltaQueue(calls, { queueUrl }),
    source: createSqsMessageSource(calls, { queueUrl }),
    urls: doorbellUrls(queues),
  };
}

/** Receives and removes messages until none arrives for a moment. */
async function drain(source: ReturnType<typeof createSqsMessageSource>): Promise<readonly ReceivedMessage[]> {
  const all: ReceivedMessage[] = [];
  for (;;) {
    const some = await source.receive({ max: 10, waitMs: 0 });
    if (some.length === 0) return all;
    all.push(...some);
    await source.remove(some.map(({ receipt }) => receipt));
  }
}

sqsPortsConformance(
  "fauxqs",
  () => client,
  () => calls,
);

portsBy(
  "fauxqs without a socket",
  () => client,
  () => sqs.calls,
);

describe("calls of fauxqs without a socket", () => {
  it("wait for a message from another process without polling the emulator", async () => {
    const { queue, deltas } = await setUp();
    const local = createSqsMessageSource(sqs.calls, { queueUrl: deltas.url });
    const timers = vi.spyOn(globalThis, "setInterval");
    const receiving = local.receive({ max: 10, waitMs: 10_000 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const polls = timers.mock.calls.length;
    timers.mockRestore();
    await queue.send([{ group: "c.pods.1", id: "one", body: "1" }]);
    expect((await receiving).map(({ body }) => body)).toEqual(["1"]);
    expect(polls).toBe(0);
  });

  it("receive the next message of a group once the earlier one is removed", async () => {
    const { queue, deltas } = await setUp();
    const local = createSqsMessageSource(sqs.calls, { queueUrl: deltas.url });
    await queue.send(["1", "2"].map((body) => ({ group: "c.pods.1", id: body, body })));
    const [first] = await local.receive({ max: 1, waitMs: 0 });
    const receiving = local.receive({ max: 1, waitMs: 10_000 });
    await local.remove([first?.receipt ?? ""]);
    expect((await receiving).map(({ body }) => body)).toEqual(["2"]);
  });

  it("take no message after their signal has aborted", async () => {
    const { queue, source, deltas } = await setUp();
    const ends = new AbortController();
    const local = createSqsMessageSource(sqs.calls, { queueUrl: deltas.url });
    const receiving = local.receive({ max: 10, waitMs: 10_000, signal: ends.signal });
    ends.abort(new Error("ended"));
    await expect(receiving).rejects.toThrow("ended");
    await queue.send([{ group: "c.pods.1", id: "one", body: "1" }]);
    expect((await drain(source)).map(({ body }) => body)).toEqual(["1"]);
  });
});

describe("the delta queue on fauxqs, in addition to the port's suite", () => {
  it("splits entries that exceed one call, in order", async () => {
    const { queue, source } = await setUp();
    const many = Array.from({ length: 23 }, (_, index) => ({ group: "c.pods.3", id: `many-${index}`, body: `${index}` }));
    expect(await queue.send(many)).toEqual({ failed: [] });
    expect((await drain(source)).map(({ body }) => body)).toEqual(many.map(({ body }) => body));
  });

  it("splits entries that exceed 1 MiB together [informer T25]", async () => {
    const { queue, source } = await setUp();
    const large = ["a", "b", "c"].map((id) => ({ group: "c.pods.4", id, body: id.repeat(500 * 1024) }));
    expect(await queue.send(large)).toEqual({ failed: [] });
    expect((await drain(source)).map(({ body }) => body[0])).toEqual(["a", "b", "c"]);
  });

  it("send rejects when the result of every entry is unknown", async () => {
    const queue = createSqsDeltaQueue(calls, { queueUrl: "http://127.0.0.1/000000000000/none.fifo" });
    await expect(queue.send([{ group: "g", id: "i", body: "b" }])).rejects.toThrow();
  });
});

describe("doorbells on fauxqs, in addition to the port's suite", () => {
  it("DB2 doorbells are delayed by whole seconds, and the worker waits for the remainder", async () => {
    const { urls } = await setUp();
    const source = createSqsMessageSource(calls, { queueUrl: urls.replicaset });
    await createSqsDoorbells(calls, { queueUrls: urls, cid: "c" }).ring([bell("a", 1_001), bell("b", 999), bell("c", 3_600_000)]);
    const soon = await drain(source);
    expect(soon.map(({ body }) => (JSON.parse(body) as DoorbellMessage).k)).toEqual(["b"]);
    const startedAt = performance.now();
    const [late] = await source.receive({ max: 10, waitMs: 5_000 });
    expect(performance.now() - startedAt).toBeGreaterThan(1_000);
    expect(JSON.parse(late?.body ?? "")).toMatchObject({ k: "a" });
  });

  it("DB4 the call fails if one batch is rejected, but doorbells of the other batches are sent", async () => {
    const { urls } = await setUp();
    const bells = createSqsDoorbells(calls, { queueUrls: { ...urls, deployment: "http://127.0.0.1/000000000000/none" }, cid: "c" });
    await expect(bells.ring([{ ...bell("a"), controller: "deployment" }, bell("b")])).rejects.toThrow("1 of 2 batches");
    expect(await drain(createSqsMessageSource(calls, { queueUrl: urls.replicaset }))).toHaveLength(1);
  });
});

function bell(key: string, delayMs = 0): Doorbell {
  return { controller: "replicaset", key, uid: "u1", owner: "o1", epoch: "e1", delayMs };
}
