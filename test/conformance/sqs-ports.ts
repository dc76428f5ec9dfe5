/**
 * The conformance suites of queues and doorbells on one SQS endpoint, with our own client and with the AWS SDK, and the queue attributes
 * of the spec, on any server.
 */
import { setTimeout } from "node:timers/promises";

import { GetQueueAttributesCommand, SendMessageCommand, SetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { describe, expect, it } from "vitest";

import type { SqsCalls } from "../../shared/store/sqs/calls.ts";
import type { sqsClient } from "../../shared/store/sqs/client.ts";
import { createSqsDeltaQueue } from "../../shared/store/sqs/delta-queue.ts";
import { createSqsDoorbells } from "../../shared/store/sqs/doorbells.ts";
import { createSqsMessageSource } from "../../shared/store/sqs/message-source.ts";
import { queueFacts, queueFactsByArn } from "../../shared/store/sqs/queue-facts.ts";
import { createQueues, type LocalQueues } from "../../shared/local/queues.ts";
import { sdkCalls } from "../support/sdk-calls.ts";
import { deltaQueueConformance } from "./delta-queue.ts";
import { doorbellsConformance } from "./doorbells.ts";

type Client = ReturnType<typeof sqsClient>;

let prefixes = 0;

/** Queues that no other test has seen. */
export async function freshQueues(client: Client): Promise<LocalQueues> {
  return await createQueues(client, `t${++prefixes}`);
}

export function doorbellUrls({ doorbells }: LocalQueues): { readonly [C in keyof LocalQueues["doorbells"]]: string } {
  const { deployment, replicaset, replicationcontroller } = doorbells;
  return { deployment: deployment.url, replicaset: replicaset.url, replicationcontroller: replicationcontroller.url };
}

/** `client` and `calls` are called when a test runs, because the server starts before that. */
export function sqsPortsConformance(server: string, client: () => Client, calls: () => SqsCalls): void {
  portsBy(`${server} by our own calls`, client, calls);
  portsBy(`${server} through the AWS SDK`, client, () => sdkCalls(client()));
  queuesConformance(server, client, calls);
}

export function portsBy(way: string, client: () => Client, calls: () => SqsCalls): void {
  const source = (queueUrl: string): ReturnType<typeof createSqsMessageSource> => createSqsMessageSource(calls(), { queueUrl });

  deltaQueueConformance(way, async () => {
    const { deltas } = await freshQueues(client());
    // Production allows a thousand receives; five show the same behaviour.
    const maxReceiveCount = 5;
    const { Attributes } = await client().send(
      new GetQueueAttributesCommand({ QueueUrl: deltas.deadLetterUrl, AttributeNames: ["QueueArn"] }),
    );
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: Attributes?.QueueArn, maxReceiveCount });
    await client().send(new SetQueueAttributesCommand({ QueueUrl: deltas.url, Attributes: { RedrivePolicy } }));
    return {
      queue: createSqsDeltaQueue(calls(), { queueUrl: deltas.url }),
      source: source(deltas.url),
      maxReceiveCount,
      deadLetters: async () => (await source(deltas.deadLetterUrl).receive({ max: 10, waitMs: 0 })).map(({ body }) => body),
      close: async () => {},
    };
  });

  doorbellsConformance(way, "left", async () => {
    const urls = doorbellUrls(await freshQueues(client()));
    return {
      doorbells: createSqsDoorbells(calls(), { queueUrls: urls, cid: "5d3f" }),
      cluster: "5d3f",
      sources: {
        deployment: source(urls.deployment),
        replicaset: source(urls.replicaset),
        replicationcontroller: source(urls.replicationcontroller),
      },
      elapse: setTimeout,
      size: async () => {
        const { waiting, delayed } = await queueFacts(client(), urls.replicaset);
        return waiting + delayed;
      },
      close: async () => {},
    };
  });
}

function queuesConformance(server: string, client: () => Client, calls: () => SqsCalls): void {
  const source = (queueUrl: string): ReturnType<typeof createSqsMessageSource> => createSqsMessageSource(calls(), { queueUrl });

  describe(`queues on ${server}`, () => {
    it("queues are created with the specified attributes, and creating them again succeeds", async () => {
      const first = await createQueues(client(), "same");
      expect(await createQueues(client(), "same")).toEqual(first);
      const attributesOf = async (QueueUrl: string) =>
        (await client().send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }))).Attributes;
      const deltas = await attributesOf(first.deltas.url);
      expect(deltas).toMatchObject({
        FifoQueue: "true",
        DeduplicationScope: "messageGroup",
        FifoThroughputLimit: "perMessageGroupId",
        ContentBasedDeduplication: "false",
        MaximumMessageSize: "1048576",
        VisibilityTimeout: "30",
        MessageRetentionPeriod: "345600",
      });
      const bell = await attributesOf(first.doorbells.replicaset.url);
      expect(bell).toMatchObject({ VisibilityTimeout: "360" });
      // Servers return the count as a number or as a text.
      const receivesOf = (redrive = "{}"): number => Number((JSON.parse(redrive) as { maxReceiveCount?: unknown }).maxReceiveCount); // a redrive policy
      expect([receivesOf(deltas?.["RedrivePolicy"]), receivesOf(bell?.["RedrivePolicy"])]).toEqual([1000, 5]);
    });

    it("report their waiting and in-flight messages, and their dead-letter queues", async () => {
      const { doorbells } = await freshQueues(client());
      const { url, deadLetterUrl } = doorbells.replicaset;
      for (const MessageBody of ["one", "two"]) await client().send(new SendMessageCommand({ QueueUrl: url, MessageBody }));
      await client().send(new SendMessageCommand({ QueueUrl: deadLetterUrl, MessageBody: "dead" }));
      expect(await source(url).receive({ max: 1, waitMs: 1_000 })).toHaveLength(1);
      const facts = await queueFacts(client(), url);
      expect(facts).toMatchObject({ waiting: 1, inFlight: 1, delayed: 0, redrive: { maxReceiveCount: 5 } });
      expect(facts.attributes["VisibilityTimeout"]).toBe("360");
      const dead = await queueFactsByArn(client(), facts.redrive?.deadLetterArn ?? "");
      expect(dead).toMatchObject({ waiting: 1, inFlight: 0 });
      expect(dead).not.toHaveProperty("redrive");
      await expect(queueFacts(client(), `${url}-gone`)).rejects.toThrow();
    });
  });
}
