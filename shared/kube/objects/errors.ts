import type { CachedResource, ObjectKey } from "./resources.ts";

/**
 * An object that cannot be cached because part of its identity is missing. Never normal: an API server does not send
 * such an object. The caller quarantines it (informer §10.4); sending it again brings the same answer. The message names
 * what is missing and never quotes a value of a template.
 */
export class MalformedObjectError extends Error {
  override readonly name = "MalformedObjectError";
  readonly resource: CachedResource;
  /** `namespace/name`, as far as the object tells it. */
  readonly key: ObjectKey | undefined;
  /** `no metadata`, `no name`, … */
  readonly problem: string;

  constructor(resource: CachedResource, problem: string, key?: ObjectKey) {
    super(`malformed object of ${resource}${key === undefined ? "" : ` ${key}`}: ${problem}`);
    this.resource = resource;
    this.problem = problem;
    this.key = key;
  }
}

/** What was thrown, for people: an Error's message, else its text. The API server's words are in it; for logs see describeError. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
