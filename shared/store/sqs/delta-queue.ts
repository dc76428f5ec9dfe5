import type { BatchResultErrorEntry } from "@aws-sdk/client-sqs";

import type { DeltaQueue, QueueEntry, SendResult } from "../ports/delta-queue.ts";
import type { SqsCalls } from "./calls.ts";
import { BATCH_BYTES_MAX, BATCH_ENTRIES_MAX, batches, CALL_TIMEOUT_MS } from "./limits.ts";
import { messageOf } from "@deltaloop/kube/objects";

type Failed = SendResult["failed"][number];

/**
 * The delta queue on SQS FIFO. A message above the size limit fails by its id without being sent; the others are sent (DQ7). Messages that
 * several streams send in one event-loop turn share one call if they fit.
 */
export function createSqsDeltaQueue(sqs: SqsCalls, options: { readonly queueUrl: string }): DeltaQueue {
  return inOneCall({
    async send(entries) {
      const tooLarge = entries.filter((entry) => sizeOf(entry) > BATCH_BYTES_MAX);
      const failed: Failed[] = tooLarge.map(({ id }) => ({ id, reason: `over ${BATCH_BYTES_MAX} bytes`, permanent: true }));
      const sendable = tooLarge.length === 0 ? entries : entries.filter((entry) => !tooLarge.includes(entry));
      let sent = 0;
      for (const batch of batches(sendable, sizeOf)) {
        try {
          failed.push(...(await sendBatch(batch)));
        } catch (error) {
          // Earlier entries have results, so the others are reported as failed instead of throwing. To keep the order, nothing is sent
          // after a failed entry.
          if (sent === 0 && tooLarge.length === 0) throw error;
          const reason = messageOf(error);
          failed.push(...sendable.slice(sent).map(({ id }) => ({ id, reason, permanent: false })));
          break;
        }
        sent += batch.length;
      }
      return { failed };
    },
  });

  async function sendBatch(batch: readonly QueueEntry[]): Promise<readonly Failed[]> {
    const input = {
      QueueUrl: options.queueUrl,
      // Ids inside a batch are positions: message ids may exceed the 80 characters that SQS allows here.
      Entries: batch.map(({ group, id, body }, index) => ({
        Id: String(index),
        MessageBody: body,
        MessageGroupId: group,
        MessageDeduplicationId: id,
      })),
    };
    const answer = await sqs.call("SendMessageBatch", input, { timeoutMs: CALL_TIMEOUT_MS });
    return (answer.Failed ?? []).flatMap((failure) => {
      const entry = batch[Number(failure.Id)];
      return entry === undefined ? [] : [{ id: entry.id, reason: reasonOf(failure), permanent: isPermanent(failure) }];
    });
  }
}

interface Asked {
  readonly entries: readonly QueueEntry[];
  readonly answered: PromiseWithResolvers<SendResult>;
}

/** Each caller gets the results of its own entries, and the error of a failed call. Entries of one caller stay together. */
function inOneCall(queue: DeltaQueue): DeltaQueue {
  let asked: Asked[] = [];

  async function flush(): Promise<void> {
    const all = asked;
    asked = [];
    await Promise.all(together(all).map(sendTogether));
  }

  async function sendTogether(calls: readonly Asked[]): Promise<void> {
    try {
      const { failed } = await queue.send(calls.flatMap(({ entries }) => entries));
      for (const { entries, answered } of calls) {
        const ids = new Set(entries.map(({ id }) => id));
        answered.resolve({ failed: failed.filter(({ id }) => ids.has(id)) });
      }
    } catch (error) {
      for (const { answered } of calls) answered.reject(error);
    }
  }

  return {
    send(entries) {
      if (asked.length === 0) setImmediate(() => void flush());
      const answered = Promise.withResolvers<SendResult>();
      asked.push({ entries, answered });
      return answered.promise;
    },
  };
}

/** Groups consecutive requests that fit in one call. */
function together(asked: readonly Asked[]): readonly (readonly Asked[])[] {
  const out: Asked[][] = [];
  let [count, bytes] = [0, 0];
  for (const each of asked) {
    const size = each.entries.reduce((sum, entry) => sum + sizeOf(entry), 0);
    const last = out.at(-1);
    if (last === undefined || count + each.entries.length > BATCH_ENTRIES_MAX || bytes + size > BATCH_BYTES_MAX) {
      out.push([each]);
      [count, bytes] = [each.entries.length, size];
    } else {
      last.push(each);
      [count, bytes] = [count + each.entries.length, bytes + size];
    }
  }
  return out;
}

function sizeOf(entry: QueueEntry): number {
  return Buffer.byteLength(entry.body);
}

function reasonOf({ Code, Message }: BatchResultErrorEntry): string {
  return [Code, Message].filter((text) => text !== undefined).join(": ");
}

/** SQS reports throttling as a sender fault, too. */
function isPermanent({ SenderFault, Code }: BatchResultErrorEntry): boolean {
  return SenderFault === true && !/throttl|unavailable|timeout/i.test(Code ?? "");
}
