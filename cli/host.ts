/** `deltaloop host`: all functions in one process behind local event source mappings; one of dev's processes. */
import type { Command } from "commander";
import { sqsCalls } from "../shared/adapters/sqs/calls.ts";
import { createSqsMessageSource } from "../shared/adapters/sqs/message-source.ts";
import { CONTROLLERS, tableOf } from "../shared/api/resources.ts";
import { createPrometheusMetrics } from "../shared/adapters/prometheus/registry.ts";
import type { TraceLine } from "../shared/controller/run.ts";
import { openCache, redisStore } from "../shared/lambda/connect.ts";
import { wireFunction } from "../shared/lambda/wire-function.ts";
import type { Component } from "../shared/lambda/wire-function.ts";
import type { FunctionWiring } from "../shared/lambda/wiring.ts";
import { startFunctionHost } from "../shared/local/function-host.ts";
import { serviceAccount, syncFunction } from "../shared/registry/names.ts";
import { SyncLog } from "../shared/replay/sync-log.ts";
import type { ReplayedSync } from "../shared/replay/sync-log.ts";
import { readConfiguration } from "./support/configuration.ts";
import { consoleLog } from "./support/console-log.ts";
import { describeTrace } from "./support/describe.ts";
import { functionHandlers } from "./support/functions.ts";
import { informerSyncCheck, shutdownCheck, storeCheck } from "./support/health-checks.ts";
import { kubeAccess } from "./support/kube-access.ts";
import { printable } from "./support/printable.ts";
import { RunningSyncs } from "./support/running-syncs.ts";
import { untilSignalled, untilStdinEnds } from "./support/signals.ts";
import { serveTelling, TELLING_LISTEN } from "./support/telling.ts";
import { wholeNumber } from "./support/usage-error.ts";

interface HostFlags {
  readonly kubeconfig: string;
  readonly context?: string;
  readonly deadDeltas: string;
  readonly concurrency: number;
  readonly metrics: string;
  readonly child?: true;
}

export function registerHost(program: Command): void {
  program
    .command("host", { hidden: true })
    .description("run all functions in one process; configured by the environment like the functions")
    .requiredOption("--kubeconfig <file>", "credentials; a context named like a role's service account is used for that role")
    .option("--context <name>", "context of the kubeconfig")
    .requiredOption("--dead-deltas <url>", "Q1's dead-letter queue, which the functions themselves need not know")
    .option("--concurrency <n>", "invocations of one sync function at a time", wholeNumber("--concurrency", { min: 1, max: 50 }), 5)
    .option("--metrics <host:port>", "where metrics and health are told; port 0: any that is free", TELLING_LISTEN)
    .option("--child", "end with the parent's pipe")
    .action(runHost);
}

/** Every function on a queue, and the component it calls the API server as. */
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
  const syncs = new SyncLog((sync) => printSync(sync), Date.now);
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
  const { queues } = configuration;
  const sqs = sqsCalls(queues.endpoint === undefined ? {} : { endpoint: queues.endpoint });
  const source = (queueUrl: string) => createSqsMessageSource(sqs, { queueUrl });
  const store = openCache(
    configuration,
    redisStore(configuration.redis, () => undefined),
  ).store; // who looks says so
  await serveTelling({
    listen: flags.metrics,
    metrics,
    sample: () => running.tell(metrics, Date.now()),
    livez: [],
    readyz: [storeCheck(store), informerSyncCheck(store), shutdownCheck(ends)],
    log,
  });
  const host = startFunctionHost({
    sources: {
      deltas: source(queues.deltas),
      deadDeltas: source(flags.deadDeltas),
      doorbells: tableOf(CONTROLLERS, (controller) => source(queues.doorbells[controller])),
    },
    handlers: functionHandlers(wiring, (resource, items) => syncs.changed(resource, items)),
    clock: wiring("apply-deltas").clock,
    log,
    concurrency: flags.concurrency,
  });
  process.stdout.write("ready\n");
  await new Promise<void>((resolve) => ends.addEventListener("abort", () => resolve(), { once: true }));
  await host.stop();
  process.exit();
}

function printSync(sync: ReplayedSync): void {
  const lines = sync.lines
    .filter(({ kind }) => kind !== "event" && kind !== "reason")
    .map((line) => `            ${describeTrace(line)}\n`);
  if (lines.length === 0 && sync.error === undefined) return;
  process.stderr.write(
    `${sync.controller} ${printable(`${sync.key}: ${sync.reasons.slice(0, 3).join(", ") || "a delay or a retry fell due"}`)}\n${lines.join("")}${sync.error === undefined ? "" : `            error: ${printable(sync.error)}\n`}`,
  );
}
