/** DELTALOOP_* in a file, one a line: what `dev` leaves for the doctor, and whoever deploys may have at hand. */
import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { messageOf } from "../../shared/api/errors.ts";
import { UsageError } from "./usage-error.ts";

/** `NAME='value'` lines; what `readEnvironmentFile` reads the same from. No value of ours holds both kinds of quotes. */
export function environmentFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => {
      const quote = value.includes("'") ? "`" : "'";
      return `${name}=${quote}${value}${quote}\n`;
    })
    .join("");
}

/** @throws {UsageError} when it cannot be read */
export function readEnvironmentFile(path: string): Readonly<Record<string, string | undefined>> {
  try {
    return parseEnv(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  }
}
