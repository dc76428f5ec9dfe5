/**
 * `deltaloop dev --kubeconfig FILE`: the whole system against a cluster, as four processes that can be killed individually:
 * watcher, queue, redis-server, function host; with `--watchers` several watchers, of which one leads a cluster. Shadow mode unless `--act`.
 */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command, Option } from "commander";
import { withDetails } from "./command/help.ts";
import { createClient, createWatch, kubeOver } from "@deltaloop/kube/http";
import type { KubeClient, KubeHttpConfig } from "@deltaloop/kube/http";
import { CACHED_RESOURCES, messageOf } from "@deltaloop/kube/objects";
import { environmentOf } from "@deltaloop/controllers/configuration";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { openCache, redisStore } from "@deltaloop/controllers/lambda";
import { queueUrls } from "@deltaloop/local";
import type { Store } from "@deltaloop/store/ports";
import type { LocalQueues } from "@deltaloop/local";
import { readApiServer } from "./cluster/api-server.ts";
import { startVerb, freePort, startLocalRedis, createOwnFolder, untilSignalled } from "@deltaloop/local/processes";
import type { Child, LocalRedis } from "@deltaloop/local/processes";
import { readClusterIdentity } from "@deltaloop/kube/client";
import { consoleLog } from "@deltaloop/base/output";
import { DEV_FOLDER, environmentFile } from "./cluster/environment-file.ts";
import { shutGate } from "@deltaloop/controllers/cache";
import { absolutePaths, kubeAccess, kubeconfigPath, pinContext } from "@deltaloop/kube/kubeconfig";
import type { KubeFlags, ListedCluster } from "@deltaloop/kube/kubeconfig";
import { SUPPORTED_VERSIONS, unsupported } from "./cluster/kubernetes-versions.ts";
import { EXIT_UPSTREAM_ACTIVE } from "./cluster/end-on-foreign-write.ts";
import { redisFailure } from "./cluster/redis-failure.ts";
import { reviewRights } from "./cluster/rights.ts";
import { starting, startupTimeoutOption } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import type { ReplayedSync } from "@deltaloop/replay/sync-log";
import type { LivePage } from "./explain/timeline/open-page.ts";
import { isParameterPlace } from "@deltaloop/local/clusters";
import { allowOption, clustersFlags, clustersOption } from "./clusters/options.ts";
import type { ClustersFlags } from "./clusters/options.ts";
import { openClusters } from "./clusters/open-clusters.ts";
import { directoryEnvironment, NO_CLUSTER } from "@deltaloop/controllers/clusters";
import { followListed } from "./dev/listed-clusters.ts";
import type { OwnDevFlags } from "./own/dev.ts";
import { redisUrl, UsageError, wholeNumber } from "@deltaloop/base";

interface DevFlags extends StartupFlags, Partial<ClustersFlags> {
  readonly yes?: true;
  readonly builtIn?: true;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly act?: true;
  readonly anyKubernetes?: true;
  readonly nodes?: number;
  readonly bindPods?: true;
  readonly redis?: string;
  readonly watchers: number;
  readonly concurrency: number;
  readonly leaseNamespace: string;
  readonly verbose?: true;
  readonly open?: true;
  readonly crds: readonly string[];
}

const WATCHER = "watcher";
const EXIT_USAGE = 2;
const RESTART_MS = 1_000;
const END_GRACE_MS = 3_500;
const READY_POLL_MS = 200;
/** Concurrent invocations of a function for all clusters of a folder. */
const INVOCATIONS_MAX = 50;

export function registerDev(program: Command): void {
  withDetails(
    program
      .command("dev")
      .description("Runs watcher, queue, Redis and functions on this machine against a cluster, or runs user controllers.")
      .argument(
        "[file...]",
        "run the controllers in these files instead, on an in-memory API server or a cluster, and restart them after each save",
      )
      .option("--act", "write to the cluster; its own three controllers must be off (default: shadow mode, which writes nothing)")
      .option("--any-kubernetes", `with --act: accept versions other than ${SUPPORTED_VERSIONS.from} to ${SUPPORTED_VERSIONS.to}`)
      .option("--yes", "with files and --act: accept credentials that may do everything (cluster-admin)")
      .option("--built-in", "with files on a cluster: also run the built-in controllers")
      .option("--crds <path>", "with files in memory: CRDs of others (YAML file or folder; repeatable)", added, [])
      .option("--open", "serve a live view of workloads and decisions on a local web page")
      .option("-v, --verbose", "print debug messages")
      .optionsGroup("Cluster access:")
      .option(
        "--kubeconfig <file>",
        "kubeconfig; a context named after a deltaloop role is used for that role (default without files: KUBECONFIG, then ~/.kube/config)",
      )
      .option("--context <name>", "context of the kubeconfig")
      .option("--lease-namespace <name>", "with --act: namespace of the watcher's Lease", "kube-system")
      .addOption(clustersOption())
      .addOption(allowOption())
      .addOption(startupTimeoutOption())
      .optionsGroup("Components:")
      .option("--redis <url>", "Redis to use (default: start a redis-server)", redisUrl("--redis"))
      .option("--watchers <n>", "with --act: number of watchers; one leads each cluster", wholeNumber("--watchers", { min: 1, max: 5 }), 1)
      .option(
        "--concurrency <n>",
        "concurrent invocations of each sync function, per cluster",
        wholeNumber("--concurrency", { min: 1, max: 50 }),
        5,
      )
      .option("--nodes <n>", "add scripted nodes, which simulate pods", wholeNumber("--nodes", { min: 1, max: 1000 }))
      .option("--bind-pods", "let the scripted nodes bind pods, for clusters without a scheduler")
      .action(async (files: readonly string[], flags: DevFlags, command: Command) => {
        process.exitCode = files.length > 0 ? await runOwn(files, flags, command) : await runBuiltIn(flags, command);
        process.exit();
      }),
    {
      notes: [
        "With files and neither --kubeconfig nor --context, it acts on an in-memory API server with the CRDs, the built-in controllers and scripted nodes. On a cluster, user controllers take no Lease: run one process.",
        "Exits with 3 when another controller manager writes to the objects that --act manages.",
      ],
      examples: [
        "dev",
        "dev website.ts",
        "dev website.ts --kubeconfig staging.yaml --act",
        "dev --kubeconfig roles.yaml --context staging",
        "dev --act --watchers 2",
        "dev --clusters clusters --allow loopback",
      ],
    },
  );
}

/** Options of `dev` that need one cluster. */
const ONE_CLUSTER_OPTIONS = ["kubeconfig", "context", "nodes", "bindPods", "open"];

/** Options of `dev` that also apply to controllers in files. */
const OWN_OPTIONS = ["act", "anyKubernetes", "builtIn", "context", "crds", "kubeconfig", "startupTimeout", "verbose", "yes"];

async function runBuiltIn(flags: DevFlags, command: Command): Promise<number> {
  const [one] = givenOptions(command).filter((option) => ONE_CLUSTER_OPTIONS.includes(option.attributeName()));
  if (flags.clusters !== undefined && one) throw new UsageError(`${one.long} applies to one cluster: remove it, or remove --clusters`);
  if (flags.clusters !== undefined && isParameterPlace(flags.clusters))
    throw new UsageError("--clusters ssm: is for `deltaloop watch` and `deltaloop cluster`: name a folder");
  if (flags.clusters === undefined && flags.allow?.length) throw new UsageError("--allow needs --clusters");
  if (flags.watchers > 1 && !flags.act)
    throw new UsageError("--watchers needs --act: without a Lease, two watchers would take over from each other endlessly");
  const [ofFiles] = givenOptions(command).filter((option) => ["yes", "builtIn", "crds"].includes(option.attributeName()));
  if (ofFiles) throw new UsageError(`${ofFiles.long} applies to controllers in files: name a file`);
  return await new Dev(flags).run(untilSignalled());
}

async function runOwn(files: readonly string[], flags: DevFlags, command: Command): Promise<number> {
  if (flags.clusters !== undefined)
    throw new UsageError("--clusters serves the built-in controllers only: leave it out when you name files");
  const given = givenOptions(command);
  const onCluster = flags.kubeconfig !== undefined || flags.context !== undefined;
  const [foreign] = given.filter((option) => !OWN_OPTIONS.includes(option.attributeName()));
  if (foreign !== undefined && !flags.builtIn)
    throw new UsageError(
      `${foreign.long ?? foreign.flags} applies to the built-in controllers only: remove it when you name files, or add --built-in`,
    );
  const { act = false, yes = false, anyKubernetes = false, verbose = false, crds } = flags;
  if (onCluster && crds.length > 0)
    throw new UsageError("--crds applies to the in-memory API server: on a cluster, use `kubectl apply -f`");
  const [ofCluster] = given.filter((option) => !["verbose", "crds"].includes(option.attributeName()));
  if (ofCluster !== undefined && !onCluster)
    throw new UsageError(
      `${ofCluster.long ?? ofCluster.flags} applies to a cluster: add --kubeconfig or --context. Without them, dev acts on an in-memory API server`,
    );
  const [{ runOwnDev }, target] = await Promise.all([import("./own/dev.ts"), onCluster ? cluster() : embedded()]);
  const beside = flags.builtIn && { beside: (ends: AbortSignal) => new Dev(flags).run(ends) };
  return await runOwnDev(files, { verbose, target, ...beside });

  async function cluster(): Promise<OwnDevFlags["target"]> {
    const context = flags.context !== undefined && { context: flags.context };
    const kube = await pinContext({ ...context, kubeconfig: kubeconfigPath(flags.kubeconfig) });
    const { clusterTarget } = await import("./own/target.ts");
    return (log) => clusterTarget({ ...flags, kube, act, yes, anyKubernetes }, log);
  }

  async function embedded(): Promise<OwnDevFlags["target"]> {
    const { embeddedTarget } = await import("./own/embedded.ts");
    return (log) => embeddedTarget(log, crds);
  }
}

function added(one: string, all: readonly string[]): readonly string[] {
  return [...all, one];
}

function givenOptions(command: Command): readonly Option[] {
  return command.options.filter((option) => command.getOptionValueSource(option.attributeName()) === "cli");
}

class Dev {
  readonly #flags: DevFlags;
  #kube: KubeFlags;
  readonly #log;
  readonly #children = new Map<string, Child>();
  readonly #ending = new AbortController();
  #redis: LocalRedis | undefined;
  /** The sockets and the environment of the components. */
  readonly #folder = createOwnFolder(DEV_FOLDER);
  readonly #invocations = join(this.#folder.path, "invocations");
  #exitCode = 0;

  constructor(flags: DevFlags) {
    this.#flags = flags;
    this.#kube = { ...(flags.context !== undefined && { context: flags.context }), kubeconfig: kubeconfigPath(flags.kubeconfig) };
    this.#log = consoleLog("deltaloop: ", flags.verbose ? "debug" : "info");
  }

  /** Runs until `signalled` aborts, or a component has failed permanently. */
  async run(signalled: AbortSignal): Promise<number> {
    signalled.addEventListener("abort", () => this.#ending.abort(signalled.reason));
    let store: Store | undefined;
    try {
      const { clusters, act = false, watchers } = this.#flags;
      if (watchers > 1 && !act)
        throw new UsageError("--watchers needs --act: without a Lease, two watchers would take over from each other endlessly");
      if (clusters === undefined) this.#kube = await pinContext(this.#kube);
      // Nothing starts before the cluster has answered, so that a wrong context is the only line.
      const looked = clusters === undefined ? await this.#lookAround(act) : { ...NO_CLUSTER, reviewed: undefined };
      const [redis, { endpoint, queues }] = await allOf([this.#flags.redis ?? this.#startRedis(), this.#startQueue()]);
      const configuration = this.#configuration(looked, redis, queueUrls(endpoint, queues));
      const environment = environmentOf({ ...configuration, leaseNamespace: this.#flags.leaseNamespace });
      let lost: Error | undefined;
      store = openCache(
        configuration,
        redisStore(configuration.redis, (error) => (lost = error)),
      ).store;
      await store.epoch().catch((error: unknown) => {
        throw redisFailure("--redis", redis, lost ?? error);
      });
      const kubeFlags = this.#kubeFlags();
      this.#page = this.#flags.open && (await this.#opened());
      const hostFlags = [
        "--invocations",
        this.#invocations,
        "--share",
        String(this.#flags.concurrency),
        ...(this.#page ? ["--decisions"] : []),
      ];
      // The functions start in parallel with the watchers, whose messages wait; a start takes half a second of CPU.
      const functions = this.#keep("functions", () => startVerb("host", [...kubeFlags, ...hostFlags], environment));
      const watchFlags = [...kubeFlags, ...(act && clusters === undefined ? ["--guard"] : [])];
      for (let n = 1; n <= this.#flags.watchers; n++) {
        const name = n === 1 ? WATCHER : `${WATCHER}${n}`;
        await this.#keep(name, () => startVerb("watch", [...watchFlags, "--as", name], environment));
      }
      await Promise.all([functions, looked.reviewed]);
      if (clusters !== undefined) {
        const directory = await openClusters(this.#flags, this.#log.error, configuration);
        const own = { ...configuration, leaseNamespace: this.#flags.leaseNamespace };
        const options = { directory, configuration: own, folder: this.#folder.path, log: this.#log };
        this.#sayHowToLook(environment);
        this.#markLostMessages(followListed(options, this.#ending.signal));
        this.#log.info(`ready: serving the clusters of ${clusters}, mode ${modeText(act)}`);
        return await ended(this.#ending.signal).then(() => this.#exitCode);
      }
      const only = store;
      this.#markLostMessages(() => [only]);
      this.#sayHowToLook(environment);
      if (this.#flags.nodes !== undefined)
        (await import("./dev/nodes.ts")).startNodes(
          await kubeAccess(this.#kube, "deltaloop-nodes", "nodes"),
          this.#flags.nodes,
          this.#flags.bindPods === true,
          this.#ending.signal,
        );
      await this.#untilReady(store);
      if (!this.#ending.signal.aborted) this.#log.info(`ready: cache synced, functions running, mode ${modeText(act)}`);
      await ended(this.#ending.signal);
    } catch (error) {
      // The same signal ends a component that was starting.
      if (!signalled.aborted) throw error;
    } finally {
      await this.#end(store);
    }
    return this.#exitCode;
  }

  /** Identifies the cluster. `reviewed` resolves once the missing permissions are logged; the components start meanwhile. */
  async #lookAround(act: boolean): Promise<Pick<ListedCluster, "cid" | "server"> & { readonly reviewed: Promise<void> }> {
    const access = (role: string) => kubeAccess(this.#kube, role, "dev");
    const watcher = await access("deltaloop-watcher");
    const connect = (config: KubeHttpConfig) => starting(createClient(config), config.server, this.#flags, this.#log);
    const client = connect(watcher);
    const looked = Promise.all([readClusterIdentity(kubeOver(client)), readApiServer(client)]);
    const [{ cid }, { gitVersion }] = await looked.catch((error: unknown) => {
      throw new UsageError(`${watcher.server} cannot be used: ${messageOf(error)}`);
    });
    const why = unsupported(gitVersion);
    if (why !== undefined && act && !this.#flags.anyKubernetes) throw new UsageError(`${why}. To act anyway, add --any-kubernetes`);
    if (why !== undefined) this.#log.warn(why);
    this.#log.info(`cluster ${cid} at ${watcher.server}`);
    const reviewed = this.#review(access, connect, watcher.server);
    reviewed.catch(() => undefined); // an earlier failure ends the command without waiting for it
    return { cid, server: watcher.server, reviewed };
  }

  async #review(
    access: (role: string) => Promise<KubeHttpConfig>,
    connect: (config: KubeHttpConfig) => Pick<KubeClient, "json">,
    server: string,
  ): Promise<void> {
    const { act = false, leaseNamespace } = this.#flags;
    const rights = await reviewRights(access, { act, leaseNamespace, connect }).catch((error: unknown) => {
      throw new UsageError(`${server} cannot be used: ${messageOf(error)}`);
    });
    const lacking = rights.filter(({ allowed }) => !allowed);
    this.#log.info(`has ${rights.length - lacking.length} of ${rights.length} required permissions`);
    for (const [role, needed] of Map.groupBy(rights, (right) => right.role))
      this.#log.info(`${role} needs: ${needed.map(({ what }) => what).join(", ")}`);
    for (const { role, what } of lacking) this.#log.warn(`missing permission: ${what}`, { role });
    if (lacking.length > 0) this.#log.warn("kubectl apply -f infra/manifests/rbac.yaml grants each role its permissions");
  }

  #kubeFlags(): readonly string[] {
    const { clusters, allow = [] } = this.#flags;
    if (clusters !== undefined) return clustersFlags({ clusters, allow });
    const { kubeconfig, context } = this.#kube;
    return ["--kubeconfig", kubeconfig, ...(context === undefined ? [] : ["--context", context])];
  }

  async #startRedis(): Promise<string> {
    const redis = await startLocalRedis().catch((error: unknown) => {
      throw new UsageError(`redis-server cannot be used: ${messageOf(error)}. Or pass --redis URL`);
    });
    if (!redis) throw new UsageError("redis-server does not start: install it (apt-get install redis-server), or pass --redis URL");
    this.#redis = redis;
    this.#log.info("redis started", { pid: redis.child.pid });
    void redis.child.exited.then(() => this.#fail("redis exited; the cache is lost", 1));
    return redis.url;
  }

  /** Writes the components' environment, keys included, to a file that only its owner may read; `watchersEnvironment` finds it. */
  #sayHowToLook(environment: Readonly<Record<string, string>>): void {
    const file = join(this.#folder.path, "env");
    const { clusters, allow = [] } = this.#flags;
    const { kubeconfig, context } = this.#kube;
    const access =
      clusters === undefined
        ? { KUBECONFIG: absolutePaths(kubeconfig), ...(context !== undefined && { KUBE_CONTEXT: context }) }
        : directoryEnvironment({ place: resolve(clusters), allowed: allow });
    writeFileSync(file, environmentFile({ ...environment, ...access }), { mode: 0o600 });
    this.#log.info(`to check ${clusters === undefined ? "it" : "all clusters"}, run: deltaloop doctor --env ${file}`);
  }

  #page: LivePage | undefined;

  async #opened(): Promise<LivePage> {
    const { clusterOptions, openLivePage, openText } = await import("./explain/timeline/open-page.ts");
    const access = await kubeAccess(this.#kube, "deltaloop-watcher", "timeline");
    const kube = createWatch(createClient(access));
    const explainOptions = clusterOptions(this.#flags);
    const page = await openLivePage({ source: "deltaloop dev", server: access.server, kube, explainOptions, log: this.#log });
    void page.run(this.#ending.signal);
    process.stderr.write(openText(page.url));
    return page;
  }

  #queueRestarts = 0;

  /** The local queue keeps messages in memory: when its process exits, they are lost and the caches need a relist. */
  async #startQueue(): Promise<{ readonly endpoint: string; readonly queues: LocalQueues }> {
    const port = await freePort();
    const child = await this.#keep("queue", () => {
      this.#queueRestarts++;
      const flags = ["--port", String(port), "--invocations", this.#invocations, "--concurrency", String(this.#invocationsMax())];
      if (this.#flags.clusters !== undefined) flags.push("--fair");
      return startVerb("queue", flags, {});
    });
    return JSON.parse(await child.firstLine) as { endpoint: string; queues: LocalQueues }; // cli/queue.ts prints this JSON
  }

  /**
   * Returns the maximum concurrency. With several clusters it exceeds one cluster's share, so that a slow cluster leaves some for the
   * others.
   */
  #invocationsMax(): number {
    const { clusters, concurrency } = this.#flags;
    return clusters === undefined ? concurrency : INVOCATIONS_MAX;
  }

  #markLostMessages(stores: () => readonly Store[]): void {
    let seen = this.#queueRestarts;
    const look = setInterval(() => {
      if (this.#queueRestarts === seen) return;
      seen = this.#queueRestarts;
      this.#log.warn("the queue lost its messages: relisting everything");
      for (const store of stores())
        for (const resource of CACHED_RESOURCES) store.markSuspect(resource, "the local queue was restarted").catch(() => (seen = -1));
    }, READY_POLL_MS);
    this.#ending.signal.addEventListener("abort", () => clearInterval(look));
  }

  #configuration(
    { cid, server }: { readonly cid: string; readonly server: string },
    redisUrl: string,
    queues: Configuration["queues"],
  ): Configuration {
    return {
      deployment: this.#flags.act ? "dev" : "dev-shadow",
      cluster: cid,
      mode: this.#flags.act ? "act" : "shadow",
      digestKey: process.env["DELTALOOP_DIGEST_KEY"] ?? randomBytes(32).toString("hex"),
      macKeys: process.env["DELTALOOP_MAC_KEY"]?.split(",") ?? [randomBytes(32).toString("hex")],
      redis: { url: redisUrl, cluster: false },
      kubernetes: this.#flags.anyKubernetes ? "any" : "supported",
      kube: { server },
      queues,
      logLevel: this.#flags.verbose ? "debug" : "info",
      metrics: "none",
    };
  }

  /** Starts a process and restarts it when it exits, unless its exit code forbids that. */
  async #keep(name: string, start: () => Child): Promise<Child> {
    const child = start();
    this.#children.set(name, child);
    this.#log.info(`${name} started`, { pid: child.pid });
    void child.exited.then(async ({ code, signal }) => {
      if (this.#ending.signal.aborted) return;
      if (code === EXIT_UPSTREAM_ACTIVE) return this.#fail("stopped acting: another controller manager is active", EXIT_UPSTREAM_ACTIVE);
      if (code === EXIT_USAGE) return this.#fail(`${name} has an invalid configuration`, EXIT_USAGE);
      this.#log.warn(`${name} exited; restarting it`, { pid: child.pid, how: signal ?? `code ${code}` });
      await new Promise((resolve) => setTimeout(resolve, RESTART_MS));
      // A process that exits before it is ready is restarted too.
      if (!this.#ending.signal.aborted) await this.#keep(name, start).catch(() => undefined);
    });
    if (name === "functions") child.onLine((line) => line.startsWith("{") && this.#page?.sync(JSON.parse(line) as ReplayedSync)); // cli/host.ts prints it
    if (!name.startsWith(WATCHER)) await child.firstLine; // the watcher prints no line
    return child;
  }

  #fail(why: string, code: number): void {
    if (this.#ending.signal.aborted) return;
    this.#log.error(why);
    this.#exitCode = code;
    this.#ending.abort(new Error(why));
  }

  async #untilReady(store: Store): Promise<void> {
    for (let reason = ""; !this.#ending.signal.aborted;) {
      const shut = await shutGate(store);
      if (shut === undefined) return;
      if (shut !== reason) this.#log.debug("not ready yet", { reason: (reason = shut) });
      await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS));
    }
  }

  /** Ends the functions first, so that nothing writes to the cluster, and Redis last, because the other processes use it. */
  async #end(store: Store | undefined): Promise<void> {
    this.#ending.abort(new Error("ending"));
    await Promise.all([...this.#children.values()].map((child) => child.end(END_GRACE_MS)));
    await store?.close().catch(() => undefined);
    await this.#redis?.stop();
    this.#folder.remove();
  }
}

/** Waits for all, so that each is either started or not, and throws the error of the first that failed. */
async function allOf<T extends readonly unknown[]>(starts: T): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(starts);
  return await Promise.all(starts);
}

function modeText(act: boolean): string {
  return act ? "act" : "shadow (prints decisions, sends nothing)";
}

function ended(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve(), { once: true })));
}
