/**
 * `deltaloop watch`: the watcher process. In production it runs in a small container with the Node options LEAN_HEAP; `dev` starts it as
 * one of its four processes.
 */
import { InvalidArgumentError, Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { createPrometheusMetrics } from "@deltaloop/base/prometheus";
import { createHeartbeats, SharedCacheError } from "@deltaloop/controllers/cache";
import { kubeHttpConfig, shareConnections } from "@deltaloop/controllers/lambda";
import { BATCHING_WINDOW_MS_MAX } from "@deltaloop/base";
import type { Log } from "@deltaloop/base";
import { createSqsDeltaQueue } from "@deltaloop/store/sqs";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { followSecrets, readConfiguration, releaseMemoryWhenQuiet, untilSignalled, untilStdinEnds } from "@deltaloop/local/processes";
import { consoleLog, jsonLog } from "@deltaloop/base/output";
import type { LogLevel } from "@deltaloop/base/output";
import { EXIT_UPSTREAM_ACTIVE } from "./cluster/end-on-foreign-write.ts";
import { startupTimeoutOption } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import { type LoggingFormat, loggingFormatOption } from "./output/logging-format-option.ts";

import { clustersOption, allowOption } from "./clusters/options.ts";
import type { ClustersFlags } from "./clusters/options.ts";
import { directoryIn } from "@deltaloop/controllers/clusters";
import { directoryConfiguration, openClusters } from "./clusters/open-clusters.ts";
import { informerSyncCheck, shutdownCheck, storeCheck } from "./health/health-checks.ts";
import { describeError } from "@deltaloop/kube/client";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { cachedClusters } from "@deltaloop/store/redis";
import { tellStore } from "./health/store-metrics.ts";
import { serveMetrics, METRICS_LISTEN } from "./health/metrics-server.ts";
import { openWatcher, requireFitRedis, watcherId } from "./watch/open-watcher.ts";
import { forgetUnlisted } from "./watch/forget-unlisted.ts";
import { forgetListed, watchListed } from "./watch/watch-listed.ts";
import { shareClusters } from "./watch/cluster-shares.ts";
import { watchClusters } from "./watch/watch-clusters.ts";

interface WatchFlags extends StartupFlags, Partial<ClustersFlags> {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly leaseNamespace?: string;
  readonly child?: true;
  readonly as: string;
  readonly guard?: true;
  readonly batchingWindow?: number;
  readonly linger?: number;
  readonly metrics: string;
  readonly loggingFormat: LoggingFormat;
}

/**
 * Exit code after which the supervisor restarts the watcher, which then starts a new epoch with a new digest key and connects with new
 * passwords.
 */
const EXIT_SECRETS_REPLACED = 4;
/** Another cluster's watcher works on this cache (informer §11.11). The supervisor restarts this watcher, which checks again. */
const EXIT_SHARED_CACHE = 5;
const END_MS_MAX = 2_000;

export function registerWatch(program: Command): void {
  withDetails(
    program
      .command("watch")
      .description("Runs the watcher, which sends changes of the cluster to the delta queue.")
      .option(
        "--batching-window <ms>",
        "time to collect events before they are sent, to save SQS requests (default: up to 100 ms)",
        batchingWindow,
      )
      .addOption(new Option("--linger <ms>", "former name of --batching-window").argParser(batchingWindow).hideHelp())
      .option("--guard", "exit with 3 when another controller writes to the managed objects, instead of stopping until `deltaloop resume`")
      .addOption(new Option("--child", "exit when standard input ends").hideHelp())
      .addOption(new Option("--as <name>", "prefix of the log lines of a child").default("watcher").hideHelp())
      .optionsGroup("Cluster access:")
      .option("--kubeconfig <file>", "kubeconfig to use instead of DELTALOOP_KUBE_*")
      .option("--context <name>", "context of the kubeconfig")
      .option("--lease-namespace <name>", "namespace of the watcher's Lease, instead of DELTALOOP_LEASE_NAMESPACE")
      .addOption(startupTimeoutOption())
      .addOption(clustersOption().hideHelp())
      .addOption(allowOption().hideHelp())
      .optionsGroup("Logs, metrics and health:")
      .addOption(loggingFormatOption())
      .option("--metrics <host:port>", "address of the metrics and health server; port 0 selects a free port", METRICS_LISTEN)
      .action(runWatch),
    {
      notes: [
        "Configured by environment variables DELTALOOP_*. Exits with 4 when secrets were replaced, so that the supervisor restarts it.",
      ],
      examples: ["watch", "watch --logging-format json --metrics 0.0.0.0:9090"],
    },
  );
}

function batchingWindow(value: string): number {
  const ms = Number(value);
  if (/^\d+$/.test(value) && ms <= BATCHING_WINDOW_MS_MAX) return ms;
  throw new InvalidArgumentError(`write a number of milliseconds up to ${BATCHING_WINDOW_MS_MAX}`);
}

async function runWatch(flags: WatchFlags): Promise<void> {
  releaseMemoryWhenQuiet();
  const directory = directoryIn(process.env);
  if (flags.clusters !== undefined) return await runClusters(flags, flags.clusters);
  if (directory) return await runClusters({ ...flags, allow: directory.allowed }, directory.place);
  const live = await readConfiguration(process.env);
  const configuration = live.current;
  const log = logOf(flags, configuration.logLevel);
  const ends = flags.child ? untilStdinEnds() : untilSignalled();
  const access =
    flags.kubeconfig === undefined
      ? kubeHttpConfig(live, "watcher", { log })
      : await kubeAccess({ ...flags, kubeconfig: flags.kubeconfig }, "deltaloop-watcher", "watcher");
  const metrics = createPrometheusMetrics("watcher");
  const stopped = new AbortController();
  const end = (found: Error): void => {
    if (stopped.signal.aborted) return;
    log.error(found.message);
    process.exitCode = EXIT_UPSTREAM_ACTIVE;
    stopped.abort(found);
    // The parent keeps writing until this process exits, so the process exits even if something hangs.
    setTimeout(() => process.exit(), END_MS_MAX).unref();
  };
  const { batchingWindow: batchingWindowMs = flags.linger, leaseNamespace, startupTimeout } = flags;
  const watcher = await openWatcher({
    ...{ live, access, log, metrics, leaseNamespace, batchingWindowMs, startupTimeout },
    idOf: "apiServer",
    ...(flags.guard && { onForeignWrite: end }),
  });
  const { store, clock } = watcher;
  const notLeading = (): string | undefined => (watcher.isLeading() ? undefined : "not leading");
  const stops = AbortSignal.any([ends, stopped.signal]);
  void followSecrets(live, clock, stops, () => exitOnNewSecrets(log, stopped));
  await serveMetrics({
    listen: flags.metrics,
    metrics,
    sample: async () => {
      if (watcher.isLeading()) await tellStore(store, metrics, clock.now());
      else metrics.forgetLeading();
    },
    livez: [],
    readyz: [
      { name: "leaderElection", check: () => Promise.resolve(notLeading() ?? "leading") },
      storeCheck(store),
      informerSyncCheck(store, notLeading),
      shutdownCheck(ends),
    ],
    log,
  });
  await watcher.run(stops).catch((error: unknown) => {
    if (!(error instanceof SharedCacheError)) throw error;
    log.error(`${error.message}; exiting so that the supervisor restarts the watcher`, { remedy: "deltaloop resume --lineage" });
    process.exitCode = EXIT_SHARED_CACHE;
    stopped.abort(error);
  });
  await watcher.close();
  process.exit();
}

function exitOnNewSecrets(log: Log, stopped: AbortController): void {
  log.warn(
    "the digest key or the address or credentials of Redis or the API server changed: exiting so that the supervisor restarts the watcher",
  );
  process.exitCode = EXIT_SECRETS_REPLACED;
  stopped.abort(new Error("secrets were replaced"));
}

/** One process for all clusters of a folder. A folder without clusters is served, too. */
async function runClusters(flags: WatchFlags, folder: string): Promise<void> {
  const signalled = flags.child ? untilStdinEnds() : untilSignalled();
  const stopped = new AbortController();
  const ends = AbortSignal.any([signalled, stopped.signal]);
  const log = logOf(flags, "info");
  const metrics = createPrometheusMetrics("watcher");
  const clock = createSystemClock();
  const live = await directoryConfiguration();
  const { current } = live;
  const onProblem = flags.child ? log.debug : log.error; // `dev` reports them
  const directory = await openClusters({ ...flags, clusters: folder }, onProblem, current);
  await requireFitRedis(current, log);
  void followSecrets(live, clock, ends, () => exitOnNewSecrets(log, stopped));
  const shared = shareConnections(current, (error) => log.warn("redis connection failed", { error: describeError(error) }));
  const random = createSystemRandom();
  const queue = createSqsDeltaQueue(shared.sqs, { queueUrl: current.queues.deltas });
  const together = { queue, heartbeats: createHeartbeats({ queue, clock, random, log }) };
  await serveMetrics({ listen: flags.metrics, metrics, sample: () => undefined, livez: [], readyz: [shutdownCheck(ends)], log });
  // In shadow mode there is no Lease that could decide.
  const shares =
    current.mode === "act"
      ? shareClusters(watcherId(random), { members: shared.members(current), clock, random, log, metrics }, ends)
      : undefined;
  if (shares)
    void forgetUnlisted(
      {
        ...{ directory, clock, log, ledByOthers: shares.ledByOthers },
        cached: async (signal) => await cachedClusters(current.redis, current.deployment, signal),
        forget: async (cid, signal) => await forgetListed(current, { cid }, signal),
      },
      ends,
    );
  await watchClusters(
    {
      ...{ directory, log, clock, random, ...(shares && { shares }) },
      forget: async (cluster, signal) => await forgetListed(current, cluster, signal),
      serve: async (cluster, signal) =>
        await watchListed(
          cluster,
          {
            ...{ ...flags, live, shared, together, log: (level) => logOf(flags, level, cluster.name) },
            onRole: (role) => shares?.note(cluster.cid, role),
          },
          signal,
        ),
    },
    ends,
  );
  await shares?.left;
  process.exit();
}

function logOf({ loggingFormat, child, as }: WatchFlags, level: LogLevel, cluster?: string): Log {
  if (loggingFormat === "json" && !child) return jsonLog("deltaloop-watch", level);
  return consoleLog(`${child ? as.padEnd(9) : ""}${cluster === undefined ? "" : `${cluster}: `}`, level);
}
