/** The arguments of a function, event and context, as Lambda builds them for SQS messages. */
import { hash } from "node:crypto";

import type { Context, SQSEvent, SQSRecord } from "aws-lambda";

import type { ReceivedMessage } from "@deltaloop/store/ports";

export function sqsEvent(messages: readonly ReceivedMessage[], queueArn: string): SQSEvent {
  const awsRegion = queueArn.split(":")[3] ?? "us-east-1";
  return {
    Records: messages.map((message): SQSRecord => {
      const { messageId, receipt, body, receiveCount, sentAtMs, group } = message;
      return {
        messageId,
        receiptHandle: receipt,
        body,
        attributes: {
          ApproximateReceiveCount: String(receiveCount),
          SentTimestamp: String(sentAtMs),
          SenderId: "local",
          ApproximateFirstReceiveTimestamp: String(sentAtMs),
          ...(group === undefined ? {} : { MessageGroupId: group }),
        },
        messageAttributes: {},
        // deltaloop's functions do not read it.
        get md5OfBody() {
          return hash("md5", body);
        },
        eventSource: "aws:sqs",
        eventSourceARN: queueArn,
        awsRegion,
      };
    }),
  };
}

export function invocationContext(options: {
  readonly functionName: string;
  readonly requestId: string;
  readonly remainingMs: () => number;
}): Context {
  const { functionName, requestId } = options;
  const unsupported = (): never => {
    throw new Error("context.done, fail and succeed are not supported; return a promise");
  };
  return {
    functionName,
    functionVersion: "$LATEST",
    invokedFunctionArn: `arn:aws:lambda:us-east-1:000000000000:function:${functionName}`,
    memoryLimitInMB: "1024",
    awsRequestId: requestId,
    logGroupName: `/aws/lambda/${functionName}`,
    logStreamName: "local",
    callbackWaitsForEmptyEventLoop: false,
    getRemainingTimeInMillis: options.remainingMs,
    done: unsupported,
    fail: unsupported,
    succeed: unsupported,
  };
}
