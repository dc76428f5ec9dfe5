/**
 * The four calls of SQS that run all day, as JSON over kept connections. The SDK's client does the same at two to three times the
 * CPU of a call and 400 KiB of every bundle; it stays for what is rare (queues are made and looked at), and as the reference that
 * the ports' suites run on, too.
 *
 * Source: SQS API reference.
 */
import type {
  ChangeMessageVisibilityBatchRequest,
  ChangeMessageVisibilityBatchResult,
  DeleteMessageBatchRequest,
  DeleteMessageBatchResult,
  ReceiveMessageRequest,
  ReceiveMessageResult,
  SendMessageBatchRequest,
  SendMessageBatchResult,
} from "@aws-sdk/client-sqs";
import { awsJson } from "../aws/aws-json.ts";
import type { AwsJsonOptions, CallOptions } from "../aws/aws-json.ts";

interface Actions {
  readonly SendMessageBatch: { readonly input: SendMessageBatchRequest; readonly output: SendMessageBatchResult };
  readonly ReceiveMessage: { readonly input: ReceiveMessageRequest; readonly output: ReceiveMessageResult };
  readonly DeleteMessageBatch: { readonly input: DeleteMessageBatchRequest; readonly output: DeleteMessageBatchResult };
  readonly ChangeMessageVisibilityBatch: {
    readonly input: ChangeMessageVisibilityBatchRequest;
    readonly output: ChangeMessageVisibilityBatchResult;
  };
}

export interface SqsCalls {
  /** @throws {AwsError} when SQS refuses; what the connection or the signal said when there was no answer */
  call<A extends keyof Actions>(action: A, input: Actions[A]["input"], options?: CallOptions): Promise<Actions[A]["output"]>;
  /** Ends the connections. */
  close(): void;
}

const SQS = { name: "sqs", target: "AmazonSQS", version: "1.0" } as const;

/** With an endpoint of one's own no call follows the host in a queue URL, or calls could leave for real AWS. */
export function sqsCalls(options: AwsJsonOptions = {}): SqsCalls {
  const { call, close } = awsJson(SQS, options);
  return {
    async call<A extends keyof Actions>(action: A, input: Actions[A]["input"], callOptions?: CallOptions) {
      // What SQS answers to this action, as its API reference has it.
      return (await call(action, input.QueueUrl ?? "", input, callOptions)) as Actions[A]["output"];
    },
    close,
  };
}
