import { SQSClient } from "@aws-sdk/client-sqs";
import type { SQSClientConfig } from "@aws-sdk/client-sqs";

/** A long poll waits up to 20 s; other calls set their own limit. */
const REQUEST_TIMEOUT_MS = 30_000;
const CONNECTION_TIMEOUT_MS = 2_000;

/**
 * An SQS client. In production both options are absent and the environment provides everything. With `endpoint` no call uses the host in a
 * queue URL, because calls could otherwise reach real AWS. A plain-http endpoint is a local emulator and gets dummy credentials, so
 * that no credential chain is searched.
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
