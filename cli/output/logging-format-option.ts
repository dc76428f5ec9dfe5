import { Option } from "commander";

const FORMATS = ["text", "json"] as const;
export type LoggingFormat = (typeof FORMATS)[number];

/** Upstream's flag for the format of log lines. Default: text on a terminal, otherwise JSON, as in a container or under systemd. */
export function loggingFormatOption(isTerminal = process.stderr.isTTY): Option {
  return new Option("--logging-format <form>", "log format")
    .choices(FORMATS)
    .default(isTerminal ? "text" : "json", "text on a terminal, else json");
}
