import { Logger } from "@aws-lambda-powertools/logger";

import { boundedFields } from "@deltaloop/base";
import type { Log, LogFields } from "@deltaloop/base";
import type { Configuration } from "./configuration.ts";

/** JSON lines on standard output: `{level, message, timestamp, service, …fields}`. `service` is the function's name. */
export function createLogger(service: string, level: Configuration["logLevel"]): Log {
  const logger = new Logger({
    serviceName: service,
    logLevel: level === "warn" ? "WARN" : (level.toUpperCase() as "DEBUG" | "INFO" | "ERROR"),
  });
  return {
    debug: (message, fields) => logger.debug(message, given(fields)),
    info: (message, fields) => logger.info(message, given(fields)),
    warn: (message, fields) => logger.warn(message, given(fields)),
    error: (message, fields) => logger.error(message, given(fields)),
  };
}

/** Omits absent fields and shortens long values. `LogFields` holds plain values only, so nothing nested can be logged. */
function given(fields: LogFields = {}): Record<string, string | number | boolean> {
  return Object.fromEntries(
    Object.entries(boundedFields(fields)).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  );
}
