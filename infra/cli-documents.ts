/** Generates the command-line reference. It runs the command, since infra/ may not import cli/. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Returns the reference page: its path relative to infra/, and its text. */
export function cliDocuments(): Readonly<Record<string, string>> {
  const main = fileURLToPath(new URL("../cli/main.ts", import.meta.url));
  return { "../docs/reference/cli.md": execFileSync(process.execPath, [main, "reference"], { encoding: "utf8" }) };
}
