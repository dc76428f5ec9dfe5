import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  QueueNameExists,
  SetQueueAttributesCommand,
} from "@aws-sdk/client-sqs";
import type { QueueAttributeName, SQSClient } from "@aws-sdk/client-sqs";

import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/kube/objects";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { VISIBILITY_SECONDS } from "@deltaloop/base";

type Attributes = Partial<Record<QueueAttributeName, string>>;

/** Source: informer §10.2, §12.3, §19. infra/queues.yml says the same to CloudFormation, and a test compares the two. */
const RETENTION = { MessageRetentionPeriod: String(4 * 24 * 3600) } as const satisfies Attributes;
/** Longer, since a dead letter of a standard queue keeps the day it was sent. SQS keeps nothing for more than 14 days. */
const DEAD_RETENTION = { MessageRetentionPeriod: String(14 * 24 * 3600) } as const satisfies Attributes;
const FIFO = {
  FifoQueue: "true",
  ContentBasedDeduplication: "false",
  DeduplicationScope: "messageGroup",
  FifoThroughputLimit: "perMessageGroupId",
  MaximumMessageSize: String(1024 * 1024),
  ...RETENTION,
} as const satisfies Attributes;

export const DELTA_QUEUE = {
  attributes: { ...FIFO, VisibilityTimeout: String(VISIBILITY_SECONDS.deltas) },
  maxReceiveCount: 1000,
} as const;
/** A function reads it, like Q1. */
export const DEAD_DELTA_QUEUE = {
  ...FIFO,
  ...DEAD_RETENTION,
  VisibilityTimeout: String(VISIBILITY_SECONDS.deadDeltas),
} as const satisfies Attributes;
export const DOORBELL_QUEUE = {
  attributes: { ...RETENTION, VisibilityTimeout: String(VISIBILITY_SECONDS.doorbells) },
  maxReceiveCount: 5,
} as const;
/** Nobody reads it but people. */
export const DOORBELL_DEAD_QUEUE = DEAD_RETENTION;

export interface QueuePair {
  readonly url: string;
  readonly deadLetterUrl: string;
}

export interface LocalQueues<N extends string = Controller> {
  readonly deltas: QueuePair;
  readonly doorbells: { readonly [C in N]: QueuePair };
}

/** What a Configuration says of them. */
export function queueUrls(endpoint: string, { deltas, doorbells }: LocalQueues): Configuration["queues"] {
  return { endpoint, deltas: deltas.url, doorbells: tableOf(CONTROLLERS, (controller) => doorbells[controller].url) };
}

/** The queues of one deployment, `<prefix>-deltas.fifo` and `<prefix>-<controller>`, on any SQS endpoint; those that exist are adjusted. */
export async function createQueues(client: SQSClient, prefix: string): Promise<LocalQueues>;
export async function createQueues<N extends string>(client: SQSClient, prefix: string, controllers: readonly N[]): Promise<LocalQueues<N>>;
export async function createQueues(
  client: SQSClient,
  prefix: string,
  controllers: readonly string[] = CONTROLLERS,
): Promise<LocalQueues<string>> {
  const deltas = createPair(client, `${prefix}-deltas`, ".fifo", DELTA_QUEUE, DEAD_DELTA_QUEUE);
  const doorbells = controllers.map(
    async (name) => [name, await createPair(client, `${prefix}-${name}`, "", DOORBELL_QUEUE, DOORBELL_DEAD_QUEUE)] as const,
  );
  return { deltas: await deltas, doorbells: Object.fromEntries(await Promise.all(doorbells)) };
}

async function createPair(
  client: SQSClient,
  name: string,
  suffix: string,
  queue: { readonly attributes: Attributes; readonly maxReceiveCount: number },
  deadLetters: Attributes,
): Promise<QueuePair> {
  const deadLetterUrl = await createQueue(client, `${name}-dead${suffix}`, deadLetters);
  const { Attributes: found } = await client.send(new GetQueueAttributesCommand({ QueueUrl: deadLetterUrl, AttributeNames: ["QueueArn"] }));
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: found?.QueueArn, maxReceiveCount: queue.maxReceiveCount });
  return { url: await createQueue(client, name + suffix, { ...queue.attributes, RedrivePolicy }), deadLetterUrl };
}

async function createQueue(client: SQSClient, QueueName: string, attributes: Attributes): Promise<string> {
  try {
    return urlOf(await client.send(new CreateQueueCommand({ QueueName, Attributes: attributes })), QueueName);
  } catch (error) {
    if (!(error instanceof QueueNameExists)) throw error;
    // It is there with other attributes, from another version of this program.
    const QueueUrl = urlOf(await client.send(new GetQueueUrlCommand({ QueueName })), QueueName);
    const { FifoQueue: _fixedAtCreation, ...changeable } = attributes;
    await client.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: changeable }));
    return QueueUrl;
  }
}

function urlOf(answer: { readonly QueueUrl?: string | undefined }, name: string): string {
  if (answer.QueueUrl === undefined) throw new Error(`the SQS endpoint gave no URL for queue ${name}`);
  return answer.QueueUrl;
}
