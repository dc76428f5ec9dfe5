/**
 * SecureString parameters below a path. Source: AWS SSM API reference, GetParametersByPath, GetParameters, PutParameter and DeleteParameters.
 *
 * PA1 `versions` decrypts nothing, so that following a path costs no KMS request.
 * PA2 a value of more than 4 KB becomes an advanced parameter, which costs $0.05 a month.
 */
import * as v from "valibot";

import { AwsError, awsJson } from "../aws/aws-json.ts";
import { SecretError } from "../ports/secrets.ts";
import { problemWith } from "./problem.ts";
import { urlOf } from "./secret-reader.ts";
import type { SecretsOptions } from "./secret-reader.ts";

export interface Parameters {
  /** Returns the version of each parameter directly below `path`, by name. */
  versions(path: string): Promise<ReadonlyMap<string, number>>;
  /** Returns the values by name; a missing parameter is absent. */
  values(names: readonly string[]): Promise<ReadonlyMap<string, string>>;
  put(name: string, value: string): Promise<void>;
  /** Deletes parameters; a missing one is no error. */
  remove(names: readonly string[]): Promise<void>;
  close(): void;
}

/** Its callers, watcher and operators, do not wait for it as a function does. */
const CALL_MS = 10_000;
/** Limit of GetParametersByPath, GetParameters and DeleteParameters. */
const NAMES_MAX = 10;
const Named = v.object({ Name: v.string() });
const Page = v.object({
  Parameters: v.nullish(v.array(v.object({ ...Named.entries, Version: v.number() })), []),
  NextToken: v.nullish(v.string()),
});
const Values = v.object({ Parameters: v.nullish(v.array(v.object({ ...Named.entries, Value: v.string() })), []) });

/** All methods throw a SecretError that names the path or parameters, and the action to allow. */
export function createParameters(options: SecretsOptions = {}): Parameters {
  const json = awsJson({ name: "ssm", target: "AmazonSSM", version: "1.1" }, options);
  const { timeoutMs = CALL_MS } = options;
  const call = async (action: string, what: string, input: object): Promise<unknown> => {
    try {
      return await json.call(action, urlOf("ssm", undefined, options), input, { timeoutMs });
    } catch (error) {
      if (!(error instanceof AwsError)) throw error;
      throw new SecretError([`ssm:${what}: ${problemWith(error.name, `ssm:${action}`)}`]);
    }
  };
  const batches = (names: readonly string[]): readonly (readonly string[])[] =>
    Array.from({ length: Math.ceil(names.length / NAMES_MAX) }, (_, i) => names.slice(i * NAMES_MAX, (i + 1) * NAMES_MAX));
  return {
    async versions(path) {
      const found = new Map<string, number>();
      let next: string | undefined;
      do {
        const input = { Path: path, WithDecryption: false, MaxResults: NAMES_MAX, ...(next !== undefined && { NextToken: next }) };
        const page = v.parse(Page, await call("GetParametersByPath", path, input));
        for (const { Name, Version } of page.Parameters) found.set(Name, Version);
        next = page.NextToken ?? undefined;
      } while (next !== undefined);
      return found;
    },
    async values(names) {
      const found = new Map<string, string>();
      for (const Names of batches(names)) {
        const answer = v.parse(Values, await call("GetParameters", Names.join(), { Names, WithDecryption: true }));
        for (const { Name, Value } of answer.Parameters) found.set(Name, Value);
      }
      return found;
    },
    async put(Name, Value) {
      await call("PutParameter", Name, { Name, Value, Type: "SecureString", Tier: "Intelligent-Tiering", Overwrite: true });
    },
    async remove(names) {
      for (const Names of batches(names)) await call("DeleteParameters", Names.join(), { Names });
    },
    close: () => json.close(),
  };
}
