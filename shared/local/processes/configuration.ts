/** The configuration of a local process, read like a function's: from an environment that may refer to secrets. */
import { createSecretReader } from "@deltaloop/store/secrets";
import type { Variables, LiveConfiguration } from "@deltaloop/controllers/configuration";
import { isServedBy } from "@deltaloop/controllers/lambda";
import { liveConfiguration } from "@deltaloop/controllers/configuration";
import type { Clock } from "@deltaloop/base";
import { SecretError } from "@deltaloop/store/ports";
import { consoleLog } from "@deltaloop/base/output";
import { UsageError } from "@deltaloop/base";

/** Interval at which a process checks its secrets for changes. */
const SECRETS_CHECK_MS = 10_000;

/** Reads the configuration. @throws {ConfigurationError} listing every problem; {UsageError} listing each unreadable secret */
export async function readConfiguration(environment: Variables, log = consoleLog("", "info")): Promise<LiveConfiguration> {
  try {
    return await liveConfiguration(environment, { secrets: createSecretReader, now: Date.now, log });
  } catch (error) {
    throw error instanceof SecretError ? new UsageError(error.message) : error;
  }
}

/** Keeps `live` fresh until `signal` aborts, and calls `replaced` once when the connection settings have changed. */
export async function followSecrets(live: LiveConfiguration, clock: Clock, signal: AbortSignal, replaced: () => void): Promise<void> {
  const made = live.current;
  while (!signal.aborted) {
    await clock.after(SECRETS_CHECK_MS, signal).catch(() => undefined);
    if (signal.aborted || isServedBy(made, await live.fresh())) continue;
    replaced();
    return;
  }
}
