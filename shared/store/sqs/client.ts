import { SQSClient } from "@aws-sdk/client-sqs";
import type { SQSClientConfig } from "@aws-sdk/client-sqs";

/** A long poll waits up to 20 s on purpose; calls that should answer at once set their own limit. */
const REQUEST_TIMEOUT_MS = 30_000;
const CONNECTION_TIMEOUT_MS = 2_000;

/**
 * An SQS client. In production both options stay away and everything comes from the sandbox. With `endpoint` no call follows
 * the host in a queue URL, or calls could leave for real AWS; a plain-http endpoint is an emulator on this machine and is
 * spoken to with made-up credentials, so that no credential chain is searched.
 */
export function sqsClient(options: { readonly endpoint?: string; readonly region?: string } = {}): SQSClient {
  const { endpoint, region } = options;
  const emulator = endpoint?.startsWith("http:") === true;
  const config: SQSClientConfig = {
    requestHandler: { requestTimeout: REQUEST_TIMEOUT_MS, connectionTimeout: CONNECTION_TIMEOUT_MS },
    ...(endpoint === undefined ? {} : { endpoint, useQueueUrlAsEndpoint: false }),
    ...(region === undefined ? (emulator ? { region: "us-east-1" } : {}) : { region }),
    ...(emulator ? { credentials: { accessKeyId: "test", secretAccessKey: "test" } } : {}),
  };
  return new SQSClient(config);
}
