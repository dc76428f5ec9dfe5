/** Configurations of our own processes: as a function's, from an environment that may hold references instead of secrets. */
import { createSecretReader } from "@deltaloop/store/secrets";
import type { Variables, LiveConfiguration } from "@deltaloop/controllers/configuration";
import { isServedBy } from "@deltaloop/controllers/lambda";
import { liveConfiguration } from "@deltaloop/controllers/configuration";
import type { Clock } from "@deltaloop/base";
import { SecretError } from "@deltaloop/store/ports";
import { consoleLog } from "@deltaloop/base/output";
import { UsageError } from "@deltaloop/base";

/** How often a process that lives asks whether its secrets are old, or others by now. */
const LOOK_MS = 10_000;

/** @throws {ConfigurationError} naming every mistake; {UsageError} naming each secret that cannot be read */
export async function readConfiguration(environment: Variables, log = consoleLog("", "info")): Promise<LiveConfiguration> {
  try {
    return await liveConfiguration(environment, { secrets: createSecretReader, now: Date.now, log });
  } catch (error) {
    throw error instanceof SecretError ? new UsageError(error.message) : error;
  }
}

/** Keeps `live` fresh until `signal` aborts, and reports once when the connection settings are no longer valid. */
export async function followSecrets(live: LiveConfiguration, clock: Clock, signal: AbortSignal, replaced: () => void): Promise<void> {
  const made = live.current;
  while (!signal.aborted) {
    await clock.after(LOOK_MS, signal).catch(() => undefined);
    if (signal.aborted || isServedBy(made, await live.fresh())) continue;
    replaced();
    return;
  }
}
