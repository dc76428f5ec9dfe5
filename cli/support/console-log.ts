/** Log lines for people at a terminal: level, message, fields, on standard error. */
import type { Log, LogFields } from "../../shared/ports/log.ts";
import { printable } from "./printable.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LEVELS)[number];

export function consoleLog(prefix: string, least: LogLevel): Log {
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (LEVELS.indexOf(level) < LEVELS.indexOf(least)) return;
      const text = Object.entries(fields).map(([name, value]) =>
        value === undefined ? "" : ` ${name}=${typeof value === "string" && /\s/.test(value) ? JSON.stringify(value) : value}`,
      );
      process.stderr.write(`${prefix}${level === "info" ? "" : `${level}: `}${printable(message + text.join(""))}\n`);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
