/**
 * The record loop of every queue function: settles each record on its own and returns the ids of failed ones.
 *
 * BA1 every record is settled, however many others fail; no record can make the batch throw.
 * BA2 records of one message group are handled in order, one at a time; groups, and records without one, in parallel.
 * BA3 a failed record and the later ones of its group stay in the queue, the later ones untried; other groups continue.
 * BA4 they are visible again after seconds, not after the queue's visibility timeout (informer §11.2 step 6).
 * BA5 records that are not settled a second before the invocation ends are logged and returned as failed. Otherwise Lambda would end the
 *    function without a log line, and fail the settled ones as well.
 */
import type { SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";

import type { Clock, Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import type { MessageSource } from "@deltaloop/store/ports";
import type { Metrics } from "@deltaloop/base/metrics";
import { ANSWER_RESERVE_MS } from "@deltaloop/base";

export type RecordOutcome = { readonly kind: "ack" } | { readonly kind: "retry"; readonly afterSeconds: number; readonly why: string };

/** Shorter than the queue's visibility timeout, so that a short outage of Redis delays records only briefly. */
export const RETRY_SECONDS = 5;

const OUT_OF_TIME: RecordOutcome = { kind: "retry", afterSeconds: RETRY_SECONDS, why: "the invocation ends" };

export interface BatchOptions {
  readonly log: Log;
  /** When the invocation ends (BA5). Absent if the host sets no such limit. */
  readonly ends?: { readonly clock: Clock; readonly remainingMs: number };
  readonly metrics?: Pick<Metrics, "flush">;
  /** The queue of the records. If absent, failed records wait for the visibility timeout. */
  readonly source?: Pick<MessageSource, "setVisibility">;
}

/**
 * Passes every record to `handle` and returns the records that stay in the queue. A throw of `handle` is a retry. A call that is unfinished
 * at the end of the invocation continues, and its result is ignored.
 */
export async function settleRecords(
  event: SQSEvent,
  handle: (record: SQSRecord) => Promise<RecordOutcome>,
  options: BatchOptions,
): Promise<SQSBatchResponse> {
  const settled = new AbortController();
  let isOver = false;
  const over = waitFor(options, (remainingMs) => remainingMs - ANSWER_RESERVE_MS, settled.signal).then(() => {
    isOver = true;
    return OUT_OF_TIME;
  });
  const failed: Failed[number][] = [];
  await Promise.all(
    groupsOf(event.Records).map(async (group) => {
      for (const [index, record] of group.entries()) {
        const outcome = isOver ? OUT_OF_TIME : await Promise.race([outcomeOf(record, handle, options.log), over]);
        if (outcome.kind === "ack") continue;
        const { afterSeconds } = outcome;
        options.log.warn("record stays in the queue", {
          messageId: record.messageId,
          afterSeconds,
          why: outcome.why,
          heldBack: group.length - index - 1,
        });
        failed.push(...group.slice(index).map((left) => ({ record: left, afterSeconds })));
        return;
      }
    }),
  );
  settled.abort("settled");
  await makeVisible(failed, options);
  options.metrics?.flush?.();
  return { batchItemFailures: failed.map(({ record }) => ({ itemIdentifier: record.messageId })) };
}

type Failed = readonly { readonly record: SQSRecord; readonly afterSeconds: number }[];

async function outcomeOf(record: SQSRecord, handle: (record: SQSRecord) => Promise<RecordOutcome>, log: Log): Promise<RecordOutcome> {
  try {
    return await handle(record);
  } catch (error) {
    const why = describeError(error);
    log.error("record failed", {
      messageId: record.messageId,
      receiveCount: Number(record.attributes.ApproximateReceiveCount),
      error: why,
    });
    return { kind: "retry", afterSeconds: RETRY_SECONDS, why };
  }
}

function groupsOf(records: readonly SQSRecord[]): readonly (readonly SQSRecord[])[] {
  // A record without a group forms a separate group. No group name begins with this prefix.
  return [...Map.groupBy(records, ({ messageId, attributes }) => attributes.MessageGroupId ?? `message ${messageId}`).values()];
}

/** Best effort within the remaining time: other records return after the visibility timeout. */
export async function makeVisible(failed: Failed, options: BatchOptions): Promise<void> {
  if (failed.length === 0) return;
  const done = new AbortController();
  await Promise.race([changeVisibility(failed, options), waitFor(options, () => ANSWER_RESERVE_MS / 2, done.signal)]);
  done.abort("done");
}

/** Resolves after the time that `ms` derives from the remaining time; never if `signal` aborts first or no end is set. */
function waitFor({ ends }: BatchOptions, ms: (remainingMs: number) => number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    ends?.clock.after(ms(ends.remainingMs), signal).then(resolve, () => undefined);
  });
}

async function changeVisibility(failed: Failed, { source, log }: BatchOptions): Promise<void> {
  if (source === undefined) return;
  for (const [seconds, group] of Map.groupBy(failed, ({ afterSeconds }) => afterSeconds)) {
    try {
      await source.setVisibility(
        group.map(({ record }) => record.receiptHandle),
        seconds,
      );
    } catch (error) {
      log.warn("failed to change the visibility timeout; the records are redelivered later", {
        records: group.length,
        error: describeError(error),
      });
    }
  }
}
