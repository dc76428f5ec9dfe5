/**
 * Secrets, read and written by reference. A reference names a secret and tells nothing of its value:
 *
 *     deltaloop/prod/mac-key                                       Secrets Manager, as
 *     arn:aws:secretsmanager:eu-central-1:1:secret:mac-key-a1B2c3
 *     ssm:/deltaloop/prod/mac-key                                  Parameter Store, as
 *     arn:aws:ssm:eu-central-1:1:parameter/deltaloop/prod/mac-key
 *     file:/var/run/secrets/deltaloop/mac-key                      a file that somebody else keeps fresh
 *
 * SR1 `read` answers the value of every reference it was given, in one call of each service, or fails as a whole.
 * SR2 a failure names each reference that could not be read, why, and what whoever acts may do; never a value.
 * SR3 what `write` has written is what a later `read` answers.
 */

/** Where secrets are kept. */
export interface Secrets {
  /** @throws {SecretError} */
  read(references: readonly string[], options?: { readonly timeoutMs?: number }): Promise<SecretValues>;
  /** Of a secret that is there. @throws {SecretError} */
  write(reference: string, value: string): Promise<void>;
}

/** By reference. */
export type SecretValues = ReadonlyMap<string, string>;

/** A secret could not be read or written. One line each; whoever deployed it acts, or time does when a service was out of reach. */
export class SecretError extends Error {
  override readonly name = "SecretError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join("\n"), options);
    this.problems = problems;
  }
}
