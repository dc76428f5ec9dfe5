/**
 * Secrets, read and written by reference. A reference names a secret and reveals nothing of its value:
 *
 *     deltaloop/prod/mac-key                                       Secrets Manager, as
 *     arn:aws:secretsmanager:eu-central-1:1:secret:mac-key-a1B2c3
 *     ssm:/deltaloop/prod/mac-key                                  Parameter Store, as
 *     arn:aws:ssm:eu-central-1:1:parameter/deltaloop/prod/mac-key
 *     file:/var/run/secrets/deltaloop/mac-key                      a file that another process refreshes
 *
 * SR1 `read` returns the value of every given reference, in one call per service, or fails as a whole.
 * SR2 a failure names each unreadable reference, the reason, and what the operator can do; never a value.
 * SR3 a `read` after a `write` returns the written value.
 */

/** A store of secrets. */
export interface Secrets {
  /** Returns the values of secrets (SR1). @throws {SecretError} */
  read(references: readonly string[], options?: { readonly timeoutMs?: number }): Promise<SecretValues>;
  /** Replaces the value of an existing secret. @throws {SecretError} */
  write(reference: string, value: string): Promise<void>;
}

/** Values by reference. */
export type SecretValues = ReadonlyMap<string, string>;

/** A secret could not be read or written; one line per secret. A retry can succeed only if a service was unavailable. */
export class SecretError extends Error {
  override readonly name = "SecretError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join("\n"), options);
    this.problems = problems;
  }
}
