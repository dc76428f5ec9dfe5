import { createKubeCalls } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { createSqsMessageSource } from "@deltaloop/store/sqs";
import { createEmfMetrics } from "@deltaloop/base/emf";
import type { Controller } from "@deltaloop/kube/objects";
import type { Clock, Log } from "@deltaloop/base";
import type { MetricName, Metrics } from "@deltaloop/base/metrics";
import { APPLIER_REQUEST_TIMEOUT_MS, APPLIER_WAIT_MS_MAX } from "@deltaloop/base";
import type { Configuration } from "./configuration.ts";
import type { Connections } from "./connect.ts";
import { connectLive } from "./connect-live.ts";
import type { LiveConfiguration } from "./live-configuration.ts";
import { createLogger } from "./logger.ts";
import { NAMESPACE, watcherLease } from "../registry/names.ts";
import { serving } from "./wiring.ts";
import type { FunctionWiring } from "./wiring.ts";

export type Component = Controller | "apply-deltas" | "dead-deltas" | "sweep";

export interface WiredFunction extends Omit<FunctionWiring, "trace"> {
  close(): Promise<void>;
}

/**
 * Creates a function's dependencies from its current configuration; MAC keys and API server credentials may rotate. `kubeConfig`: access to
 * the API server, which the local function host takes from a kubeconfig. If it has no `metrics`, metrics are written to the function's log,
 * unless DELTALOOP_METRICS is `none`. `given`: connections and a log that it shares with other functions; a logger of its own would cost
 * 8 KiB for each function of each cluster.
 */
export function wireFunction(
  component: Component,
  live: LiveConfiguration,
  kubeConfig: KubeHttpConfig,
  given: { readonly connections?: Connections | undefined; readonly log?: Log } = {},
): WiredFunction {
  const configuration = live.current;
  const { cluster, mode, queues } = configuration;
  const log = given.log ?? createLogger(componentService(component), configuration.logLevel);
  const outside = given.connections ?? connectLive(live, log, { anyDigestKey: component === "sweep" });
  const metrics =
    kubeConfig.metrics ?? (configuration.metrics === "none" ? undefined : functionMetrics(component, configuration, outside.clock));
  const onNoAnswer = (): void => served.cluster(cluster)?.proof?.connectionFailed();
  const kube = createKubeCalls({ ...kubeConfig, ...retryBudgetOf(component), onNoAnswer, ...(metrics && { metrics }) });
  const { clock } = outside;
  const lease = { namespace: configuration.leaseNamespace ?? NAMESPACE, name: watcherLease(configuration.deployment) };
  const served = serving(cluster, kube, mode, outside, mode === "act" ? { clock, log, metrics, lease } : undefined);
  const queueUrl = ownQueue(component, queues);
  return {
    clock,
    random: outside.random,
    log,
    ...(metrics && { metrics }),
    digester: outside.digester,
    ...served,
    ...(queueUrl === undefined ? {} : { source: createSqsMessageSource(outside.sqs, { queueUrl }) }),
    renewKeys: () => live.renew("macKey"),
    close: () => outside.close(),
  };
}

/** The source of a component's log lines. */
export function componentService(component: Component): string {
  return `deltaloop-${component}`;
}

/** The metrics of `few`: what the alarm of all clusters needs. */
const FEW: readonly MetricName[] = ["deltaloop_unhealthy_clusters"];

/** Metrics in the function's log, in the embedded metric format. */
export function functionMetrics(
  component: Component,
  { deployment, metrics }: Pick<Configuration, "deployment" | "metrics">,
  clock: Clock,
): Metrics {
  const write = (line: string): void => void process.stdout.write(`${line}\n`);
  const namespace = { namespace: `deltaloop/${deployment}`, dimensions: { function: component } };
  return createEmfMetrics({ ...namespace, now: () => clock.now(), write, ...(metrics === "few" && { only: FEW }) });
}

/** Short functions only read, and their messages are redelivered if a read times out; a sync passes its own retry budget with each call. */
function retryBudgetOf(component: Component): Pick<KubeHttpConfig, "requestTimeoutMs" | "waitMsMax"> {
  const isShort = component === "apply-deltas" || component === "dead-deltas";
  return isShort ? { requestTimeoutMs: APPLIER_REQUEST_TIMEOUT_MS, waitMsMax: APPLIER_WAIT_MS_MAX } : {};
}

/** The queues whose visibility timeout the function may shorten. Not needed for dead letters, which can wait. */
export function ownQueue(component: Component, queues: Configuration["queues"]): string | undefined {
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
