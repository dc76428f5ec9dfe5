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

/** Source: informer §10.2, §12.3, §19. infra/queues.yml is generated from these attributes. */
const RETENTION = { MessageRetentionPeriod: String(4 * 24 * 3600) } as const satisfies Attributes;
/**
 * Retention of dead letters, which is longer because a dead letter of a standard queue keeps its original send time. 14 days is the maximum
 * of SQS.
 */
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
/** The delta queue's dead-letter queue. It has a visibility timeout, because the function dead-deltas reads it. */
export const DEAD_DELTA_QUEUE = {
  ...FIFO,
  ...DEAD_RETENTION,
  VisibilityTimeout: String(VISIBILITY_SECONDS.deadDeltas),
} as const satisfies Attributes;
export const DOORBELL_QUEUE = {
  attributes: { ...RETENTION, VisibilityTimeout: String(VISIBILITY_SECONDS.doorbells) },
  maxReceiveCount: 5,
} as const;
/** The dead-letter queue of doorbells, which no function reads; it is for operators. */
export const DOORBELL_DEAD_QUEUE = DEAD_RETENTION;

export interface QueuePair {
  readonly url: string;
  readonly deadLetterUrl: string;
}

export interface LocalQueues<N extends string = Controller> {
  readonly deltas: QueuePair;
  readonly doorbells: { readonly [C in N]: QueuePair };
}

/** Returns the queue URLs as the `queues` field of a Configuration. */
export function queueUrls(endpoint: string, { deltas, doorbells }: LocalQueues): Configuration["queues"] {
  return { endpoint, deltas: deltas.url, doorbells: tableOf(CONTROLLERS, (controller) => doorbells[controller].url) };
}

/**
 * Creates the queues of one deployment, `<prefix>-deltas.fifo` and `<prefix>-<controller>`, and updates the attributes of existing queues.
 */
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
    // The queue exists with other attributes, from another version of deltaloop.
    const QueueUrl = urlOf(await client.send(new GetQueueUrlCommand({ QueueName })), QueueName);
    const { FifoQueue: _immutable, ...mutable } = attributes;
    await client.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: mutable }));
    return QueueUrl;
  }
}

function urlOf(answer: { readonly QueueUrl?: string | undefined }, name: string): string {
  if (answer.QueueUrl === undefined) throw new Error(`the SQS endpoint returned no URL for queue ${name}`);
  return answer.QueueUrl;
}
