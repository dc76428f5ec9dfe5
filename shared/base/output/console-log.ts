/** Writes log lines to standard error: text for a terminal, or JSON for a log collector. */
import type { Log, LogFields } from "../log.ts";
import { printable, printableJson } from "./printable.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;
/** Maximum length of a field's value, in characters. */
const VALUE_LENGTH_MAX = 1_024;
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
      if (LEVELS.indexOf(level) >= LEVELS.indexOf(least)) process.stderr.write(`${line(level, message, bounded(fields))}\n`);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Shortens long values, so that external input cannot fill the log. */
function bounded(fields: LogFields): LogFields {
  const isLong = (value: unknown): value is string => typeof value === "string" && value.length > VALUE_LENGTH_MAX;
  if (!Object.values(fields).some(isLong)) return fields;
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, isLong(value) ? `${value.slice(0, VALUE_LENGTH_MAX)}…` : value]),
  );
}
