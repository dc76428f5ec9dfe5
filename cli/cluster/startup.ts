/** How long a command waits for an API server that is starting. */
import { Option } from "commander";
import { duration, UsageError } from "@deltaloop/base";
import type { Log } from "@deltaloop/base";
import { createSystemClock } from "@deltaloop/base/system";
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import { createClient, resourcePath, startupClient, StartupError } from "@deltaloop/kube/http";
import type { KubeClient, KubeHttpConfig } from "@deltaloop/kube/http";
import { accessFailure } from "./access-failure.ts";

export interface StartupFlags {
  /** Milliseconds. */
  readonly startupTimeout: number;
}

const DEFAULT_MS = 60_000;

export function startupTimeoutOption(what = "how long to wait for an API server that does not respond or returns 5xx"): Option {
  return new Option("--startup-timeout <duration>", what).argParser(duration("--startup-timeout")).default(DEFAULT_MS, "1m0s");
}

/** Returns `client` for the first calls of a command; it retries them and logs which call it waits for. */
export function starting<C extends KubeClient>(client: C, server: string, { startupTimeout }: StartupFlags, log: Log): C {
  return startupClient(client, {
    timeoutMs: startupTimeout,
    clock: createSystemClock(),
    onWaiting: (awaited) => log.warn(`waiting for the API server ${new URL(server).origin}`, { call: awaited }),
  });
}

/** Waits until the API server answers. @throws {StartupError} if it does not answer in time */
export async function untilAnswered(config: KubeHttpConfig, flags: StartupFlags, log: Log): Promise<void> {
  await starting(createClient(config), config.server, flags, log).json({ method: "GET", path: "/version" });
}

/**
 * Waits until the API server lists each cached resource, or `signal` aborts.
 *
 * @throws {UsageError} for failures that no retry repairs: credentials, a missing permission, a certificate, a server other than an API server
 * @throws {StartupError} if it does not answer
 */
export async function untilListed(
  config: KubeHttpConfig,
  flags: StartupFlags & { readonly namespace?: string },
  log: Log,
  signal = new AbortController().signal,
): Promise<void> {
  const client = starting(createClient(config), config.server, flags, log);
  const lists = CACHED_RESOURCES.map((resource) =>
    client
      .json({ method: "GET", path: resourcePath(resource, flags.namespace ?? ""), query: { limit: 1 }, signal })
      .catch((error: unknown) => {
        const isReported = error instanceof StartupError;
        const failure = accessFailure(isReported ? error.cause : error, `list ${resource}`, config.server);
        throw failure && isReported ? new UsageError(error.message, { cause: error.cause }) : (failure ?? error);
      }),
  );
  await Promise.all(lists).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}
