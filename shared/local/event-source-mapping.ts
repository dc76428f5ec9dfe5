/**
 * A local implementation of Lambda's event source mapping for SQS: polls a queue, builds SQS events, invokes a handler, and removes the
 * messages that succeeded. The queue keeps visibility, receive counts and dead letters.
 *
 * EM1 A record is removed only after an invocation that succeeded and did not report it as failed.
 * EM2 A failed record stays invisible until its visibility timeout ends. This mapping never shortens it; a handler may.
 * EM3 A throw, a timeout or an invalid response fails the whole batch.
 * EM4 At most `maximumConcurrency` invocations run. While fewer run, a ready batch is invoked at once.
 * EM5 At most one batch of a message group is in flight, and messages of a group keep the order in which they were received.
 * EM6 An invocation that timed out frees its slot and groups. Its late response still removes its records: Lambda ends such a process, but
 *     here a process that was paused continues, and its groups would otherwise wait until the visibility timeout ends.
 * EM7 While an invocation runs, the next poll waits for its end, at most GATHER_MS, unless the last poll was full. So a batch takes what
 *     arrived meanwhile, and processes are woken less often. An idle function gets a message at once.
 *
 * EM8 With fair queues, a standard queue's groups with fewer messages in flight are served first, however many messages of another group were
 *     sent before. A group alone is served without limit, and nothing is ordered. SQS documents this goal but no threshold, so the exact
 *     order is ours and unproven on AWS. The emulator has no fair queues: this mapping receives FAIR_MESSAGES_MAX messages ahead.
 *
 * Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS" and "Implementing partial batch responses"; Amazon SQS Developer Guide,
 * "Amazon SQS fair queues".
 */
import type { SqsHandler } from "@deltaloop/controllers/lambda";
import type { Clock, Log } from "@deltaloop/base";
import type { MessageSource, ReceivedMessage } from "@deltaloop/store/ports";
import { failedIds } from "./batch-response.ts";
import { invocationContext, sqsEvent } from "./invocation.ts";
import { messageOf } from "@deltaloop/kube/objects";

export interface EventSourceMappingOptions {
  readonly functionName: string;
  readonly queueArn: string;
  readonly handler: SqsHandler;
  /** 1 to 10, and up to 10,000 on a standard queue with a batching window. */
  readonly batchSize: number;
  /** Standard queues only: time that a batch waits for further messages. Default 0. */
  readonly batchingWindowMs?: number;
  readonly maximumConcurrency: number;
  /** Returns the message group of a message of a standard queue with fair queues (EM8). If absent, groups are those of a FIFO queue (EM5). */
  readonly fairGroupOf?: (message: ReceivedMessage) => string;
  /** The function's timeout. */
  readonly timeoutMs: number;
  /** Whether FunctionResponseTypes contains ReportBatchItemFailures. Default true. */
  readonly reportBatchItemFailures?: boolean;
  /** Length of one poll. It is short, since the messages of a poll are invisible for some time if the process is killed. Default 1 s. */
  readonly pollMs?: number;
  readonly onInvocation?: (invocation: Invocation) => void;
}

/** The outcome of one invocation, for display and tests. */
export interface Invocation {
  readonly function: string;
  readonly records: number;
  readonly durationMs: number;
  /** Records that stay in the queue. */
  readonly failures: number;
  /** Why the whole batch failed, if it did. */
  readonly error?: string;
}

export interface EventSourceMapping {
  /** Stops polling, waits up to 5 s for running invocations, and makes undispatched messages visible again. */
  stop(): Promise<void>;
  /** Returns the number of running invocations. */
  running(): number;
}

/** Lambda's payload limit of one invocation. */
const EVENT_BYTES_MAX = 6 * 1024 * 1024;
const RECEIVE_MAX = 10;
/** The messages of a burst of one group that cannot delay another group. Their visibility timeout is much longer than their wait. */
const FAIR_MESSAGES_MAX = 1_000;
const POLL_MS = 1_000;
const DRAIN_MS_MAX = 5_000;
const RETRY_POLL_MS = 1_000;
/** The duration of a short invocation under load. */
const GATHER_MS = 5;

export function startEventSourceMapping(
  ports: { readonly source: MessageSource; readonly clock: Clock; readonly log: Log },
  options: EventSourceMappingOptions,
): EventSourceMapping {
  const { source, clock, log } = ports;
  const { functionName, maximumConcurrency, fairGroupOf } = options;
  const stopping = new AbortController();
  /** Received messages that are not dispatched yet, in order. */
  let waiting: readonly ReceivedMessage[] = [];
  const busyGroups = new Set<string>();
  /** Messages in flight of each group of a fair queue. */
  const inFlight = new Map<string, number>();
  const running = new Set<Promise<void>>();
  let invocations = 0;
  let wakePoller: (() => void) | undefined;
  /** Whether the last poll returned as many messages as it asked for, so that more may wait. */
  let wasFull = false;

  const polling = poll();

  async function poll(): Promise<void> {
    while (!stopping.signal.aborted) {
      if (fairGroupOf ? waiting.length >= FAIR_MESSAGES_MAX : running.size >= maximumConcurrency || waiting.length >= options.batchSize) {
        await new Promise<void>((resolve) => (wakePoller = resolve));
        continue;
      }
      if (running.size > 0 && !wasFull) {
        await gather();
        if (stopping.signal.aborted) return;
      }
      try {
        const wanted = Math.min(options.batchSize - waiting.length, RECEIVE_MAX);
        const messages = await collect();
        wasFull = messages.length >= wanted;
        waiting = [...waiting, ...messages]; // read after the wait: invocations that ended meanwhile have dispatched some
      } catch (error) {
        log.warn("polling failed", { function: functionName, error: messageOf(error) });
        await clock.after(RETRY_POLL_MS, stopping.signal).catch(() => undefined);
      }
      dispatch();
    }
  }

  /** Waits until an invocation ends, at most GATHER_MS (EM7). */
  async function gather(): Promise<void> {
    const ended = new AbortController();
    wakePoller = () => ended.abort("ended"); // the reason avoids the exception with a stack that abort() would create
    await clock.after(GATHER_MS, ended.signal).catch(() => undefined);
    wakePoller = undefined;
  }

  /** Receives once, or repeatedly until the batching window ends. */
  async function collect(): Promise<readonly ReceivedMessage[]> {
    const wanted = (fairGroupOf ? FAIR_MESSAGES_MAX : options.batchSize) - waiting.length;
    const first = await receive(wanted, options.pollMs ?? POLL_MS);
    const windowMs = options.batchingWindowMs ?? 0;
    if (first.length === 0 || windowMs === 0) return first;
    const messages = [...first];
    const endMs = clock.now() + windowMs;
    while (messages.length < wanted && clock.now() < endMs && !stopping.signal.aborted) {
      messages.push(...(await receive(wanted - messages.length, endMs - clock.now())));
    }
    return messages;
  }

  async function receive(max: number, waitMs: number): Promise<readonly ReceivedMessage[]> {
    return await source.receive({ max: Math.min(max, RECEIVE_MAX), waitMs });
  }

  /** Invokes the handler with as many batches as concurrency allows (EM4). */
  function dispatch(): void {
    while (running.size < maximumConcurrency && !stopping.signal.aborted) {
      const batch = fairGroupOf ? nextFairBatch(fairGroupOf) : nextBatch();
      if (batch.length === 0) return;
      const invocation = invoke(batch).finally(() => {
        running.delete(invocation);
        dispatch();
        wakePoller?.();
      });
      running.add(invocation);
    }
  }

  /** Takes the first messages whose group has no batch in flight; skipped groups keep their order (EM5). */
  function nextBatch(): readonly ReceivedMessage[] {
    const batch: ReceivedMessage[] = [];
    const rest: ReceivedMessage[] = [];
    const passed = new Set<string>(busyGroups);
    let bytes = 0;
    for (const message of waiting) {
      const { group } = message;
      const size = Buffer.byteLength(message.body);
      const fits = batch.length < options.batchSize && (batch.length === 0 || bytes + size <= EVENT_BYTES_MAX);
      if (fits && (group === undefined || !passed.has(group))) {
        batch.push(message);
        bytes += size;
      } else {
        rest.push(message);
        if (group !== undefined) passed.add(group);
      }
    }
    waiting = rest;
    for (const { group } of batch) if (group !== undefined) busyGroups.add(group);
    return batch;
  }

  /** Takes messages one by one of the group with the fewest in flight, and of those of a group the first (EM8). */
  function nextFairBatch(groupOf: (message: ReceivedMessage) => string): readonly ReceivedMessage[] {
    const byGroup = Map.groupBy(waiting, groupOf);
    const batch: ReceivedMessage[] = [];
    let bytes = 0;
    while (batch.length < options.batchSize && byGroup.size > 0) {
      const [group, messages] = [...byGroup].reduce((a, b) => ((inFlight.get(b[0]) ?? 0) < (inFlight.get(a[0]) ?? 0) ? b : a));
      const [message] = messages;
      if (message === undefined) {
        byGroup.delete(group);
        continue;
      }
      bytes += Buffer.byteLength(message.body);
      if (batch.length > 0 && bytes > EVENT_BYTES_MAX) break;
      batch.push(message);
      byGroup.set(group, messages.slice(1));
      inFlight.set(group, (inFlight.get(group) ?? 0) + 1);
    }
    const taken = new Set(batch);
    waiting = waiting.filter((message) => !taken.has(message));
    return batch;
  }

  /** Frees the groups of a batch. */
  function free(batch: readonly ReceivedMessage[]): void {
    for (const message of batch) {
      if (fairGroupOf) {
        const group = fairGroupOf(message);
        const left = (inFlight.get(group) ?? 1) - 1;
        if (left === 0) inFlight.delete(group);
        else inFlight.set(group, left);
      } else if (message.group !== undefined) busyGroups.delete(message.group);
    }
  }

  async function invoke(batch: readonly ReceivedMessage[]): Promise<void> {
    const startedAtMs = clock.now();
    const { failed, error } = await outcomeOf(batch, `${functionName}-${++invocations}`);
    await removeDone(batch, failed);
    free(batch);
    if (error !== undefined) log.warn("invocation failed", { function: functionName, records: batch.length, error });
    options.onInvocation?.({
      function: functionName,
      records: batch.length,
      durationMs: clock.now() - startedAtMs,
      failures: failed.size,
      ...(error === undefined ? {} : { error }),
    });
  }

  async function removeDone(batch: readonly ReceivedMessage[], failed: ReadonlySet<string>): Promise<void> {
    try {
      const done = batch.filter(({ messageId }) => !failed.has(messageId)).map(({ receipt }) => receipt);
      if (done.length > 0) await source.remove(done);
    } catch (removal) {
      // Handlers are idempotent, so a redelivery changes nothing.
      log.warn("failed to remove messages; they will be delivered again", { function: functionName, error: messageOf(removal) });
    }
  }

  /** Returns the ids of the failed records: all of them if the invocation failed (EM3). */
  async function outcomeOf(
    batch: readonly ReceivedMessage[],
    requestId: string,
  ): Promise<{ readonly failed: ReadonlySet<string>; readonly error?: string }> {
    const ids = batch.map(({ messageId }) => messageId);
    const deadlineMs = clock.now() + options.timeoutMs;
    const ended = new AbortController();
    let isLate = false;
    const timeOut = clock.after(options.timeoutMs, ended.signal).then(() => {
      isLate = true;
      throw new Error(`timed out after ${options.timeoutMs} ms`);
    });
    timeOut.catch(() => undefined); // the abort below rejects this promise after the race
    const context = invocationContext({ functionName, requestId, remainingMs: () => Math.max(0, deadlineMs - clock.now()) });
    // The wrapper also catches a handler that throws synchronously.
    const answered = Promise.resolve()
      .then(() => options.handler(sqsEvent(batch, options.queueArn), context))
      .then((answer) => (options.reportBatchItemFailures === false ? new Set<string>() : failedIds(answer, ids)));
    try {
      return { failed: await Promise.race([answered, timeOut]) };
    } catch (error) {
      if (isLate)
        void answered.then(
          (failed) => removeDone(batch, failed),
          () => undefined,
        );
      return { failed: new Set(ids), error: messageOf(error) };
    } finally {
      ended.abort("ended");
    }
  }

  return {
    running: () => running.size,
    async stop() {
      stopping.abort();
      wakePoller?.();
      const drained = new AbortController();
      const limit = clock.after(DRAIN_MS_MAX, drained.signal).catch(() => undefined);
      await Promise.race([Promise.all([polling, ...running]), limit]);
      drained.abort();
      const held = waiting.map(({ receipt }) => receipt);
      waiting = [];
      if (held.length > 0)
        await source
          .setVisibility(held, 0)
          .catch((error: unknown) => log.warn("failed to make messages visible again", { error: messageOf(error) }));
    },
  };
}
