/** Files of DELTALOOP_* variables, one in a line: `dev` writes one for `doctor`, and an operator may have one. */
import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { messageOf } from "@deltaloop/kube/objects";
import type { Variables } from "@deltaloop/controllers/configuration";
import { UsageError } from "@deltaloop/base";

/** `NAME='value'` lines for `readEnvironmentFile`. No value contains both kinds of quotes. */
export function environmentFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => {
      const quote = value.includes("'") ? "`" : "'";
      return `${name}=${quote}${value}${quote}\n`;
    })
    .join("");
}

/**
 * The watcher's environment, from a file or this process. Sets AWS_REGION from the file: in another region, a secret or queue of the same
 * name belongs to another deployment. Credentials stay those of this process.
 *
 * @throws {UsageError} if it cannot be read
 */
export function watchersEnvironment(file: string | undefined): Variables {
  if (file === undefined) return process.env;
  const variables = readEnvironmentFile(file);
  const region = variables["AWS_REGION"] ?? variables["AWS_DEFAULT_REGION"];
  if (region !== undefined) process.env["AWS_REGION"] = region;
  return variables;
}

/** @throws {UsageError} if it cannot be read */
export function readEnvironmentFile(path: string): Readonly<Record<string, string | undefined>> {
  try {
    return parseEnv(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
}
