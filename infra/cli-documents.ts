/** The reference of the command line, printed by the command itself: infra/ may not import cli/. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Path, from this folder, to text. */
export function cliDocuments(): Readonly<Record<string, string>> {
  const main = fileURLToPath(new URL("../cli/main.ts", import.meta.url));
  return { "../docs/reference/cli.md": execFileSync(process.execPath, [main, "reference"], { encoding: "utf8" }) };
}
