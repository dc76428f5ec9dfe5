import type { Log, LogFields } from "../../shared/base/log.ts";

export interface LoggedLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: LogFields;
}

/** A log that stores its lines for a test. */
export function recordingLog(): Log & { readonly lines: readonly LoggedLine[] } {
  const lines: LoggedLine[] = [];
  const at =
    (level: LoggedLine["level"]) =>
    (message: string, fields: LogFields = {}): void =>
      void lines.push({ level, message, fields });
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
