/** The applier: writes delta messages to the cache, and sends doorbells for the affected keys. */
import { deployedQueue } from "@deltaloop/controllers/clusters";
import { createApplierFunction } from "@deltaloop/controllers/lambda";
import type { SqsHandler } from "@deltaloop/controllers/lambda";

export const createApplyDeltas = createApplierFunction;

export const handler: SqsHandler = deployedQueue("apply-deltas", "deltas", createApplyDeltas);
