/**
 * A gRPC probe: one call of `grpc.health.v1.Health/Check` without TLS. Request and response have one field each, so Node's HTTP/2 client
 * suffices.
 *
 *     request  0a <length> <service name>      response  08 <status>
 */
import { connect, constants } from "node:http2";
import type { ClientHttp2Session, IncomingHttpHeaders } from "node:http2";
import { connect as connectSocket } from "node:net";
import { boundedSocket } from "../http/bounded-socket.ts";
import type { GrpcProbe, ProbeOutcome } from "../ports/prober.ts";
import { within } from "./deadline.ts";
import { cut } from "./output.ts";
import { authorityOf } from "./target.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Source: grpc health/v1/health.proto HealthCheckResponse.ServingStatus. */
const STATUSES = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;
/** gRPC status codes. */
const OK = "0";
const UNIMPLEMENTED = "12";
/** Length of the message prefix: the compression flag and the message length. */
const PREFIX_BYTES = 5;
/** Maximum size of a response in bytes; a valid response has 0 or 2 bytes. */
const ANSWER_BYTES_MAX = 1024;
/** Maximum size of all frames on the connection, many times the amount that a health server sends. */
const RECEIVED_BYTES_MAX = 128 * 1024;

interface Answer {
  readonly headers: IncomingHttpHeaders;
  readonly message: Buffer;
}

/** Source: pkg/probe/grpc/grpc.go Probe. */
export function grpcHealth(probe: GrpcProbe, signal?: AbortSignal): Promise<ProbeOutcome> {
  const { timeoutMs } = probe;
  return within({ timeoutMs, signal }, async (end) => {
    const { host, port } = probe;
    const session = connect(`http://${authorityOf(host, port)}`, {
      createConnection: () => boundedSocket(connectSocket({ host, port }), RECEIVED_BYTES_MAX),
    });
    try {
      return outcomeOf(await check(session, probe, end));
    } catch (error) {
      const reason = messageOf(error);
      const output = end.aborted
        ? `timeout: health rpc did not complete within ${timeoutMs} ms`
        : `error: health rpc probe failed: ${reason}`;
      return { result: "Failure", output: cut(output) };
    } finally {
      session.destroy();
    }
  });
}

function outcomeOf({ headers, message }: Answer): ProbeOutcome {
  const code = String(headers["grpc-status"] ?? `HTTP ${String(headers[constants.HTTP2_HEADER_STATUS])}`);
  if (code === UNIMPLEMENTED)
    return { result: "Failure", output: "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)" };
  if (code !== OK)
    return { result: "Failure", output: cut(`error: health rpc probe failed: ${code} ${String(headers["grpc-message"] ?? "")}`) };
  // proto3 omits a status of 0.
  const status = STATUSES[message[PREFIX_BYTES] === 0x08 ? (message[PREFIX_BYTES + 1] ?? 0) : 0] ?? "UNKNOWN";
  if (status === "SERVING") return { result: "Success", output: "service healthy" };
  return { result: "Failure", output: `service unhealthy (responded with "${status}")` };
}

/** Returns headers and trailers, and the length-prefixed message. @throws {Error} if the response is incomplete */
function check(session: ClientHttp2Session, { service, userAgent }: GrpcProbe, signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let headers: IncomingHttpHeaders = {};
    let message = Buffer.alloc(0);
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: "/grpc.health.v1.Health/Check",
      "content-type": "application/grpc",
      te: "trailers",
      "user-agent": userAgent,
    });
    session.on("error", reject);
    stream.on("error", reject);
    signal.addEventListener("abort", () => reject(new Error("timeout")));
    for (const event of ["response", "trailers"] as const)
      stream.on(event, (more: IncomingHttpHeaders) => {
        headers = { ...headers, ...more };
      });
    stream.on("data", (chunk: Buffer) => {
      message = Buffer.concat([message, chunk]);
      if (message.length > ANSWER_BYTES_MAX) reject(new Error("the response is too long"));
    });
    stream.on("close", () => resolve({ headers, message }));
    stream.end(requestMessage(service));
  });
}

function requestMessage(service: string): Buffer {
  const name = Buffer.from(service);
  const field = name.length === 0 ? [] : [0x0a, ...varint(name.length)];
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(field.length + name.length, 1);
  return Buffer.concat([prefix, Buffer.from(field), name]);
}

/** Encodes a number with seven bits per byte, lowest first. */
function varint(value: number): readonly number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}
