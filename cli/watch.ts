/**
 * `deltaloop watch`: the watcher process. In production it runs in a small container with the Node options LEAN_HEAP; `dev` starts it as
 * one of its four processes.
 */
import { hostname } from "node:os";
import { InvalidArgumentError, Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { createClient, kubeOver } from "@deltaloop/kube/http";
import { inspectRedis, UnfitRedisError } from "@deltaloop/store/redis";
import { createSqsDeltaQueue } from "@deltaloop/store/sqs";
import { createPrometheusMetrics } from "@deltaloop/base/prometheus";
import {
  createClusterRelease,
  createForeignWriteGuard,
  acquireLease,
  SharedCacheError,
  UPKEEP_TIMES,
  runWatcher,
} from "@deltaloop/controllers/cache";
import type { ForeignWriteGuard, Leadership } from "@deltaloop/controllers/cache";
import { connectLive, kubeHttpConfig } from "@deltaloop/controllers/lambda";
import type { Clock } from "@deltaloop/base";
import { CORE_CACHE, CANARY, NAMESPACE, watcherLease } from "@deltaloop/controllers/registry";
import { describeError, readClusterIdentity } from "@deltaloop/kube/client";
import { HOLE_RELIST_MS, BATCHING_WINDOW_MS_MAX, UsageError } from "@deltaloop/base";
import { aheadMs, readApiServer } from "./cluster/api-server.ts";
import { followSecrets, readConfiguration, untilSignalled, untilStdinEnds } from "@deltaloop/local/processes";
import { consoleLog, jsonLog } from "@deltaloop/base/output";
import { starting, startupTimeoutOption } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import { type LoggingFormat, loggingFormatOption } from "./output/logging-format-option.ts";

import { endOnForeignWrite } from "./cluster/end-on-foreign-write.ts";
import { informerSyncCheck, shutdownCheck, storeCheck } from "./health/health-checks.ts";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { ACTING_RELEASES, RELEASED } from "@deltaloop/kube/releases";
import { unsupported } from "./cluster/kubernetes-versions.ts";
import { tellStore } from "./health/store-metrics.ts";
import { serveMetrics, METRICS_LISTEN } from "./health/metrics-server.ts";

interface WatchFlags extends StartupFlags {
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

export const EXIT_UPSTREAM_ACTIVE = 3;
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
  const live = await readConfiguration(process.env);
  const configuration = live.current;
  const { deployment, cluster, queues, mode } = configuration;
  const { loggingFormat, child, as, batchingWindow: batchingWindowMs = flags.linger } = flags;
  const isJson = loggingFormat === "json" && !child;
  const log = isJson ? jsonLog("deltaloop-watch", configuration.logLevel) : consoleLog(child ? as.padEnd(9) : "", configuration.logLevel);
  const ends = flags.child ? untilStdinEnds() : untilSignalled();
  const access =
    flags.kubeconfig === undefined
      ? kubeHttpConfig(live, "watcher", { log })
      : await kubeAccess({ ...flags, kubeconfig: flags.kubeconfig }, "deltaloop-watcher", "watcher");
  const metrics = createPrometheusMetrics("watcher");
  const client = createClient({ ...access, metrics });
  const kube = kubeOver(client);
  const first = starting(client, access.server, flags, log);
  const identity = await readClusterIdentity(kubeOver(first));
  if (identity.cid !== cluster) throw new UsageError(`DELTALOOP_CLUSTER is ${cluster}, but this API server's cluster is ${identity.cid}`);
  await inspectRedis(configuration.redis).catch((error: unknown) => {
    if (error instanceof UnfitRedisError) throw new UsageError(error.message);
    log.warn("failed to read the eviction policy of Redis", { error: describeError(error) });
  });
  const outside = connectLive(live, log);
  const { clock, random } = outside;
  const server = await readApiServer(first);
  const serverAheadMs = aheadMs(server, clock.now());
  const why = unsupported(server.gitVersion);
  if (why !== undefined && mode === "act" && configuration.kubernetes !== "any")
    throw new UsageError(`${why}. To act anyway, set DELTALOOP_KUBERNETES=any`);
  if (why !== undefined) log.warn("the API server's version is not supported", { why });
  const release = createClusterRelease(
    { read: async () => (await readApiServer(client)).gitVersion, clock, log },
    {
      first: server.gitVersion,
      known: mode === "act" ? ACTING_RELEASES : RELEASED,
      isAnyKnown: mode === "act" && configuration.kubernetes === "any",
    },
  );
  const holder = `${hostname()}-${Math.floor(random.next() * 2 ** 32).toString(16)}`;
  const namespace = flags.leaseNamespace ?? configuration.leaseNamespace ?? NAMESPACE;
  const lease = { namespace, name: watcherLease(deployment), identity: holder };
  const stopped = new AbortController();
  const end = (found: Error): void => {
    if (stopped.signal.aborted) return;
    log.error(found.message);
    process.exitCode = EXIT_UPSTREAM_ACTIVE;
    stopped.abort(found);
    // The parent keeps writing until this process exits, so the process exits even if something hangs.
    setTimeout(() => process.exit(), END_MS_MAX).unref();
  };
  const guards = mode === "act" && configuration.guard !== "off";
  const guard: ForeignWriteGuard | undefined = flags.guard
    ? endOnForeignWrite({ kube, clock, log }, end)
    : guards
      ? createForeignWriteGuard({ store: outside.store, kube, clock, log }, { namespace, name: CANARY })
      : undefined;
  let leadership: Leadership | undefined;
  const lead = async (signal: AbortSignal): Promise<Leadership | undefined> => {
    leadership =
      mode === "act"
        ? await acquireLease({ reader: kube, writer: kube, clock, random, log, metrics }, lease, signal)
        : await Promise.resolve(unleased(clock));
    guard?.begin(clock.now() + serverAheadMs);
    return leadership;
  };
  const isLeading = (): boolean => leadership?.holds() === true;
  const notLeading = (): string | undefined => (isLeading() ? undefined : "not leading");
  const stops = AbortSignal.any([ends, stopped.signal]);
  const guarding = guard?.run(stops);
  void followSecrets(live, clock, stops, () => {
    log.warn(
      "the digest key or the address or credentials of Redis or the API server changed: exiting so that the supervisor restarts the watcher",
    );
    process.exitCode = EXIT_SECRETS_REPLACED;
    stopped.abort(new Error("secrets were replaced"));
  });
  await serveMetrics({
    listen: flags.metrics,
    metrics,
    sample: async () => {
      if (isLeading()) await tellStore(outside.store, metrics, clock.now());
      else metrics.forgetLeading();
    },
    livez: [],
    readyz: [
      { name: "leaderElection", check: () => Promise.resolve(notLeading() ?? "leading") },
      storeCheck(outside.store),
      informerSyncCheck(outside.store, notLeading),
      shutdownCheck(ends),
    ],
    log,
  });
  await runWatcher(
    {
      ...outside,
      metrics,
      kube,
      queue: createSqsDeltaQueue(outside.sqs, { queueUrl: queues.deltas }),
      log,
      lead,
      release,
      ...(guard && { guard }),
    },
    {
      cluster,
      clusterUid: identity.uid,
      identity: outside.identity,
      holeRelistMs: HOLE_RELIST_MS,
      ...(batchingWindowMs !== undefined && { batchingWindowMs }),
      upkeep: { ...UPKEEP_TIMES, reader: kube, registry: CORE_CACHE },
    },
    stops,
  ).catch((error: unknown) => {
    if (!(error instanceof SharedCacheError)) throw error;
    log.error(`${error.message}; exiting so that the supervisor restarts the watcher`, { remedy: "deltaloop resume --lineage" });
    process.exitCode = EXIT_SHARED_CACHE;
    stopped.abort(error);
  });
  await guarding;
  await outside.close();
  process.exit();
}

/**
 * Shadow mode writes nothing to the cluster, so it takes no Lease. Its fences are derived from the time, so they grow from start to start.
 */
function unleased(clock: Clock): Leadership {
  let fence = clock.now();
  return {
    fence: () => String(fence),
    holds: () => true,
    raise: () => {
      fence = Math.max(fence + 1, clock.now());
      return Promise.resolve(String(fence));
    },
    lost: new AbortController().signal,
    release: () => Promise.resolve(),
  };
}
