/**
 * The export of a handler file: its function, created at the first invocation, so that importing it has no effect.
 *
 * DE1 the first invocation reads all secrets at once; it fails with the reason, and the next one retries.
 * DE2 the configuration is refreshed before each invocation (live-configuration.ts). If its connections cannot be reused, the function is
 *     recreated; work in progress ends on the old connections, which are then closed.
 * DE3 the sweeper reads no rows and no messages, so it has none of the deployment's keys and uses random ones.
 */
import { randomBytes } from "node:crypto";
import { createSecretReader } from "@deltaloop/store/secrets";
import { liveConfiguration } from "./live-configuration.ts";
import type { LiveConfiguration } from "./live-configuration.ts";
import type { Variables } from "./configuration.ts";
import { isServedBy } from "./connect-live.ts";
import { kubeHttpConfig } from "./kube-credentials.ts";
import { createLogger } from "./logger.ts";
import { componentService, wireFunction } from "./wire-function.ts";
import type { Component, WiredFunction } from "./wire-function.ts";

interface Made<A extends readonly unknown[], R> {
  readonly of: LiveConfiguration["current"];
  readonly handler: (...args: A) => Promise<R>;
  readonly wiring: WiredFunction;
  running: number;
}

/** Returns the export of a handler file. `environment` is Lambda's by default. */
export function deployed<A extends readonly unknown[], R>(
  component: Component,
  create: (wiring: WiredFunction) => (...args: A) => Promise<R>,
  environment: Variables = process.env,
): (...args: A) => Promise<R> {
  const service = componentService(component);
  let starting: Promise<LiveConfiguration> | undefined;
  let made: Made<A, R> | undefined;

  async function start(): Promise<LiveConfiguration> {
    starting ??= liveConfiguration(component === "sweep" ? withKeys(environment) : environment, {
      secrets: createSecretReader,
      now: Date.now,
      log: createLogger(service, "info"),
    });
    try {
      return await starting;
    } catch (error) {
      starting = undefined;
      throw error;
    }
  }

  return async (...args) => {
    const live = await start();
    const of = await live.fresh();
    if (made === undefined || !isServedBy(made.of, of)) {
      const former = made;
      const wiring = wireFunction(component, live, kubeHttpConfig(live, component, { log: createLogger(service, of.logLevel) }));
      made = { of, handler: create(wiring), wiring, running: 0 };
      if (former?.running === 0) await former.wiring.close();
    }
    const own = made;
    own.running++;
    try {
      return await own.handler(...args);
    } finally {
      own.running--;
      if (own !== made && own.running === 0) await own.wiring.close();
    }
  };
}

function withKeys(environment: Variables): Variables {
  const missing = ["DELTALOOP_MAC_KEY", "DELTALOOP_DIGEST_KEY"].filter((name) => !environment[name] && !environment[`${name}_SECRET`]);
  return { ...environment, ...Object.fromEntries(missing.map((name) => [name, randomBytes(32).toString("hex")])) };
}
