/**
 * The record loop of every function on a queue: each record is settled by itself, what failed is answered by id.
 *
 * B1 every record is settled, however many others fail; nothing a record does can make the batch throw.
 * B2 records of one message group are handled in their order, one at a time; groups, and records without one, in parallel.
 * B3 when a record fails, it and the later ones of its group stay in the queue, the later ones untried; other groups go on.
 * B4 what stays is visible again after seconds, not after the queue's visibility time-out (informer §11.2 step 6).
 */
import type { SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";

import { describeError, toError } from "../controller/errors.ts";
import type { MessageSource } from "../ports/delta-queue.ts";
import type { Log } from "../ports/log.ts";

export type RecordOutcome = { readonly kind: "ack" } | { readonly kind: "retry"; readonly afterSeconds: number; readonly why: string };

/** A short outage of Redis must not cost the whole visibility time-out. */
const RETRY_SECONDS = 5;

export interface BatchOptions {
  readonly log: Log;
  /** The queue the records came from. Absent: what failed waits for its visibility time-out. */
  readonly source?: Pick<MessageSource, "setVisibility">;
}

/** Hands every record to `handle` and answers which ones stay in the queue. A throw of `handle` is a retry. */
export async function settleRecords(
  event: SQSEvent,
  handle: (record: SQSRecord) => Promise<RecordOutcome>,
  options: BatchOptions,
): Promise<SQSBatchResponse> {
  const failed: { readonly record: SQSRecord; readonly afterSeconds: number }[] = [];
  await Promise.all(
    groupsOf(event.Records).map(async (group) => {
      for (const [index, record] of group.entries()) {
        const outcome = await outcomeOf(record, handle, options.log);
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
  await makeVisible(failed, options);
  return { batchItemFailures: failed.map(({ record }) => ({ itemIdentifier: record.messageId })) };
}

async function outcomeOf(record: SQSRecord, handle: (record: SQSRecord) => Promise<RecordOutcome>, log: Log): Promise<RecordOutcome> {
  try {
    return await handle(record);
  } catch (error) {
    const why = describeError(toError(error));
    log.error("record failed", {
      messageId: record.messageId,
      receiveCount: Number(record.attributes.ApproximateReceiveCount),
      error: why,
    });
    return { kind: "retry", afterSeconds: RETRY_SECONDS, why };
  }
}

function groupsOf(records: readonly SQSRecord[]): readonly (readonly SQSRecord[])[] {
  // A record without a group is a group of its own; message ids are never empty and never a group's name with this prefix.
  return [...Map.groupBy(records, ({ messageId, attributes }) => attributes.MessageGroupId ?? `message ${messageId}`).values()];
}

async function makeVisible(
  failed: readonly { readonly record: SQSRecord; readonly afterSeconds: number }[],
  { source, log }: BatchOptions,
): Promise<void> {
  if (source === undefined) return;
  for (const [seconds, group] of Map.groupBy(failed, ({ afterSeconds }) => afterSeconds)) {
    try {
      await source.setVisibility(
        group.map(({ record }) => record.receiptHandle),
        seconds,
      );
    } catch (error) {
      log.warn("visibility was not changed, the records come back later", { records: group.length, error: describeError(toError(error)) });
    }
  }
}
