/** Descriptions of errors for logs. The API server's message is left out: it may quote template values or a webhook's text. */
import { KubeApiError } from "./errors.ts";

/** Source: apimachinery pkg/apis/meta/v1 StatusReason. */
const REASONS: ReadonlySet<string> = new Set([
  "Unknown",
  "Unauthorized",
  "Forbidden",
  "NotFound",
  "AlreadyExists",
  "Conflict",
  "Gone",
  "Invalid",
  "ServerTimeout",
  "StoreReadError",
  "Timeout",
  "TooManyRequests",
  "BadRequest",
  "MethodNotAllowed",
  "NotAcceptable",
  "RequestEntityTooLarge",
  "UnsupportedMediaType",
  "InternalError",
  "Expired",
  "ServiceUnavailable",
]);

/**
 * Describes an API error by its code, and by its reason if Kubernetes defines it, because a webhook may return any text as reason. A
 * SyntaxError is described by its name, because its message quotes the input. A message that quotes its cause gets the cause's description
 * instead.
 *
 *     409 Conflict
 *     Error: unable to delete pods: 403 Forbidden
 */
export function describeError(error: unknown): string {
  if (error instanceof KubeApiError) return `${error.code} ${REASONS.has(error.reason) ? error.reason : "for a reason of its own"}`;
  if (error instanceof AggregateError)
    return `[${[...new Set(error.errors.map((each) => describeError(each).replace(/^Error: /, "")))].join(", ")}]`;
  if (error instanceof SyntaxError) return error.name;
  return error instanceof Error ? `${nameOf(error)}: ${textOf(error)}` : String(error);
}

/** Minimum length of a name that is not minified. */
const NAME_LENGTH_MIN = 4;

/** The name of the error. The Redis client names errors after their classes; a minified name such as `um` is omitted. */
function nameOf({ name }: Error): string {
  return name.length < NAME_LENGTH_MIN ? "Error" : name;
}

function textOf({ message, cause }: Error): string {
  if (!(cause instanceof Error) || cause.message === "") return message;
  const described = describeError(cause);
  return described.includes(cause.message) ? message : message.replaceAll(cause.message, () => described);
}
