/** How a sync fails. All of these bring the key back with back-off. */
import { NotSentError } from "@deltaloop/kube/client";

/** The lease or the invocation ends too soon for another call. Normal under load; whoever takes the key next goes on. */
export class LeaseEndsError extends Error {
  override readonly name = "LeaseEndsError";
  constructor() {
    super("lease ends");
  }
}

/** Somebody else has the key by now, or it names another object. Normal after a pause; nothing may be written any more. */
export class StolenError extends Error {
  override readonly name = "StolenError";
  constructor() {
    super("the key was taken over");
  }
}

/**
 * Several errors in one, printed as upstream prints them: one alone, more as `[a, b]`, equal texts once.
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
 * What a call was answered with, for whoever tells people or tries again.
 * @throws {LeaseEndsError} when it was never sent: nobody has answered anything
 */
export function toAnswer(thrown: unknown): Error {
  if (thrown instanceof NotSentError) throw new LeaseEndsError();
  return toError(thrown);
}
