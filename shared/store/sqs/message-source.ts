import type { BatchResultErrorEntry, Message, ReceiveMessageRequest } from "@aws-sdk/client-sqs";

import type { MessageSource, ReceivedMessage } from "../ports/delta-queue.ts";
import type { SqsCalls } from "./calls.ts";
import { BATCH_ENTRIES_MAX, batches, CALL_TIMEOUT_MS, WAIT_SECONDS_MAX } from "./limits.ts";

/** SQS errors for a receipt that is no longer valid. */
const OUTDATED = /^(AWS\.SimpleQueueService\.)?(ReceiptHandleIsInvalid|InvalidParameterValue|MessageNotInflight)/;

/** Message source for any SQS queue. SQS waits in whole seconds: `waitMs` is rounded up, to 20 s at most. */
export function createSqsMessageSource(sqs: SqsCalls, options: { readonly queueUrl: string }): MessageSource {
  const QueueUrl = options.queueUrl;
  return {
    async receive({ max, waitMs, signal }) {
      const input: ReceiveMessageRequest = {
        QueueUrl,
        MaxNumberOfMessages: Math.min(max, BATCH_ENTRIES_MAX),
        WaitTimeSeconds: Math.min(Math.ceil(waitMs / 1000), WAIT_SECONDS_MAX),
        MessageSystemAttributeNames: ["ApproximateReceiveCount", "MessageGroupId", "SentTimestamp"],
      };
      const answer = await sqs.call("ReceiveMessage", input, signal === undefined ? {} : { signal });
      return (answer.Messages ?? []).flatMap(received);
    },

    async remove(receipts) {
      for (const batch of batches(receipts)) {
        const Entries = batch.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
        const answer = await sqs.call("DeleteMessageBatch", { QueueUrl, Entries }, { timeoutMs: CALL_TIMEOUT_MS });
        throwOnFault("remove", answer.Failed);
      }
    },

    async setVisibility(receipts, seconds) {
      for (const batch of batches(receipts)) {
        const Entries = batch.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle, VisibilityTimeout: seconds }));
        const answer = await sqs.call("ChangeMessageVisibilityBatch", { QueueUrl, Entries }, { timeoutMs: CALL_TIMEOUT_MS });
        throwOnFault("setVisibility", answer.Failed);
      }
    },
  };
}

/**
 * Ignores sender faults about an outdated receipt: another consumer has the message, or it is gone. LocalStack reports these by the
 * code alone.
 */
function throwOnFault(what: string, failed: readonly BatchResultErrorEntry[] = []): void {
  const fault = failed.find(({ SenderFault, Code }) => SenderFault !== true && !OUTDATED.test(Code ?? ""));
  if (fault !== undefined) throw new Error(`${what} failed for ${failed.length} message(s): ${fault.Code} ${fault.Message ?? ""}`.trim());
}

function received(message: Message): readonly ReceivedMessage[] {
  const { MessageId, ReceiptHandle, Body, Attributes } = message;
  if (MessageId === undefined || ReceiptHandle === undefined) return [];
  const group = Attributes?.MessageGroupId;
  return [
    {
      messageId: MessageId,
      receipt: ReceiptHandle,
      body: Body ?? "",
      receiveCount: Number(Attributes?.ApproximateReceiveCount ?? 1),
      sentAtMs: Number(Attributes?.SentTimestamp ?? 0),
      ...(group === undefined ? {} : { group }),
    },
  ];
}
