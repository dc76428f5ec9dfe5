/** Errors of the Kubernetes client, sorted by what the caller does next. */
/**
 * The API server returned a Status other than Success. Not exceptional: conflicts, denials and missing objects are expected. Use the
 * predicates below; never compare messages.
 */
export class KubeApiError extends Error {
  override readonly name = "KubeApiError";
  readonly code: number;
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;
  /**
   * Whether an earlier attempt of the same call ended with a 5xx, so that it may have been executed although the last attempt was rejected.
   */
  readonly earlierUnanswered: boolean;
  /** `details.causes[]` of the Status. */
  readonly causes: readonly { readonly reason?: string; readonly message?: string; readonly field?: string }[];

  constructor(status: {
    readonly code: number;
    readonly reason?: string | undefined;
    readonly message?: string | undefined;
    readonly retryAfterSeconds?: number | undefined;
    readonly earlierUnanswered?: boolean;
    readonly causes?: KubeApiError["causes"] | undefined;
  }) {
    super(status.message ?? `the server returned ${status.code}`);
    this.code = status.code;
    this.reason = status.reason ?? "Unknown";
    this.retryAfterSeconds = status.retryAfterSeconds;
    this.earlierUnanswered = status.earlierUnanswered ?? false;
    this.causes = status.causes ?? [];
  }
}

/**
 * No response: connect or request timeout, reset, TLS failure. The call may have been executed, or may still be in progress. Writers treat
 * the outcome as unknown, readers retry.
 */
export class UnansweredError extends Error {
  override readonly name: string = "UnansweredError";
}

/**
 * The response exceeds the size limit; reading it was aborted. A list can be repeated with smaller pages (page-size.ts). The call may have
 * been executed, as with any response that was not received.
 */
export class AnswerTooLargeError extends UnansweredError {
  override readonly name = "AnswerTooLargeError";
}

/** The response is not what an API server sends, such as the page of a proxy. The call may have been executed. */
export class NotKubernetesError extends UnansweredError {
  override readonly name = "NotKubernetesError";
}

/**
 * The call was not sent: no connection became free in time, or the sender's lease ended first. It was not executed. This is normal under
 * load; retry later.
 */
export class NotSentError extends Error {
  override readonly name = "NotSentError";
}

/** Retrying cannot help: log and count the error, do not retry. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";
}

export function isNotFound(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 404;
}

/** 401: the server does not accept the credentials, for example an expired or revoked token. */
export function isUnauthorized(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 401;
}

/** 403: access is denied, permanently or until the authorizer applies a recent change. */
export function isForbidden(error: unknown): boolean {
  return error instanceof KubeApiError && error.reason === "Forbidden";
}

/** A lost race: wrong resourceVersion or a missed DELETE precondition. AlreadyExists is not one. */
export function isConflict(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 409 && error.reason !== "AlreadyExists";
}

export function isAlreadyExists(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 409 && error.reason === "AlreadyExists";
}

/** 422: the request is invalid, for example a PATCH whose `metadata.uid` differs from the object's. */
export function isInvalid(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 422;
}

/** 410: the resourceVersion or continue token is older than the versions that the server keeps. */
export function isGone(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 410;
}

export function isTooManyRequests(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 429;
}

/** The namespace is terminating; upstream counts such a create as a success (replicaset §7.1). */
export function isNamespaceTerminating(error: unknown): boolean {
  return error instanceof KubeApiError && error.causes.some((cause) => cause.reason?.includes("NamespaceTerminating"));
}

/**
 * The requested version is newer than the server's cache. Upstream encodes it as the cause's reason, the cause's message,
 * or text alone. Source: apimachinery api/errors; apiserver pkg/storage/errors.go IsTooLargeResourceVersion.
 */
export function isTooLargeResourceVersion(error: unknown): boolean {
  if (!(error instanceof KubeApiError) || error.code !== 504) return false;
  return (
    error.causes.some((cause) => cause.reason === "ResourceVersionTooLarge" || cause.message?.includes("Too large resource version")) ||
    error.message.includes("Too large resource version")
  );
}

/**
 * Admission runs before storage, so a call that it rejected was not executed, regardless of the code. An unavailable webhook is reported as
 * an InternalError like other server failures; only the text differs.
 *
 * Source: apiserver pkg/util/webhook/error.go ErrCallingWebhook, pkg/admission/plugin/webhook/errors/statuserror.go ToStatusErr,
 * pkg/admission/plugin/resourcequota/controller.go Evaluate.
 */
const REFUSED_BY_ADMISSION =
  /^(?:Internal error occurred: (?:failed calling webhook "|resource quota evaluation timed out)|admission webhook "[^"]+" denied the request)/;

/**
 * Whether a failed mutating call may have been executed: no response, or a 5xx, on the last attempt or an earlier one. False for a
 * call that was not sent or that admission rejected.
 */
export function isUnanswered(error: unknown): boolean {
  if (error instanceof UnansweredError) return true;
  if (!(error instanceof KubeApiError)) return false;
  return error.earlierUnanswered || (error.code >= 500 && !REFUSED_BY_ADMISSION.test(error.message));
}
