import { KubeApiError, UnansweredError } from "../client/errors.ts";
import { messageOf } from "../objects/errors.ts";
import type { Headers } from "@deltaloop/base/http";
import { PROTOBUF } from "../protobuf/fields.ts";
import type { ProtobufDecoder } from "./access.ts";

/** client-go's code label for requests without a response. */
export const NO_ANSWER = "<error>";

/** Limit of a rejection's body. */
export const STATUS_BYTES_MAX = 1024 * 1024;

/** Reasons for responses without a Status, from a proxy in front of the API server. */
const REASONS: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  406: "NotAcceptable",
  409: "Conflict",
  410: "Gone",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/**
 * Returns the error for an unsuccessful response. A Status in the body takes precedence over the HTTP code, and `details.retryAfterSeconds`
 * over the header.
 *
 * Source: apimachinery api/errors, FromObject and NewGenericServerResponse.
 */
export function statusError(
  code: number,
  headers: Answered,
  body: string,
  { earlierUnanswered = false }: { readonly earlierUnanswered?: boolean } = {},
): KubeApiError {
  const status = parseStatus(body);
  const details = status?.details;
  return new KubeApiError({
    code: status?.code ?? code,
    reason: status?.reason ?? REASONS[code],
    message: status?.message ?? `the server returned ${code}`,
    retryAfterSeconds: details?.retryAfterSeconds ?? retryAfterSeconds(headers),
    earlierUnanswered,
    causes: details?.causes?.map(({ reason, message, field }) => ({
      ...(reason === undefined ? {} : { reason }),
      ...(message === undefined ? {} : { message }),
      ...(field === undefined ? {} : { field }),
    })),
  });
}

/** Whether a response is Kubernetes protobuf. */
export function isProtobuf(headers: Headers): boolean {
  return headers["content-type"]?.startsWith(PROTOBUF) === true;
}

/** Returns the body of an unsuccessful response as JSON; an empty text if it cannot be decoded. */
export function refusalText(headers: Headers, body: Buffer, protobuf: ProtobufDecoder | undefined): string {
  if (protobuf === undefined || !isProtobuf(headers)) return body.toString();
  try {
    return JSON.stringify(protobuf.failure(body));
  } catch {
    return "";
  }
}

/** The error for a missing or incomplete response. */
export function unanswered(cause: unknown): UnansweredError {
  return new UnansweredError(`no answer: ${messageOf(cause)}`, { cause });
}

/** Headers of a response. */
interface Answered {
  readonly "retry-after"?: string | undefined;
}

interface Status {
  readonly kind: "Status";
  readonly status?: string;
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly reason?: string; readonly message?: string; readonly field?: string }[];
  };
}

/** Whether `value` is a Status that reports a failure; a Status of success is an ordinary response. */
export function isFailure(value: unknown): boolean {
  return isStatus(value) && value.status !== "Success";
}

export function isStatus(value: unknown): value is Status {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "Status";
}

function parseStatus(body: string): Status | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isStatus(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Parses only seconds, because the API server does not send the date form. */
function retryAfterSeconds(headers: Answered): number | undefined {
  const seconds = Number(headers["retry-after"]);
  return Number.isInteger(seconds) && seconds >= 0 ? seconds : undefined;
}

export function isSuccess(code = 0): boolean {
  return code >= 200 && code < 300;
}
