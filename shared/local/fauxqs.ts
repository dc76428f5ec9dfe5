/** fauxqs, an SQS emulator, on a loopback port of this process. */
import { awsError } from "@deltaloop/store/aws";
import type { SqsCalls } from "@deltaloop/store/sqs";
import { unlessAborted } from "@deltaloop/base";

export interface OwnSqs {
  /** The endpoint URL for `sqsClient`. */
  readonly endpoint: string;
  /** Calls the emulator without a socket, for tests. An aborted call still takes effect. */
  readonly calls: SqsCalls;
  stop(): Promise<void>;
}

/** Starts the emulator in this process. Port 0, the default, selects a free one. (fauxqs' own start function listens on all interfaces.) */
export async function startFauxqs(options: { readonly port?: number } = {}): Promise<OwnSqs> {
  const { buildApp } = await import("fauxqs"); // loaded only when used, because the import is slow
  const app = buildApp({ logger: false });
  const endpoint = await app.listen({ port: options.port ?? 0, host: "127.0.0.1" });
  const calls: SqsCalls = {
    async call(action, input, { signal } = {}) {
      signal?.throwIfAborted();
      const headers = { "content-type": "application/x-amz-json-1.0", "x-amz-target": `AmazonSQS.${action}` };
      const answer = Promise.resolve(app.inject({ method: "POST", url: "/", headers, payload: JSON.stringify(input) }));
      const { statusCode, payload } = await (signal === undefined ? answer : unlessAborted(answer, signal));
      if (statusCode !== 200) throw awsError(action, payload, statusCode);
      return JSON.parse(payload);
    },
    close: () => undefined,
  };
  return { endpoint, calls, stop: () => app.close() };
}
