/** Wires `deltaloop node` on a real machine: adapters, the HTTPS server, the sources and the agent. */
import { createKubeHttp } from "@deltaloop/kube/http";
import { createMemoryNodeStore } from "@deltaloop/node-agent/memory";
import { createNodeFiles } from "@deltaloop/node-agent/files";
import { createPrometheusMetrics } from "@deltaloop/base/prometheus";
import type { PrometheusMetrics } from "@deltaloop/base/prometheus";
import { createProber } from "@deltaloop/node-agent/prober";
import { createLogind, createSystemdCgroups, createSystemd } from "@deltaloop/node-agent/systemd";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { readMachineFacts, readMachineStats, readMachineUsage, createCgroups } from "@deltaloop/node-agent/system";
import {
  DEFAULT_EVICTION_HARD,
  EvictionSettingError,
  parseStatements,
  parseThresholds,
  PodManager,
  SummaryProvider,
} from "@deltaloop/node-agent/kubelet";
import type { EvictionPolicy, Statements, ImageGcPolicy, NodeOptions, MachineFacts } from "@deltaloop/node-agent/kubelet";
import { runHealthServer, startNodeApi } from "@deltaloop/node-agent/server";
import { reportUnmanagedCertificates } from "@deltaloop/node-agent/certificates";
import { runManifestSource, runUrlSource } from "@deltaloop/node-agent/sources";
import { createNodeBackend, meterCri, shareLists, createNodeKube, lockRoot, RootInUseError } from "@deltaloop/node-agent/host";
import type { Cgroups, Cri, VersionResponse, NodeCredentials } from "@deltaloop/node-agent/ports";
import type { Clock, Log, Random } from "@deltaloop/base";
import { isUnimplemented } from "@deltaloop/node-agent/ports";
import { consoleLog, jsonLog } from "@deltaloop/base/output";
import { nodeCredentials } from "./node-credentials.ts";
import { nodeAccess } from "./node-access.ts";
import type { NodeAccess } from "./node-access.ts";
import { addressesOf, runServingCertificate, servingFiles } from "./node-serving.ts";
import { createNodeAgent, startCondition } from "./node-agent.ts";
import { cgroupPolicy, cgroupRoots, setOomScore, withReserved } from "./node-cgroups.ts";
import { kubeletConfiguration } from "./node-configuration.ts";
import type { NodeFlags } from "./node-flags.ts";
import { imagePullPolicy } from "./node-images.ts";
import { registrationOf } from "./node-registration.ts";
import { shutdownOf } from "./node-shutdown.ts";
import { openRuntime } from "./node-runtime.ts";
import type { NodeRuntime } from "./node-runtime.ts";
import { untilSignalled } from "@deltaloop/local/processes";
import { syncLoopCheck } from "../health/health-checks.ts";
import { serveMetrics } from "../health/metrics-server.ts";
import { unlessAborted, UsageError } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";

const RUNTIME_DEADLINE_MS = 30_000;
const RETRY_MS = 500;

/** Runs one node agent until a signal. @throws {UsageError} for flags that are invalid on this machine */
export async function serveNode(flags: NodeFlags, ignored: readonly string[] = []): Promise<void> {
  const level = flags.verbose ? "debug" : "info";
  const log = flags.loggingFormat === "json" ? jsonLog("deltaloop-node", level) : consoleLog("", level);
  if (ignored.length > 0)
    log.warn("fields of the KubeletConfiguration ignored; correct the file", { config: flags.config, fields: ignored.join("; ") });
  const ending = untilSignalled();
  const options = nodeOptions(flags);
  const means = { clock: createSystemClock(), random: createSystemRandom() };
  const metrics = createPrometheusMetrics("node");
  reportUnmanagedCertificates(metrics);
  const unlock = await lockRoot(options.rootDir).catch((error: unknown) => {
    throw error instanceof RootInUseError ? new UsageError(error.message) : error;
  });
  const credentials = await nodeCredentials(flags, { ...means, log });
  await setOomScore(flags.oomScoreAdj, log);
  const facts = withReserved(await readMachineFacts(options.rootDir, flags), options.cgroups, options.eviction);
  const node = await openRuntime(flags, options.rootDir);
  const { cri, endpoint } = node;
  const prepare = async (): Promise<Pick<Serving, "access" | "runtime" | "options">> => {
    const access = await nodeAccess(flags, { ...means, log, metrics }, ending);
    const runtime = await untilAnswered(cri, endpoint, log);
    const cgroupDriver = await cgroupDriverOf(cri, options.cgroupDriver);
    log.info("runtime found", { runtime: `${runtime.runtimeName}://${runtime.runtimeVersion}`, endpoint, cgroupDriver });
    return { access, runtime, options: { ...options, cgroupDriver } };
  };
  try {
    const prepared = await unlessAborted(prepare(), ending).catch((error: unknown) => {
      if (!ending.aborted) throw error;
    });
    if (prepared !== undefined) await serve({ flags, facts, node, credentials, metrics, ...means, log, ending, ...prepared });
  } finally {
    node.close();
    await unlock();
  }
}

interface Serving {
  readonly flags: NodeFlags;
  readonly options: NodeOptions;
  readonly facts: MachineFacts;
  readonly access: NodeAccess;
  readonly node: NodeRuntime;
  readonly credentials: NodeCredentials;
  readonly metrics: PrometheusMetrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly ending: AbortSignal;
  readonly runtime: VersionResponse;
}

async function serve(serving: Serving): Promise<void> {
  const { flags, facts, access, metrics, clock, random, log } = serving;
  const cri = shareLists(meterCri(serving.node.cri, metrics, clock));
  const kube = createKubeHttp({ ...access.config, metrics });
  const heartbeats = createKubeHttp({ ...access.config, metrics });
  const store = createMemoryNodeStore();
  const condition = startCondition(clock.now());
  const pods = new PodManager();
  const backend = createNodeBackend({ pods, store, cri, condition });
  const summary = new SummaryProvider(readMachineStats);
  const runtimeLogsDir = await serving.node.logsDirectory();
  // The Node object contains the agent's port, so the server starts first.
  const api = await startNodeApi({
    host: flags.listen ?? serving.options.hostIps[0] ?? "127.0.0.1",
    port: serving.options.port,
    ...(await servingFiles(flags, access.config.ca)),
    nodeName: serving.options.nodeName,
    kube,
    backend,
    metrics,
    configuration: kubeletConfiguration(flags, serving.options),
    summary: (asked) => summary.summary(asked),
    nodeUsage: readMachineUsage,
    log,
    clock,
    podLogsDir: serving.options.podLogsDir,
    ...(runtimeLogsDir !== undefined && { runtimeLogsDir }),
  });
  const options: NodeOptions = { ...serving.options, port: api.port };
  const metricsServer =
    flags.metrics === undefined
      ? undefined
      : await serveMetrics({ listen: flags.metrics, metrics, livez: [syncLoopCheck(condition, clock)], readyz: [], log });
  const agent = createNodeAgent({
    cri,
    kube: createNodeKube({ heartbeats, calls: kube }, clock),
    store,
    files: createNodeFiles({ ...options, log }),
    cgroups: await openCgroups(options),
    machine: { usage: readMachineUsage },
    prober: createProber(),
    credentials: serving.credentials,
    clock,
    random,
    log,
    metrics,
    options,
    pods,
    condition,
    facts,
    logind: createLogind(),
    runtime: serving.runtime,
    sources: [
      ...(flags.manifests === undefined ? [] : (["file"] as const)),
      ...(flags.manifestUrl === undefined ? [] : (["http"] as const)),
      "api",
    ],
  });
  summary.attach(agent.ports);
  const lost = new AbortController();
  const ending = AbortSignal.any([serving.ending, lost.signal]);
  /** Without certificates the agent cannot work. It shuts down gracefully, and its next start may join again. */
  const orEnd = async (certificates: Promise<void>): Promise<void> =>
    await certificates.catch((error: unknown) => {
      log.error("exiting without a certificate", { error: messageOf(error) });
      process.exitCode = 1;
      lost.abort(error);
    });
  const running = [agent.run(ending), orEnd(access.rotate(ending))];
  if (flags.rotateServerCertificates === true) {
    const addresses = (): ReturnType<typeof addressesOf> => addressesOf(condition.node);
    running.push(orEnd(runServingCertificate({ ...serving, kube, addresses, show: api.show }, ending)));
  }
  if (flags.healthzPort > 0) {
    const where = { host: flags.healthzBindAddress, port: flags.healthzPort };
    running.push(runHealthServer({ ...where, lastLoopMs: () => condition.lastLoopMs, clock, log }, ending));
  }
  if (flags.manifests !== undefined)
    running.push(runManifestSource({ path: flags.manifests, nodeName: options.nodeName, emit: agent.emit("file"), log, clock }, ending));
  if (flags.manifestUrl !== undefined)
    running.push(
      runUrlSource(
        { url: flags.manifestUrl, headers: flags.manifestUrlHeader, nodeName: options.nodeName, emit: agent.emit("http"), log, clock },
        ending,
      ),
    );
  log.info("ready", { node: options.nodeName, pid: process.pid, api: `https://${flags.listen ?? options.hostIps[0]}:${options.port}` });
  await Promise.all(running);
  await metricsServer?.stop();
  await api.stop();
}

/** Waits for the container runtime. @throws {UsageError} if it does not answer within 30 s */
async function untilAnswered(cri: Cri, endpoint: string, log: Log): Promise<VersionResponse> {
  const giveUpAt = performance.now() + RUNTIME_DEADLINE_MS;
  for (let said = false; ;) {
    try {
      return await cri.version();
    } catch (error) {
      const message = messageOf(error);
      if (performance.now() > giveUpAt)
        throw new UsageError(`no container runtime responds at ${endpoint}: ${message}. Start it, or pass its socket with --cri`);
      if (!said) log.warn("waiting for the container runtime", { endpoint, error: message });
      said = true;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

async function openCgroups(options: NodeOptions): Promise<Cgroups> {
  const roots = cgroupRoots(options);
  const cgroupfs = createCgroups({ roots });
  return options.cgroupDriver === "systemd" ? createSystemdCgroups(cgroupfs, roots, createSystemd()) : cgroupfs;
}

/** The runtime's driver, if it reports one: with a different driver of the agent, the creation of each sandbox would fail. */
async function cgroupDriverOf(cri: Cri, otherwise: NodeOptions["cgroupDriver"]): Promise<NodeOptions["cgroupDriver"]> {
  try {
    return (await cri.runtimeConfig()).cgroupDriver === "SYSTEMD" ? "systemd" : "cgroupfs";
  } catch (error) {
    if (!isUnimplemented(error)) throw error;
    return otherwise;
  }
}

/** Derives the options of the agent from the flags. @throws {UsageError} for options that contradict each other */
export function nodeOptions(flags: NodeFlags): NodeOptions {
  const { name, rootDir, podLogsDir, containerLogsDir, cgroupRoot, cgroupDriver, port, maxPods } = flags;
  const { clusterDns, clusterDomain, resolvConf } = flags;
  return {
    nodeName: name,
    ...registrationOf(flags),
    rootDir,
    podLogsDir,
    containerLogsDir,
    cgroupRoot,
    cgroupDriver,
    port,
    maxPods,
    clusterDns,
    clusterDomain,
    resolvConf,
    imageGc: imageGcPolicy(flags),
    imagePulls: imagePullPolicy(flags),
    cgroups: cgroupPolicy(flags),
    eviction: evictionPolicy(flags),
    shutdown: shutdownOf(flags),
  };
}

function imageGcPolicy(flags: NodeFlags): ImageGcPolicy {
  const { imageGcHighThreshold: high, imageGcLowThreshold: low, minimumImageTtlDuration: minAgeMs, imageMaximumGcAge: maxAgeMs } = flags;
  if (low > high) throw new UsageError(`--image-gc-low-threshold ${low} is above --image-gc-high-threshold ${high}: choose a lower one`);
  return { highThresholdPercent: high, lowThresholdPercent: low, minAgeMs, ...(maxAgeMs !== undefined && { maxAgeMs }) };
}

/** Validates the eviction options. @throws {UsageError} with upstream's message */
function evictionPolicy(flags: NodeFlags): EvictionPolicy {
  const read = (text: string | undefined, separator: "<" | "="): Statements => parseStatements(text ?? "", separator);
  try {
    return {
      thresholds: parseThresholds({
        hard: flags.evictionHard === undefined ? DEFAULT_EVICTION_HARD : read(flags.evictionHard, "<"),
        soft: read(flags.evictionSoft, "<"),
        softGracePeriods: read(flags.evictionSoftGracePeriod, "="),
        minimumReclaims: read(flags.evictionMinimumReclaim, "="),
        enforcesPods: cgroupPolicy(flags).enforce.includes("pods"),
      }),
      maxPodGracePeriodSeconds: flags.evictionMaxPodGracePeriod,
      pressureTransitionMs: flags.evictionPressureTransitionPeriod,
    };
  } catch (error) {
    throw error instanceof EvictionSettingError ? new UsageError(error.message) : error;
  }
}
