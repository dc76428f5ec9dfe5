/**
 * The SQS adapters against LocalStack, a second and independent reading of what SQS does. Catches: what fauxqs forgives, and
 * queue attributes or messages that only one emulator takes.
 */
import { setTimeout } from "node:timers/promises";

import { GetQueueAttributesCommand, SetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startLocalStack } from "../../infra/local/localstack.ts";
import type { LocalStack } from "../../infra/local/localstack.ts";
import { localStackVenv } from "../../infra/local/venv.ts";
import { sqsClient } from "../../shared/adapters/sqs/client.ts";
import { createSqsDeltaQueue } from "../../shared/adapters/sqs/delta-queue.ts";
import { createSqsDoorbells } from "../../shared/adapters/sqs/doorbells.ts";
import { createSqsMessageSource } from "../../shared/adapters/sqs/message-source.ts";
import { createQueues } from "../../shared/local/queues.ts";
import { deltaQueueConformance } from "./delta-queue.ts";
import { doorbellsConformance } from "./doorbells.ts";

const venv = await localStackVenv();
if ("missing" in venv) {
  process.stderr.write(`!!!!  SQS on LocalStack cannot run: ${venv.missing}\n`);
  it.skip(`SQS on LocalStack: ${venv.missing}`);
} else suite();

function suite(): void {
  let localStack: LocalStack;
  let client: ReturnType<typeof sqsClient>;
  let prefixes = 0;
  beforeAll(async () => {
    localStack = await startLocalStack();
    client = sqsClient({ endpoint: localStack.endpoint });
  }, 120_000);
  afterAll(async () => {
    client?.destroy();
    await localStack?.stop();
  });

  async function setUp() {
    const { deltas, doorbells } = await createQueues(client, `t${++prefixes}`);
    const urls = {
      deployment: doorbells.deployment.url,
      replicaset: doorbells.replicaset.url,
      replicationcontroller: doorbells.replicationcontroller.url,
    };
    return { deltas, urls, source: (queueUrl: string) => createSqsMessageSource(client, { queueUrl }) };
  }

  deltaQueueConformance("LocalStack through the AWS SDK", async () => {
    const { deltas, source } = await setUp();
    // A thousand receives are the production value; five show the same.
    const maxReceiveCount = 5;
    const dead = source(deltas.deadLetterUrl);
    const { Attributes } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: deltas.deadLetterUrl, AttributeNames: ["QueueArn"] }),
    );
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: Attributes?.QueueArn, maxReceiveCount });
    await client.send(new SetQueueAttributesCommand({ QueueUrl: deltas.url, Attributes: { RedrivePolicy } }));
    return {
      queue: createSqsDeltaQueue(client, { queueUrl: deltas.url }),
      source: source(deltas.url),
      maxReceiveCount,
      deadLetters: async () => (await dead.receive({ max: 10, waitMs: 0 })).map(({ body }) => body),
      close: async () => {},
    };
  });

  doorbellsConformance("LocalStack through the AWS SDK", async () => {
    const { urls, source } = await setUp();
    return {
      doorbells: createSqsDoorbells(client, { queueUrls: urls, cid: "5d3f" }),
      cluster: "5d3f",
      sources: {
        deployment: source(urls.deployment),
        replicaset: source(urls.replicaset),
        replicationcontroller: source(urls.replicationcontroller),
      },
      elapse: setTimeout,
      virtual: false,
      close: async () => {},
    };
  });

  describe("queues on LocalStack", () => {
    it("are created with what the spec asks for, and again without complaint", async () => {
      const first = await createQueues(client, "same");
      expect(await createQueues(client, "same")).toEqual(first);
      const { Attributes } = await client.send(new GetQueueAttributesCommand({ QueueUrl: first.deltas.url, AttributeNames: ["All"] }));
      expect(Attributes).toMatchObject({
        FifoQueue: "true",
        DeduplicationScope: "messageGroup",
        FifoThroughputLimit: "perMessageGroupId",
        MaximumMessageSize: "1048576",
        VisibilityTimeout: "30",
        RedrivePolicy: expect.stringContaining("1000"),
      });
    });
  });
}
