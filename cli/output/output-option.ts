/** `-o json|yaml`, for output that programs read. */
import { Option } from "commander";
import type { Command } from "commander";
import { stringify } from "yaml";
import { printableJson } from "@deltaloop/base/output";

export type OutputFormat = "json" | "yaml";

/** `what` describes one object. `--json` is the former name of `-o json`. */
export function addOutputOption(command: Command, what: string): Command {
  return command
    .addOption(new Option("-o, --output <format>", `print ${what} as json or yaml`).choices(["json", "yaml"]))
    .addOption(new Option("--json", "same as -o json").implies({ output: "json" }));
}

/** Characters that move the cursor, end a line or reorder text; the line ends of the document itself are kept. */
const UNSAFE = /[^\P{Cc}\n]|[\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** One line of JSON, or one document of a YAML stream; safe for a terminal, regardless of the content of `value`. */
export function objectText(value: object, format: OutputFormat): string {
  if (format === "json") return `${printableJson(value)}\n`;
  // Converts to JSON first, because YAML would print undefined fields.
  const text = stringify(JSON.parse(JSON.stringify(value)), {
    version: "1.1", // YAML 1.1 makes the writer quote keys such as yes
    lineWidth: 0,
    doubleQuotedAsJSON: true,
    defaultStringType: "QUOTE_DOUBLE",
    defaultKeyType: "PLAIN",
  });
  return `---\n${text.replace(UNSAFE, escaped)}`;
}

function escaped(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16);
  return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
}
