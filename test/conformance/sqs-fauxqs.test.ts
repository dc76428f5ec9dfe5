/** The SQS adapters against fauxqs over HTTP, with our own client and with the AWS SDK. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

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
