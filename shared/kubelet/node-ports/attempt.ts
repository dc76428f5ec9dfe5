/** Steps that do not depend on each other. */
import { describeError } from "../../ports/describe-error.ts";
import type { Log, LogFields } from "../../ports/log.ts";

/** One step of many that do not depend on each other: what goes wrong is named, and the others are done. */
export async function attempt(log: Log, message: string, fields: LogFields, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    log.warn(message, { ...fields, error: describeError(error) });
  }
}
