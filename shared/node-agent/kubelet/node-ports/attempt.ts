import { describeError } from "@deltaloop/kube/client";
import type { Log, LogFields } from "@deltaloop/base";

/** Runs one of several independent steps. A failure is logged, so that the other steps still run. */
export async function attempt(log: Log, message: string, fields: LogFields, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    log.warn(message, { ...fields, error: describeError(error) });
  }
}
