/**
 * Runs all functions in one process, each behind its own event source mapping. The caller passes the deployed handlers, since shared/ may
 * not import functions/.
 */
import type { Controller } from "@deltaloop/kube/objects";
import type { Clock, Log } from "@deltaloop/base";
import type { MessageSource, ReceivedMessage } from "@deltaloop/store/ports";
import { FUNCTION_TIMEOUT_SECONDS } from "@deltaloop/base";
import { startEventSourceMapping } from "./event-source-mapping.ts";
import type { EventSourceMapping, Invocation } from "./event-source-mapping.ts";
import type { SqsHandler } from "@deltaloop/controllers/lambda";
import { syncFunction } from "@deltaloop/controllers/registry";

export interface FunctionHandlers<N extends string = Controller> {
  readonly applyDeltas: SqsHandler;
  readonly deadDeltas: SqsHandler;
  readonly sync: { readonly [C in N]: SqsHandler };
}

export interface FunctionHostOptions<N extends string = Controller> {
  readonly sources: {
    readonly deltas: MessageSource;
    /** The delta queue's dead-letter queue; the in-memory queue has none. */
    readonly deadDeltas?: MessageSource;
    readonly doorbells: { readonly [C in N]: MessageSource };
  };
  readonly handlers: FunctionHandlers<N>;
  readonly clock: Clock;
  readonly log: Log;
  /** The message group of a doorbell, if the queues serve several clusters (EM8). */
  readonly fairGroupOf?: (message: ReceivedMessage) => string;
  /** Maximum concurrency of each sync function, like upstream's `--concurrent-*-syncs`. Default 5. */
  readonly concurrency?: number;
  /** Default: the timeout of deployed functions. */
  readonly syncTimeoutSeconds?: number;
  readonly onInvocation?: (invocation: Invocation) => void;
}

const BATCH_SIZE = 10;
const CONCURRENCY = 5;
/** One invocation per busy lane. Lambda scales with the message groups of a FIFO queue. */
const APPLIER_CONCURRENCY = 10;

export interface FunctionHost {
  /** Event source mappings by function name. */
  readonly mappings: ReadonlyMap<string, EventSourceMapping>;
  /** Stops all mappings; running invocations finish. */
  stop(): Promise<void>;
}

/** Starts an event source mapping for each source. */
export function startFunctionHost<N extends string = Controller>(options: FunctionHostOptions<N>): FunctionHost {
  const { sources, handlers, clock, log, onInvocation, fairGroupOf } = options;
  const mappings = new Map<string, EventSourceMapping>();
  const start = (
    functionName: string,
    source: MessageSource,
    handler: SqsHandler,
    maximumConcurrency: number,
    timeoutSeconds: number,
    fair = {},
  ) => {
    const queueArn = `arn:aws:sqs:us-east-1:000000000000:${functionName}`;
    const limits = { batchSize: BATCH_SIZE, maximumConcurrency, timeoutMs: timeoutSeconds * 1000 };
    const mapping = { functionName, queueArn, handler, ...limits, ...fair, ...(onInvocation && { onInvocation }) };
    mappings.set(functionName, startEventSourceMapping({ source, clock, log }, mapping));
  };
  const limits = FUNCTION_TIMEOUT_SECONDS;
  start("apply-deltas", sources.deltas, handlers.applyDeltas, APPLIER_CONCURRENCY, limits["apply-deltas"]);
  if (sources.deadDeltas) start("dead-deltas", sources.deadDeltas, handlers.deadDeltas, APPLIER_CONCURRENCY, limits["dead-deltas"]);
  // Object.keys loses the key type.
  for (const controller of Object.keys(handlers.sync) as N[])
    start(
      syncFunction(controller),
      sources.doorbells[controller],
      handlers.sync[controller],
      options.concurrency ?? CONCURRENCY,
      options.syncTimeoutSeconds ?? limits.sync,
      fairGroupOf && { fairGroupOf },
    );
  return { mappings, stop: async () => void (await Promise.all([...mappings.values()].map((mapping) => mapping.stop()))) };
}
