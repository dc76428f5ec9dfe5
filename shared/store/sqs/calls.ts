/**
 * The four frequent SQS calls, as JSON over keep-alive connections. The SDK's client needs two to three times the CPU per call and adds
 * 400 KiB to every bundle; it is used for rare calls (creating and inspecting queues), and the conformance suites run on it too.
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
  /** Calls an action of SQS. @throws {AwsError} if SQS returns an error; without a response, the error of the connection or the signal */
  call<A extends keyof Actions>(action: A, input: Actions[A]["input"], options?: CallOptions): Promise<Actions[A]["output"]>;
  /** Ends the connections. */
  close(): void;
}

const SQS = { name: "sqs", target: "AmazonSQS", version: "1.0" } as const;

/** With a custom endpoint no call uses the host in a queue URL, because calls could otherwise reach real AWS. */
export function sqsCalls(options: AwsJsonOptions = {}): SqsCalls {
  const { call, close } = awsJson(SQS, options);
  return {
    async call<A extends keyof Actions>(action: A, input: Actions[A]["input"], callOptions?: CallOptions) {
      // The action determines the type (SQS API reference).
      return (await call(action, input.QueueUrl ?? "", input, callOptions)) as Actions[A]["output"];
    },
    close,
  };
}
