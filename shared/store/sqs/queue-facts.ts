/** Attributes of a queue and its dead-letter queue. Reads only; receives no message. */
import { GetQueueAttributesCommand, GetQueueUrlCommand } from "@aws-sdk/client-sqs";
import type { SQSClient } from "@aws-sdk/client-sqs";

import { CALL_TIMEOUT_MS } from "./limits.ts";

export interface QueueFacts {
  /** Attributes with the names and formats of SQS: `VisibilityTimeout: "30"`. */
  readonly attributes: Readonly<Record<string, string | undefined>>;
  /** Approximate number of waiting messages; the next fields have the messages in flight and the delayed ones. */
  readonly waiting: number;
  readonly inFlight: number;
  readonly delayed: number;
  readonly redrive?: { readonly deadLetterArn: string; readonly maxReceiveCount: number };
}

export async function queueFacts(client: SQSClient, QueueUrl: string): Promise<QueueFacts> {
  const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] });
  const answer = await client.send(command, { requestTimeout: CALL_TIMEOUT_MS });
  const attributes: Readonly<Record<string, string | undefined>> = answer.Attributes ?? {};
  const count = (name: string): number => Number(attributes[name] ?? 0);
  // Servers return the count as a number or a string.
  const policy = JSON.parse(attributes["RedrivePolicy"] ?? "{}") as { deadLetterTargetArn?: string; maxReceiveCount?: number | string };
  return {
    attributes,
    waiting: count("ApproximateNumberOfMessages"),
    inFlight: count("ApproximateNumberOfMessagesNotVisible"),
    delayed: count("ApproximateNumberOfMessagesDelayed"),
    ...(policy.deadLetterTargetArn !== undefined && {
      redrive: { deadLetterArn: policy.deadLetterTargetArn, maxReceiveCount: Number(policy.maxReceiveCount) },
    }),
  };
}

/** The queue at an ARN, `arn:aws:sqs:<region>:<account>:<name>`. */
export async function queueFactsByArn(client: SQSClient, arn: string): Promise<QueueFacts> {
  const [QueueName = "", account] = arn.split(":").toReversed();
  const command = new GetQueueUrlCommand({ QueueName, ...(account && { QueueOwnerAWSAccountId: account }) });
  const { QueueUrl = "" } = await client.send(command, { requestTimeout: CALL_TIMEOUT_MS });
  return await queueFacts(client, QueueUrl);
}
