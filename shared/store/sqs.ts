export { sqsCalls } from "./sqs/calls.ts";
export type { SqsCalls } from "./sqs/calls.ts";
export { sqsClient } from "./sqs/client.ts";
export { createSqsDeltaQueue } from "./sqs/delta-queue.ts";
export { createSqsDoorbells } from "./sqs/doorbells.ts";
export { createSqsMessageSource } from "./sqs/message-source.ts";
export { queueFacts, queueFactsByArn } from "./sqs/queue-facts.ts";
export type { QueueFacts } from "./sqs/queue-facts.ts";
