/** DELTALOOP_* in a file, one a line: what `dev` leaves for the doctor, and whoever deploys may have at hand. */
import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { messageOf } from "@deltaloop/kube/objects";
import type { Variables } from "@deltaloop/controllers/configuration";
import { UsageError } from "@deltaloop/base";

/** `NAME='value'` lines; what `readEnvironmentFile` reads the same from. No value of ours holds both kinds of quotes. */
export function environmentFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => {
      const quote = value.includes("'") ? "`" : "'";
      return `${name}=${quote}${value}${quote}\n`;
    })
    .join("");
}

/**
 * The watcher's environment: that of a file, or this process's own. The file's region is this process's then, too: in another one a secret or a
 * queue of the same name is another deployment's. Credentials are those of whoever asks.
 *
 * @throws {UsageError} when it cannot be read
 */
export function watchersEnvironment(file: string | undefined): Variables {
  if (file === undefined) return process.env;
  const variables = readEnvironmentFile(file);
  const region = variables["AWS_REGION"] ?? variables["AWS_DEFAULT_REGION"];
  if (region !== undefined) process.env["AWS_REGION"] = region;
  return variables;
}

/** @throws {UsageError} when it cannot be read */
export function readEnvironmentFile(path: string): Readonly<Record<string, string | undefined>> {
  try {
    return parseEnv(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
}
