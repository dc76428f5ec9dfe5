/** Errors that end a sync. Each of them requeues the key with back-off. */
import { NotSentError } from "@deltaloop/kube/client";

/** The lease or the invocation ends too soon for another call. Normal under load; the next run of the key continues. */
export class LeaseEndsError extends Error {
  override readonly name = "LeaseEndsError";
  constructor() {
    super("lease ends");
  }
}

/** Another run holds the key, or the key names another object. Normal after a pause; this run must not write again. */
export class StolenError extends Error {
  override readonly name = "StolenError";
  constructor() {
    super("another run took over the key");
  }
}

/**
 * Combines errors as upstream prints them: one error alone, several as `[a, b]`, equal texts once.
 * Source: apimachinery pkg/util/errors aggregate.Error.
 */
export function aggregate(errors: readonly Error[]): Error | undefined {
  const [first] = errors;
  if (first === undefined || errors.length === 1) return first;
  const messages = [...new Set(errors.map((error) => error.message))];
  return new AggregateError(errors, messages.length === 1 ? messages[0] : `[${messages.join(", ")}]`);
}

export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/**
 * The error that the API server returned, for Events and retries.
 * @throws {LeaseEndsError} if the request was never sent
 */
export function toAnswer(thrown: unknown): Error {
  if (thrown instanceof NotSentError) throw new LeaseEndsError();
  return toError(thrown);
}
