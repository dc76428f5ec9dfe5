/** What a port can answer besides its result, sorted by what the caller does next. */
/**
 * The API server answered with a Status that is no success. Normal: conflicts, denials and objects that are gone are
 * everyday answers; ask with the predicates below, never by comparing messages.
 */
export class KubeApiError extends Error {
  override readonly name = "KubeApiError";
  readonly code: number;
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;
  /** Sent more than once, and an earlier answer (5xx) left open whether it was executed: this refusal says so of the last one alone. */
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
    super(status.message ?? `the server answered ${status.code}`);
    this.code = status.code;
    this.reason = status.reason ?? "Unknown";
    this.retryAfterSeconds = status.retryAfterSeconds;
    this.earlierUnanswered = status.earlierUnanswered ?? false;
    this.causes = status.causes ?? [];
  }
}

/**
 * No answer came: connect or request time-out, reset, TLS failure. The call may or may not have been executed, and may
 * still be. Writers treat it as "unknown", readers retry.
 */
export class UnansweredError extends Error {
  override readonly name: string = "UnansweredError";
}

/**
 * The answer is larger than is read of one, and was broken off. Of a list, less may be asked for at a time (page-size.ts); the call may
 * have been executed like any whose answer was not seen.
 */
export class AnswerTooLargeError extends UnansweredError {
  override readonly name = "AnswerTooLargeError";
}

/**
 * The call never left: no connection came free in time, or its sender's lease ended while it waited for one. Surely not
 * executed. Normal under load; whoever wanted it tries again later.
 */
export class NotSentError extends Error {
  override readonly name = "NotSentError";
}

/** Doing it again cannot help: log, count, do not bring back. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";
}

export function isNotFound(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 404;
}

/** The server does not know who asks: a token that has expired or was withdrawn. */
export function isUnauthorized(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 401;
}

/** The caller may not do that: for good, or until whoever decides it has seen what happened just now. */
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

/** 422: among others a PATCH whose `metadata.uid` is not the object's. */
export function isInvalid(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 422;
}

/** 410: the resourceVersion or continue token is older than what the server keeps. */
export function isGone(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 410;
}

export function isTooManyRequests(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 429;
}

/** The namespace is being deleted; upstream counts such a create as a success (replicaset §7.1). */
export function isNamespaceTerminating(error: unknown): boolean {
  return error instanceof KubeApiError && error.causes.some((cause) => cause.reason?.includes("NamespaceTerminating"));
}

/**
 * A read that is newer than the server's cache. Upstream encodes it in three ways: the cause's reason, the cause's message,
 * or the text alone. Source: apimachinery api/errors; apiserver pkg/storage/errors.go IsTooLargeResourceVersion.
 */
export function isTooLargeResourceVersion(error: unknown): boolean {
  if (!(error instanceof KubeApiError) || error.code !== 504) return false;
  return (
    error.causes.some((cause) => cause.reason === "ResourceVersionTooLarge" || cause.message?.includes("Too large resource version")) ||
    error.message.includes("Too large resource version")
  );
}

/**
 * Admission comes before anything is stored, so what it answers was not executed, whatever the code: a webhook that is away is an
 * InternalError like all that goes wrong inside, and only the text tells them apart.
 *
 * Source: apiserver pkg/util/webhook/error.go ErrCallingWebhook, pkg/admission/plugin/webhook/errors/statuserror.go ToStatusErr,
 * pkg/admission/plugin/resourcequota/controller.go Evaluate.
 */
const REFUSED_BY_ADMISSION =
  /^(?:Internal error occurred: (?:failed calling webhook "|resource quota evaluation timed out)|admission webhook "[^"]+" denied the request)/;

/**
 * Whether a mutating call that ended so may have been executed: no answer, or an answer that says nothing (5xx), be it of the
 * last sending or of one before. Never for one that was not sent, or that admission did not let in.
 */
export function isUnanswered(error: unknown): boolean {
  if (error instanceof UnansweredError) return true;
  if (!(error instanceof KubeApiError)) return false;
  return error.earlierUnanswered || (error.code >= 500 && !REFUSED_BY_ADMISSION.test(error.message));
}
