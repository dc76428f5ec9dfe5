import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";

/** A queue function, as in @types/aws-lambda, without the callback of the first Node.js runtime. */
export type SqsHandler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse | void>;
