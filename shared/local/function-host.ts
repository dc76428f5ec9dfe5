/**
 * All functions in one process, each behind an event source mapping of its own: what Lambda does in production, for
 * `deltaloop dev`, the demo, replay and simulation. The handlers are the deployed ones, called with real SQS events; the
 * caller brings them, because shared/ knows no functions.
 */
import type { Controller } from "../api/resources.ts";
import type { Clock } from "../ports/clock.ts";
import type { MessageSource } from "../ports/delta-queue.ts";
import type { Log } from "../ports/log.ts";
import { FUNCTION_TIMEOUT_SECONDS } from "../ports/times.ts";
import { startEventSourceMapping } from "./event-source-mapping.ts";
import type { Invocation } from "./event-source-mapping.ts";
import type { SqsHandler } from "../lambda/sqs-handler.ts";
import { syncFunction } from "../registry/names.ts";

export interface FunctionHandlers<N extends string = Controller> {
  readonly applyDeltas: SqsHandler;
  readonly deadDeltas: SqsHandler;
  readonly sync: { readonly [C in N]: SqsHandler };
}

export interface FunctionHostOptions<N extends string = Controller> {
  readonly sources: {
    readonly deltas: MessageSource;
    /** Q1's dead-letter queue; a Q1 in memory has none. */
    readonly deadDeltas?: MessageSource;
    readonly doorbells: { readonly [C in N]: MessageSource };
  };
  readonly handlers: FunctionHandlers<N>;
  readonly clock: Clock;
  readonly log: Log;
  /** Invocations of one sync function at a time; upstream's `--concurrent-*-syncs`. Default 5. */
  readonly concurrency?: number;
  readonly onInvocation?: (invocation: Invocation) => void;
}

const BATCH_SIZE = 10;
const CONCURRENCY = 5;
/** One invocation per busy lane; Lambda scales with the groups of a FIFO queue by itself. */
const APPLIER_CONCURRENCY = 10;

/** Starts a mapping for each source; the answer stops them all, letting what runs finish. */
export function startFunctionHost<N extends string = Controller>(options: FunctionHostOptions<N>): { stop(): Promise<void> } {
  const { sources, handlers, clock, log, onInvocation } = options;
  const start = (
    functionName: string,
    source: MessageSource,
    handler: SqsHandler,
    limits: { readonly maximumConcurrency: number; readonly timeoutMs: number },
  ) =>
    startEventSourceMapping(
      { source, clock, log },
      {
        functionName,
        queueArn: `arn:aws:sqs:us-east-1:000000000000:${functionName}`,
        handler,
        batchSize: BATCH_SIZE,
        ...limits,
        ...(onInvocation && { onInvocation }),
      },
    );
  const syncLimits = { maximumConcurrency: options.concurrency ?? CONCURRENCY, timeoutMs: FUNCTION_TIMEOUT_SECONDS.sync * 1000 };
  const limitsOf = (name: "apply-deltas" | "dead-deltas") => ({
    maximumConcurrency: APPLIER_CONCURRENCY,
    timeoutMs: FUNCTION_TIMEOUT_SECONDS[name] * 1000,
  });
  const mappings = [
    start("apply-deltas", sources.deltas, handlers.applyDeltas, limitsOf("apply-deltas")),
    ...(sources.deadDeltas ? [start("dead-deltas", sources.deadDeltas, handlers.deadDeltas, limitsOf("dead-deltas"))] : []),
    // A table has the keys of its type; `keys` forgets which.
    ...(Object.keys(handlers.sync) as N[]).map((controller) =>
      start(syncFunction(controller), sources.doorbells[controller], handlers.sync[controller], syncLimits),
    ),
  ];
  return { stop: async () => void (await Promise.all(mappings.map((mapping) => mapping.stop()))) };
}
