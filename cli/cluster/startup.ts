/** How long a command waits for an API server that is starting. */
import { Option } from "commander";
import { duration } from "@deltaloop/base";
import type { Log } from "@deltaloop/base";
import { createSystemClock } from "@deltaloop/base/system";
import { startupClient } from "@deltaloop/kube/http";
import type { KubeClient } from "@deltaloop/kube/http";

export interface StartupFlags {
  /** Milliseconds. */
  readonly startupTimeout: number;
}

const DEFAULT_MS = 60_000;

export function startupTimeoutOption(): Option {
  return new Option("--startup-timeout <duration>", "how long to wait for an API server that does not answer or answers 5xx")
    .argParser(duration("--startup-timeout"))
    .default(DEFAULT_MS, "1m0s");
}

/** `client` for the first calls of a command, which are repeated; logs what it waits for. */
export function starting<C extends KubeClient>(client: C, server: string, { startupTimeout }: StartupFlags, log: Log): C {
  return startupClient(client, {
    timeoutMs: startupTimeout,
    clock: createSystemClock(),
    onWaiting: (awaited) => log.warn(`waiting for the API server ${new URL(server).origin}`, { call: awaited }),
  });
}
