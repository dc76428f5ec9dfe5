/**
 * SecureString parameters below a path. Source: AWS SSM API reference, GetParametersByPath, GetParameters, PutParameter and DeleteParameters.
 *
 * PA1 `versions` and `versionsOf` decrypt nothing, so that following a path or a parameter costs no KMS request.
 * PA2 a value of more than 4 KB becomes an advanced parameter, which costs $0.05 a month.
 * PA3 a version differs from those of deleted parameters of the same name: Parameter Store numbers the versions of each from 1.
 * PA4 one parameter that cannot be read, because its KMS key is disabled, fails the whole call of Parameter Store. Then each of its batch is
 *     read by itself. Throttling, timeouts and errors of the service fail the read.
 */
import * as v from "valibot";

import { AwsError, awsJson, isPassing } from "../aws/aws-json.ts";
import { SecretError } from "../ports/secrets.ts";
import { problemWith } from "./problem.ts";
import { urlOf } from "./secret-reader.ts";
import type { SecretsOptions } from "./secret-reader.ts";

export interface ParameterValue {
  /** Number and date (PA3). */
  readonly version: string;
  readonly text: string;
}

export interface Parameters {
  /** Returns the version of each parameter directly below `path`, by name. */
  versions(path: string): Promise<ReadonlyMap<string, string>>;
  /** Returns the versions by name; a missing parameter is absent. */
  versionsOf(names: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Returns the values by name, each with its version, or why it alone cannot be read (PA4); a missing parameter is absent. */
  values(names: readonly string[]): Promise<ReadonlyMap<string, ParameterValue | SecretError>>;
  /** Returns the value that a parameter had in a version, by number, or undefined. */
  formerValue(name: string, version: number): Promise<string | undefined>;
  /** Replaces a value unconditionally, and returns the number of the new version. A new parameter has version 1. */
  put(name: string, value: string): Promise<number>;
  /** Deletes parameters; a missing one is no error. */
  remove(names: readonly string[]): Promise<void>;
  close(): void;
}

/** For watcher and operators, who do not wait for it as a function does. */
const CALL_MS = 10_000;
/** Limit of GetParametersByPath, GetParameters and DeleteParameters. */
export const NAMES_MAX = 10;
const Parameter = v.object({ Name: v.string(), Version: v.number(), LastModifiedDate: v.nullish(v.number()), Value: v.string() });
type Parameter = v.InferOutput<typeof Parameter>;
const Written = v.object({ Version: v.number() });
const Page = v.object({ Parameters: v.nullish(v.array(Parameter), []), NextToken: v.nullish(v.string()) });

/** All methods throw a SecretError that names the path or parameters, and the action to allow. */
export function createParameters(options: SecretsOptions = {}): Parameters {
  const json = awsJson({ name: "ssm", target: "AmazonSSM", version: "1.1" }, options);
  const { timeoutMs = CALL_MS } = options;
  const call = async (action: string, what: string, input: object): Promise<unknown> => {
    try {
      return await json.call(action, urlOf("ssm", undefined, options), input, { timeoutMs });
    } catch (error) {
      if (!(error instanceof AwsError)) throw error;
      throw new SecretError([`ssm:${what}: ${problemWith(error.name, `ssm:${action}`)}`], { cause: error });
    }
  };
  const get = async (Names: readonly string[], WithDecryption: boolean): Promise<readonly Parameter[]> =>
    v.parse(Page, await call("GetParameters", Names.join(), { Names, WithDecryption })).Parameters;
  async function valuesOf(names: readonly string[]): Promise<readonly (readonly [name: string, value: ParameterValue | SecretError])[]> {
    try {
      return (await get(names, true)).map((each) => [each.Name, { version: versionOf(each), text: each.Value }]);
    } catch (error) {
      if (!(error instanceof SecretError && error.cause instanceof AwsError) || isPassing(error.cause)) throw error;
      const [name = ""] = names;
      return names.length === 1 ? [[name, error]] : (await inTurn(names, async (each) => await valuesOf([each]))).flat(); // PA4
    }
  }

  return {
    async versions(path) {
      const found = new Map<string, string>();
      let next: string | undefined;
      do {
        const input = { Path: path, WithDecryption: false, MaxResults: NAMES_MAX, ...(next !== undefined && { NextToken: next }) };
        const page = v.parse(Page, await call("GetParametersByPath", path, input));
        for (const each of page.Parameters) found.set(each.Name, versionOf(each));
        next = page.NextToken ?? undefined;
      } while (next !== undefined);
      return found;
    },
    versionsOf: async (names) =>
      new Map((await inTurn(batches(names), async (each) => await get(each, false))).flat().map((each) => [each.Name, versionOf(each)])),
    values: async (names) => new Map((await inTurn(batches(names), valuesOf)).flat()),
    formerValue: async (name, version) => (await get([`${name}:${version}`], true))[0]?.Value,
    async put(Name, Value) {
      const input = { Name, Value, Type: "SecureString", Tier: "Intelligent-Tiering", Overwrite: true };
      return v.parse(Written, await call("PutParameter", Name, input)).Version;
    },
    async remove(names) {
      for (const Names of batches(names)) await call("DeleteParameters", Names.join(), { Names });
    },
    close: () => json.close(),
  };
}

/** Splits names into as many as one call takes. */
export function batches(names: readonly string[]): readonly (readonly string[])[] {
  return Array.from({ length: Math.ceil(names.length / NAMES_MAX) }, (_, i) => names.slice(i * NAMES_MAX, (i + 1) * NAMES_MAX));
}

async function inTurn<T, R>(all: readonly T[], act: (each: T) => Promise<R>): Promise<readonly R[]> {
  const done: R[] = [];
  for (const each of all) done.push(await act(each));
  return done;
}

/** The number in a version. */
export function numberOf(version: string): number {
  return Number.parseInt(version, 10);
}

/** PA3 */
function versionOf({ Version, LastModifiedDate }: Parameter): string {
  return `${Version} ${LastModifiedDate ?? ""}`;
}
