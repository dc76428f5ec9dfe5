/** Writes log lines to standard error: text for a terminal, or JSON for a log collector. */
import { boundedFields } from "../log.ts";
import type { Log, LogFields } from "../log.ts";
import { printable, printableJson } from "./printable.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LEVELS)[number];

/** Lines of level, message and fields, for a terminal. */
export function consoleLog(prefix: string, least: LogLevel): Log {
  return logOf(least, (level, message, fields) => {
    const text = Object.entries(fields).map(([name, value]) =>
      value === undefined ? "" : ` ${name}=${typeof value === "string" && /\s/.test(value) ? JSON.stringify(value) : value}`,
    );
    return `${prefix}${level === "info" ? "" : `${level}: `}${printable(message + text.join(""))}`;
  });
}

/** Lines of `{level, message, timestamp, service, …fields}`. The functions' logger has the same keys, so that one query finds both. */
export function jsonLog(service: string, least: LogLevel): Log {
  return logOf(least, (level, message, fields) =>
    printableJson({ level: level.toUpperCase(), message, timestamp: new Date().toISOString(), service, ...fields }),
  );
}

function logOf(least: LogLevel, line: (level: LogLevel, message: string, fields: LogFields) => string): Log {
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (LEVELS.indexOf(level) >= LEVELS.indexOf(least)) process.stderr.write(`${line(level, message, boundedFields(fields))}\n`);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
