/** Errors as logs show them. What the API server says may quote a template's values or a webhook's own words, so it is left out. */
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
 * Of an API server's answer the code, and the reason if it is one of Kubernetes' own: an admission webhook may answer with any
 * text as reason. A SyntaxError quotes what could not be parsed, so its name must do. An error that quotes its cause quotes
 * the cause's description instead.
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

/** Shorter than any error's own name. */
const NAME_LENGTH_MIN = 4;

/** Redis' client names errors after their classes, which a minified bundle calls `um` or the like: that says nothing, so it is left out. */
function nameOf({ name }: Error): string {
  return name.length < NAME_LENGTH_MIN ? "Error" : name;
}

function textOf({ message, cause }: Error): string {
  if (!(cause instanceof Error) || cause.message === "") return message;
  const described = describeError(cause);
  return described.includes(cause.message) ? message : message.replaceAll(cause.message, () => described);
}
