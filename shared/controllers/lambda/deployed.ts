/**
 * The export of a handler file: its function, created at the first invocation, so that importing it has no effect.
 *
 * DE1 the first invocation reads all secrets at once; it fails with the reason, and the next one retries.
 * DE2 the configuration is refreshed before each invocation (live-configuration.ts). If its connections cannot be reused, the function is
 *     recreated; work in progress ends on the old connections, which are then closed.
 * DE3 the sweeper reads no rows and no messages. It uses random keys, except that of MACs if it serves several clusters, whose doorbells
 *    are signed.
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

/** What serves invocations with one configuration. */
export interface Serving<A extends readonly unknown[], R> {
  readonly handler: (...args: A) => Promise<R>;
  close(): Promise<void>;
}

/** Returns the export of a handler file of a function that serves one cluster. `environment` is Lambda's by default. */
export function deployed<A extends readonly unknown[], R>(
  component: Component,
  create: (wiring: WiredFunction) => (...args: A) => Promise<R>,
  environment: Variables = process.env,
): (...args: A) => Promise<R> {
  return remade(component, environment, (live) => {
    const log = createLogger(componentService(component), live.current.logLevel);
    const wiring = wireFunction(component, live, kubeHttpConfig(live, component, { log }));
    return { handler: create(wiring), close: wiring.close };
  });
}

/** Calls what `make` returns, which is made again when its configuration cannot be used any more (DE2). */
export function remade<A extends readonly unknown[], R>(
  component: Component,
  environment: Variables,
  make: (live: LiveConfiguration) => Serving<A, R>,
): (...args: A) => Promise<R> {
  let starting: Promise<LiveConfiguration> | undefined;
  let made: { readonly of: LiveConfiguration["current"]; readonly serving: Serving<A, R>; running: number } | undefined;

  async function start(): Promise<LiveConfiguration> {
    starting ??= liveConfiguration(component === "sweep" ? withKeys(environment) : environment, {
      secrets: createSecretReader,
      now: Date.now,
      log: createLogger(componentService(component), "info"),
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
      made = { of, serving: make(live), running: 0 };
      if (former?.running === 0) await former.serving.close();
    }
    const own = made;
    own.running++;
    try {
      return await own.serving.handler(...args);
    } finally {
      own.running--;
      if (own !== made && own.running === 0) await own.serving.close();
    }
  };
}

function withKeys(environment: Variables): Variables {
  const missing = ["DELTALOOP_MAC_KEY", "DELTALOOP_DIGEST_KEY"].filter((name) => !environment[name] && !environment[`${name}_SECRET`]);
  return { ...environment, ...Object.fromEntries(missing.map((name) => [name, randomBytes(32).toString("hex")])) };
}
