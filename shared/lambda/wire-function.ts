import { readFileSync } from "node:fs";

import { createKubeHttp } from "../adapters/kube-http/kube-http.ts";
import type { KubeHttpConfig } from "../adapters/kube-http/config.ts";
import { createSqsMessageSource } from "../adapters/sqs/message-source.ts";
import { createEmfMetrics } from "../adapters/emf/emf.ts";
import type { Controller } from "../api/resources.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/metrics.ts";
import { describeError } from "../ports/describe-error.ts";
import { APPLIER_REQUEST_TIMEOUT_MS, APPLIER_WAIT_MS_MAX } from "../ports/times.ts";
import { parseConfiguration } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";
import { connect, redisStore } from "./connect.ts";
import { createLogger } from "./logger.ts";
import { tokenFrom } from "./token-file.ts";
import { serving } from "./wiring.ts";
import type { FunctionWiring } from "./wiring.ts";

/**
 * Everything a function needs, from Lambda's environment. Made once per sandbox; connections stay open between invocations.
 *
 * @throws {ConfigurationError} when the environment is incomplete or wrong
 */
export function wireFunction(component: Component): Omit<FunctionWiring, "trace"> {
  const configuration = parseConfiguration(process.env);
  return wireFunctionFrom(component, configuration, kubeHttpConfig(configuration.kube, component));
}

export type Component = Controller | "apply-deltas" | "dead-deltas" | "sweep";

/**
 * The same with what is known otherwise: the local function host takes its credentials from a kubeconfig. Counted is where its calls are;
 * absent: in the function's own log, unless DELTALOOP_METRICS says `none`.
 */
export function wireFunctionFrom(
  component: Component,
  configuration: Configuration,
  kubeConfig: KubeHttpConfig,
): Omit<FunctionWiring, "trace"> {
  const { cluster, mode, queues } = configuration;
  const log = createLogger(`deltaloop-${component}`, configuration.logLevel);
  const outside = connect(
    configuration,
    redisStore(configuration.redis, (error) => log.warn("redis connection failed", { error: describeError(error) })),
  );
  const metrics =
    kubeConfig.metrics ??
    (configuration.metrics === "emf" ? functionMetrics(component, configuration.deployment, outside.clock) : undefined);
  const kube = createKubeHttp({ ...kubeConfig, ...patienceOf(component), ...(metrics && { metrics }) });
  const queueUrl = ownQueue(component, queues);
  return {
    clock: outside.clock,
    random: outside.random,
    log,
    ...(metrics && { metrics }),
    digester: outside.digester,
    ...serving(cluster, kube, mode, outside),
    ...(queueUrl === undefined ? {} : { source: createSqsMessageSource(outside.sqs, { queueUrl }) }),
  };
}

function functionMetrics(component: Component, deployment: string, clock: Clock): Metrics {
  const write = (line: string): void => void process.stdout.write(`${line}\n`);
  return createEmfMetrics({ namespace: `deltaloop/${deployment}`, dimensions: { function: component }, now: () => clock.now(), write });
}

/** The short functions only read, and what they cannot read in time comes again; a sync brings its own patience with each call. */
function patienceOf(component: Component): Pick<KubeHttpConfig, "requestTimeoutMs" | "waitMsMax"> {
  const isShort = component === "apply-deltas" || component === "dead-deltas";
  return isShort ? { requestTimeoutMs: APPLIER_REQUEST_TIMEOUT_MS, waitMsMax: APPLIER_WAIT_MS_MAX } : {};
}

/** Whose visibility the function may shorten. Nobody waits for a dead letter, so its queue need not be known. */
function ownQueue(component: Component, queues: Configuration["queues"]): string | undefined {
  switch (component) {
    case "apply-deltas":
      return queues.deltas;
    case "dead-deltas":
    case "sweep":
      return undefined;
    default:
      return queues.doorbells[component];
  }
}

/** Access as the environment tells it: a token and an authority. */
export function kubeHttpConfig(kube: Configuration["kube"], component: string): KubeHttpConfig {
  const { server, token } = kube;
  const ca = kube.caFile === undefined ? kube.ca : readFileSync(kube.caFile);
  const asked = kube.tokenFile === undefined ? token && (() => token) : tokenFrom(kube.tokenFile);
  return { server, component, ...(ca === undefined ? {} : { ca }), ...(asked ? { token: asked } : {}) };
}
