/** `deltaloop host`: all functions in one process, started by `dev`; cli/queue.ts polls their queues and invokes them. */
import { connect } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import type { Command } from "commander";
import { createSystemClock } from "@deltaloop/base/system";
import { CONTROLLERS } from "@deltaloop/kube/objects";
import { createPrometheusMetrics } from "@deltaloop/base/prometheus";
import type { TraceLine } from "@deltaloop/controllers/kit";
import { openCache, redisStore, wireFunction } from "@deltaloop/controllers/lambda";
import type { Component, FunctionWiring } from "@deltaloop/controllers/lambda";
import type { FunctionHandlers } from "@deltaloop/local";
import { serveFunctions } from "@deltaloop/local";
import { serviceAccount, syncFunction } from "@deltaloop/controllers/registry";
import { SyncLog } from "@deltaloop/replay/replay";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { readConfiguration, untilSignalled, untilStdinEnds } from "@deltaloop/local/processes";
import { consoleLog, printable } from "@deltaloop/base/output";
import { decides, describeTrace } from "./explain/describe.ts";
import { functionHandlers } from "./functions/functions.ts";
import { informerSyncCheck, shutdownCheck, storeCheck } from "./health/health-checks.ts";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { RunningSyncs } from "./health/running-syncs.ts";
import { serveMetrics, METRICS_LISTEN } from "./health/metrics-server.ts";

interface HostFlags {
  readonly kubeconfig: string;
  readonly context?: string;
  readonly invocations: string;
  readonly metrics: string;
  readonly decisions?: true;
  readonly child?: true;
}

export function registerHost(program: Command): void {
  program
    .command("host", { hidden: true })
    .description("Runs all functions in one process; a component of `dev`.")
    .requiredOption("--kubeconfig <file>", "kubeconfig; a context named after a deltaloop role is used for that role")
    .option("--context <name>", "context of the kubeconfig")
    .requiredOption("--invocations <socket>", "socket over which the functions are invoked")
    .option("--metrics <host:port>", "address of the metrics and health server; port 0 selects a free port", METRICS_LISTEN)
    .option("--decisions", "print each sync that decides or fails as a line of JSON")
    .option("--child", "exit when standard input ends")
    .action(runHost);
}

const RECONNECT_MS = 100;
/** Longer than the time for which the poller waits for running invocations. */
const LEAVE_MS_MAX = 6_000;

/** Every function on a queue, and its component name in calls to the API server. */
const COMPONENTS: readonly (readonly [functionName: string, component: Component])[] = [
  ["apply-deltas", "apply-deltas"],
  ["dead-deltas", "dead-deltas"],
  ...CONTROLLERS.map((controller) => [syncFunction(controller), controller] as const),
];

async function runHost(flags: HostFlags): Promise<void> {
  const live = await readConfiguration(process.env);
  const configuration = live.current;
  const log = consoleLog(flags.child ? "functions " : "", configuration.logLevel);
  const ends = flags.child ? untilStdinEnds() : untilSignalled();
  const syncs = new SyncLog((sync) => {
    printSync(sync);
    if (flags.decisions && decides(sync)) process.stdout.write(`${JSON.stringify(sync)}\n`);
  }, Date.now);
  const metrics = createPrometheusMetrics("functions");
  const running = new RunningSyncs();
  const trace = (line: TraceLine): void => {
    running.trace(line, Date.now());
    syncs.trace(line);
  };
  const wirings = new Map<string, FunctionWiring>();
  for (const [name, component] of COMPONENTS) {
    const access = await kubeAccess(flags, serviceAccount(name), component);
    wirings.set(name, { ...wireFunction(component, live, { ...access, metrics }), log, trace });
  }
  const wiring = (name: string): FunctionWiring => {
    const found = wirings.get(name);
    if (!found) throw new Error(`no function ${name}`);
    return found;
  };
  const store = openCache(
    configuration,
    redisStore(configuration.redis, () => undefined),
  ).store; // the health check reports errors
  await serveMetrics({
    listen: flags.metrics,
    metrics,
    sample: () => running.tell(metrics, Date.now()),
    livez: [],
    readyz: [storeCheck(store), informerSyncCheck(store), shutdownCheck(ends)],
    log,
  });
  const handlers = functionHandlers(wiring, (resource, items) => syncs.changed(resource, items));
  await serve(handlers, flags.invocations, ends, () => process.stdout.write("ready\n"));
  process.exit();
}

/** Reconnects until `ends`: the process that polls the queues may be restarted. */
async function serve(handlers: FunctionHandlers, path: string, ends: AbortSignal, connected: () => void): Promise<void> {
  while (!ends.aborted) {
    const connection = connect(path, connected);
    const functions = serveFunctions(connection, handlers, { clock: createSystemClock() });
    const leave = (): void => {
      functions.leave();
      setTimeout(() => connection.destroy(), LEAVE_MS_MAX).unref();
    };
    ends.addEventListener("abort", leave, { once: true });
    await functions.ended;
    ends.removeEventListener("abort", leave);
    if (!ends.aborted) await after(RECONNECT_MS);
  }
}

function printSync(sync: ReplayedSync): void {
  const lines = sync.lines
    .filter(({ kind }) => kind !== "event" && kind !== "reason")
    .map((line) => `            ${describeTrace(line)}\n`);
  if (lines.length === 0 && sync.error === undefined) return;
  process.stderr.write(
    `${sync.controller} ${printable(`${sync.key}: ${sync.reasons.slice(0, 3).join(", ") || "a delayed requeue or a retry"}`)}\n${lines.join("")}${sync.error === undefined ? "" : `            error: ${printable(sync.error)}\n`}`,
  );
}
