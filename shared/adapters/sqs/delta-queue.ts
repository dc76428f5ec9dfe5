import type { BatchResultErrorEntry } from "@aws-sdk/client-sqs";

import type { DeltaQueue, QueueEntry, SendResult } from "../../ports/delta-queue.ts";
import type { SqsCalls } from "./calls.ts";
import { BATCH_BYTES_MAX, batches, CALL_TIMEOUT_MS } from "./limits.ts";
import { messageOf } from "../../api/errors.ts";

type Failed = SendResult["failed"][number];

/** Q1 on an SQS FIFO queue. A message larger than SQS takes fails by its id without being sent, its neighbours are sent (DQ7). */
export function createSqsDeltaQueue(sqs: SqsCalls, options: { readonly queueUrl: string }): DeltaQueue {
  return {
    async send(entries) {
      const tooLarge = entries.filter((entry) => sizeOf(entry) > BATCH_BYTES_MAX);
      const failed: Failed[] = tooLarge.map(({ id }) => ({ id, reason: `over ${BATCH_BYTES_MAX} bytes`, permanent: true }));
      const sendable = tooLarge.length === 0 ? entries : entries.filter((entry) => !tooLarge.includes(entry));
      let sent = 0;
      for (const batch of batches(sendable, sizeOf)) {
        try {
          failed.push(...(await sendBatch(batch)));
        } catch (error) {
          // Something is known of the entries before: the rest is reported, not thrown, and not sent out of order.
          if (sent === 0 && tooLarge.length === 0) throw error;
          const reason = messageOf(error);
          failed.push(...sendable.slice(sent).map(({ id }) => ({ id, reason, permanent: false })));
          break;
        }
        sent += batch.length;
      }
      return { failed };
    },
  };

  async function sendBatch(batch: readonly QueueEntry[]): Promise<readonly Failed[]> {
    const input = {
      QueueUrl: options.queueUrl,
      // Ids inside a batch are positions: ours may be longer than the 80 characters SQS takes here.
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

function sizeOf(entry: QueueEntry): number {
  return Buffer.byteLength(entry.body);
}

function reasonOf({ Code, Message }: BatchResultErrorEntry): string {
  return [Code, Message].filter((text) => text !== undefined).join(": ");
}

/** Throttling is reported as the sender's fault, too. */
function isPermanent({ SenderFault, Code }: BatchResultErrorEntry): boolean {
  return SenderFault === true && !/throttl|unavailable|timeout/i.test(Code ?? "");
}
