/** Log lines of a process of ours, on standard error: for people at a terminal, or for whoever collects them. */
import { Option } from "commander";
import type { Log, LogFields } from "../../shared/ports/log.ts";
import { printable, printableJson } from "./printable.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LEVELS)[number];

const FORMATS = ["text", "json"] as const;
export type LoggingFormat = (typeof FORMATS)[number];

/** Upstream's flag for how log lines look. Default: words where somebody looks on, JSON in a container and under systemd. */
export function loggingFormatOption(isWatched = process.stderr.isTTY): Option {
  return new Option("--logging-format <form>", "how log lines look")
    .choices(FORMATS)
    .default(isWatched ? "text" : "json", "text on a terminal, else json");
}

/** Level, message, fields. */
export function consoleLog(prefix: string, least: LogLevel): Log {
  return logOf(least, (level, message, fields) => {
    const text = Object.entries(fields).map(([name, value]) =>
      value === undefined ? "" : ` ${name}=${typeof value === "string" && /\s/.test(value) ? JSON.stringify(value) : value}`,
    );
    return `${prefix}${level === "info" ? "" : `${level}: `}${printable(message + text.join(""))}`;
  });
}

/** `{level, message, timestamp, service, …fields}`: the keys of the functions' lines (shared/lambda/logger.ts), so that one query finds both. */
export function jsonLog(service: string, least: LogLevel): Log {
  return logOf(least, (level, message, fields) =>
    printableJson({ level: level.toUpperCase(), message, timestamp: new Date().toISOString(), service, ...fields }),
  );
}

function logOf(least: LogLevel, line: (level: LogLevel, message: string, fields: LogFields) => string): Log {
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (LEVELS.indexOf(level) >= LEVELS.indexOf(least)) process.stderr.write(`${line(level, message, fields)}\n`);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
