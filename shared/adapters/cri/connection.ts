/** One gRPC channel over a Unix socket: deadlines, errors by their names, and a fresh connection when the runtime comes back. */
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import type { ServiceError } from "@grpc/grpc-js";

import { CRI_ERROR_CODES, CriError } from "../../ports/cri-error.ts";
import type { Method } from "./load.ts";

/** Upstream's limit for CRI answers (node-agent §17). Source: cri-client pkg/utils.go maxMsgSize. */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;
/** A runtime that restarts is back within seconds; a Unix socket costs nothing to try. */
const RECONNECT_MS = { min: 100, max: 1_000 } as const;

export interface CallOptions {
  /** Absent: no limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface Connection {
  /** @throws {CriError} for everything but an answer */
  call(method: Method, request: object, options: CallOptions): Promise<object>;
  close(): void;
}

export function connect(socketPath: string): Connection {
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
    "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
    "grpc.initial_reconnect_backoff_ms": RECONNECT_MS.min,
    "grpc.min_reconnect_backoff_ms": RECONNECT_MS.min,
    "grpc.max_reconnect_backoff_ms": RECONNECT_MS.max,
    "grpc.enable_retries": 0, // half of the verbs are not idempotent (CR3)
    "grpc.enable_http_proxy": 0,
    "grpc.use_local_subchannel_pool": 1, // two adapters of one process share no connection
  });
  return {
    call: (method, request, { timeoutMs, signal }) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(new CriError("Canceled", "aborted before it was sent"));
        const cancel = (): void => call.cancel();
        const call = client.makeUnaryRequest(
          method.path,
          method.requestSerialize,
          method.responseDeserialize,
          request,
          new Metadata(),
          timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
          (error, answer) => {
            signal?.removeEventListener("abort", cancel);
            if (error) reject(criError(error));
            else resolve(answer ?? {});
          },
        );
        signal?.addEventListener("abort", cancel, { once: true });
      }),
    close: () => client.close(),
  };
}

/** gRPC counts from OK = 0; a number newer than the list is Unknown. */
function criError(error: ServiceError): CriError {
  return new CriError(CRI_ERROR_CODES[error.code - 1] ?? "Unknown", error.details, { cause: error });
}
