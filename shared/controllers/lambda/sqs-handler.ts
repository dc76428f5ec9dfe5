import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";

/** A function on a queue, as @types/aws-lambda has it, without the callback of the first Node.js runtime. */
export type SqsHandler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse | void>;
