/** Rejections with the texts of the real API server and its admission plugins: HTTP code, headers and Status. */

/** A rejection. `body` is a Status, except where a component in front of the API server answers. */
export interface Refusal {
  readonly code: number;
  readonly retryAfterSeconds?: number;
  readonly body: object | string;
}

/**
 * Rejection by API Priority and Fairness; its body is text, not a Status. Source: apiserver pkg/server/filters/priority-and-fairness.go,
 * tooManyRequests.
 */
export function tooManyRequests(retryAfterSeconds: number): Refusal {
  return { code: 429, retryAfterSeconds, body: "Too many requests, please try again later.\n" };
}

/** Rejection during shutdown of the API server. Source: apiserver pkg/server/filters/waitgroup.go, waitGroupWriteRetryAfterToResponse. */
export function unavailable(retryAfterSeconds?: number): Refusal {
  const refusal = { code: 503, body: status(503, "ServiceUnavailable", "apiserver is shutting down") };
  return retryAfterSeconds === undefined ? refusal : { ...refusal, retryAfterSeconds };
}

/** Source: apimachinery api/errors, NewInternalError. */
export const INTERNAL_ERROR: Refusal = {
  code: 500,
  body: status(500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
};

/** Rejection of a request that has timed out. Source: apiserver pkg/endpoints/handlers/finisher/finisher.go. */
export const TIMED_OUT: Refusal = {
  code: 504,
  body: status(504, "Timeout", "Timeout: request did not complete within requested timeout - context deadline exceeded"),
};

/** Webhook rejections, which the API server passes on unchanged: the webhook's code, and a reason only if the webhook set one. */
const DENIALS = {
  /** The code if a webhook sets none. */
  400: { reason: "BadRequest", message: "image is not signed" },
  403: { reason: "Forbidden", message: "namespace is frozen" },
  409: { reason: "Conflict", message: "another change is under way" },
  422: { reason: "Invalid", message: "cpu limit is missing" },
} as const;

export type DenialCode = keyof typeof DENIALS;

/** Source: apiserver pkg/admission/plugin/webhook/errors/statuserror.go, ToStatusErr. */
export function deniedByWebhook(code: DenialCode): Refusal {
  const { reason, message } = DENIALS[code];
  return { code, body: status(code, reason, `admission webhook "policy.example.com" denied the request: ${message}`) };
}

/** Source: apiserver pkg/admission/plugin/namespace/lifecycle/admission.go. */
export function namespaceTerminating(namespace: string): Refusal {
  const message = `pods "new" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`;
  const causes = [{ reason: "NamespaceTerminating", message: `namespace ${namespace} is being terminated`, field: "metadata.namespace" }];
  return { code: 403, body: { ...status(403, "Forbidden", message), details: { kind: "pods", name: "new", causes } } };
}

/**
 * Rejection because of an outdated resourceVersion. Source: apimachinery api/errors, NewConflict; apiserver
 * registry/generic/registry/store.go.
 */
export const CONFLICT: Refusal = {
  code: 409,
  body: status(
    409,
    "Conflict",
    "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
  ),
};

function status(code: number, reason: string, message: string): object {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code };
}
