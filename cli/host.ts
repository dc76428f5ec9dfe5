/** `deltaloop host`: all functions in one process, started by `dev`; cli/queue.ts polls their queues and invokes them. */
import { connect } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import type { Command } from "commander";
import { UsageError, wholeNumber } from "@deltaloop/base";
import type { Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { createSystemClock } from "@deltaloop/base/system";
import { createPrometheusMetrics } from "@deltaloop/base/prometheus";
import { openCache, redisStore, shareConnections } from "@deltaloop/controllers/lambda";
import type { FunctionHandlers } from "@deltaloop/local";
import { serveFunctions } from "@deltaloop/local";
import type { ReplayedSync } from "@deltaloop/replay/sync-log";
import { readConfiguration, releaseMemoryWhenQuiet, untilSignalled, untilStdinEnds } from "@deltaloop/local/processes";
import { consoleLog } from "@deltaloop/base/output";
import type { LogLevel } from "@deltaloop/base/output";
import { liveOf } from "@deltaloop/controllers/clusters";
import { accessTo, directoryConfiguration, openClusters } from "./clusters/open-clusters.ts";
import { allowOption, clustersOption } from "./clusters/options.ts";
import type { ClustersFlags } from "./clusters/options.ts";
import { serveClusters } from "./clusters/serve-clusters.ts";
import { openFunctions } from "./clusters/open-functions.ts";
import { createClusterLoad } from "./clusters/cluster-load.ts";
import { printSync } from "./clusters/print-sync.ts";
import { decides } from "./explain/describe.ts";
import { informerSyncCheck, shutdownCheck, storeCheck } from "./health/health-checks.ts";
import { RunningSyncs } from "./health/running-syncs.ts";
import { serveMetrics, METRICS_LISTEN } from "./health/metrics-server.ts";

interface HostFlags extends Partial<ClustersFlags> {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly invocations: string;
  readonly metrics: string;
  readonly decisions?: true;
  readonly share: number;
  readonly child?: true;
}

export function registerHost(program: Command): void {
  program
    .command("host", { hidden: true })
    .description("Runs all functions in one process; a component of `dev`.")
    .option("--kubeconfig <file>", "kubeconfig; a context named after a deltaloop role is used for that role")
    .option("--context <name>", "context of the kubeconfig")
    .requiredOption("--invocations <socket>", "socket over which the functions are invoked")
    .option("--metrics <host:port>", "address of the metrics and health server; port 0 selects a free port", METRICS_LISTEN)
    .addOption(clustersOption())
    .addOption(allowOption())
    .option(
      "--share <n>",
      "with --clusters: concurrent invocations of each function per cluster",
      wholeNumber("--share", { min: 1, max: 50 }),
      5,
    )
    .option("--decisions", "print each sync that decides or fails as a line of JSON")
    .option("--child", "exit when standard input ends")
    .action(runHost);
}

const RECONNECT_MS = 100;
/** Longer than the time for which the poller waits for running invocations. */
const LEAVE_MS_MAX = 6_000;

async function runHost(flags: HostFlags): Promise<void> {
  if ((flags.kubeconfig === undefined) === (flags.clusters === undefined)) throw new UsageError("name either --kubeconfig or --clusters");
  releaseMemoryWhenQuiet();
  const ends = flags.child ? untilStdinEnds() : untilSignalled();
  const metrics = createPrometheusMetrics("functions");
  const running = new RunningSyncs();
  const load = createClusterLoad(createSystemClock());
  const metricsServer = {
    listen: flags.metrics,
    metrics,
    sample: () => {
      running.tell(metrics, Date.now());
      load.tell(metrics);
    },
    livez: [],
  };
  const options = { metrics, running };
  const syncsOf = (prefix: string) => (sync: ReplayedSync) => {
    printSync(sync, prefix);
    if (flags.decisions && decides(sync)) process.stdout.write(`${JSON.stringify(sync)}\n`);
  };
  const log = (level: LogLevel, cluster?: string): Log =>
    consoleLog(`${flags.child ? "functions " : ""}${cluster === undefined ? "" : `${cluster}: `}`, level);
  let handlers: FunctionHandlers;
  if (flags.clusters === undefined) {
    const live = await readConfiguration(process.env);
    const { kubeconfig = "", context } = flags;
    const kube = { kubeconfig, ...(context !== undefined && { context }) };
    ({ handlers } = await openFunctions({
      ...options,
      onSync: syncsOf(""),
      live,
      accessAs: async (role, component) => await kubeAccess(kube, role, component),
      log: log(live.current.logLevel),
    }));
    // The health check reports errors.
    const { store } = openCache(
      live.current,
      redisStore(live.current.redis, () => undefined),
    );
    const readyz = [storeCheck(store), informerSyncCheck(store), shutdownCheck(ends)];
    await serveMetrics({ ...metricsServer, readyz, log: log(live.current.logLevel) });
  } else {
    const live = await directoryConfiguration();
    const { current } = live;
    const own = log(current.logLevel);
    const directory = await openClusters(flags, flags.child ? own.debug : own.error, current); // `dev` reports them
    const shared = shareConnections(current, (error) => own.warn("redis connection failed", { error: describeError(error) }));
    handlers = serveClusters(
      {
        ...{ directory, queues: current.queues, share: flags.share, load, log: own },
        open: async (cluster) =>
          await openFunctions({
            ...{ ...options, shared },
            live: liveOf(live, cluster),
            accessAs: async (role, component) => await accessTo(cluster, flags, role, component),
            onSync: syncsOf(`${cluster.name}: `),
            log: log(current.logLevel, cluster.name),
          }),
      },
      ends,
    );
    await serveMetrics({ ...metricsServer, readyz: [shutdownCheck(ends)], log: own });
  }
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
