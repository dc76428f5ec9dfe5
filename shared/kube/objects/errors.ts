import type { View, ObjectKey } from "./resources.ts";

/**
 * An object that cannot be cached because part of its identity is missing. An API server does not send such an object. The caller
 * quarantines it (informer §10.4), because a retry fails again. The message names the missing field and never quotes a template value.
 */
export class MalformedObjectError extends Error {
  override readonly name = "MalformedObjectError";
  readonly resource: View;
  /** `namespace/name`, as far as it is known. */
  readonly key: ObjectKey | undefined;
  /** `no metadata`, `no name`, … */
  readonly problem: string;

  constructor(resource: View, problem: string, key?: ObjectKey) {
    super(`malformed object of ${resource}${key === undefined ? "" : ` ${key}`}: ${problem}`);
    this.resource = resource;
    this.problem = problem;
    this.key = key;
  }
}

/** The message of a thrown value for users. It may quote the API server; use describeError for logs. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
