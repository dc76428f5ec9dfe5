/** Steps that do not depend on each other. */
import { describeError } from "@deltaloop/kube/client";
import type { Log, LogFields } from "@deltaloop/base";

/** One step of many that do not depend on each other: what goes wrong is named, and the others are done. */
export async function attempt(log: Log, message: string, fields: LogFields, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    log.warn(message, { ...fields, error: describeError(error) });
  }
}
