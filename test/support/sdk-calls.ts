/** SQS calls by the AWS SDK: the reference implementation in the conformance suites. */
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
} from "@aws-sdk/client-sqs";
import type { SQSClient } from "@aws-sdk/client-sqs";
import type { SqsCalls } from "../../shared/store/sqs/calls.ts";

/** The command of each action accepts the action's input. */
const COMMANDS: { readonly [A in Parameters<SqsCalls["call"]>[0]]: new (input: never) => unknown } = {
  SendMessageBatch: SendMessageBatchCommand,
  ReceiveMessage: ReceiveMessageCommand,
  DeleteMessageBatch: DeleteMessageBatchCommand,
  ChangeMessageVisibilityBatch: ChangeMessageVisibilityBatchCommand,
};

export function sdkCalls(client: SQSClient): SqsCalls {
  return {
    async call(action, input, { timeoutMs, signal } = {}) {
      const command = new COMMANDS[action](input as never) as Parameters<typeof client.send>[0];
      const options = { ...(timeoutMs !== undefined && { requestTimeout: timeoutMs }), ...(signal && { abortSignal: signal }) };
      try {
        return (await client.send(command, options)) as never; // and its output
      } catch (error) {
        signal?.throwIfAborted(); // the SDK's own AbortError lacks the caller's reason
        throw error;
      }
    },
    close: () => client.destroy(),
  };
}
