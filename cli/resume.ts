/**
 * `deltaloop resume --lineage`: ends the stop after too many new epochs, and approves the replacement of another cluster's epoch
 * (informer §11.11).
 *
 * `deltaloop resume`: resumes after writes of another controller (informer §11.9). Prints the controller's name, fails while it still
 * writes, and accepts only writes up to now. Configured like the watcher; needs its permission to list and write access to Redis.
 */
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { createClient, kubeOver } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { liveOf } from "@deltaloop/controllers/clusters";
import { isListedId } from "@deltaloop/controllers/configuration";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { openCache, redisStore, kubeHttpConfig } from "@deltaloop/controllers/lambda";
import { describeForeignWrite } from "@deltaloop/store/ports";
import { NAMESPACE, serviceAccount, watcherLease } from "@deltaloop/controllers/registry";
import { readApiServer } from "./cluster/api-server.ts";
import { readClusterIdentity } from "@deltaloop/kube/client";
import { accessTo, directoryConfiguration, openClusters } from "./clusters/open-clusters.ts";
import { allowOption, clustersOf, clustersOption } from "./clusters/options.ts";
import type { ClustersFlags } from "./clusters/options.ts";
import { readConfiguration } from "@deltaloop/local/processes";
import { SWITCH_OFF } from "./cluster/end-on-foreign-write.ts";
import { environmentOption, watchersEnvironment } from "./cluster/environment-file.ts";
import type { EnvironmentFlags } from "./cluster/environment-file.ts";
import { starting, startupTimeoutOption } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import { consoleLog } from "@deltaloop/base/output";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { printable } from "@deltaloop/base/output";
import { redisFailure } from "./cluster/redis-failure.ts";
import { decideResume, newestForeignWrite, stopsToResume } from "./cluster/resume.ts";
import { resumeLineage } from "./cluster/resume-lineage.ts";
import { withProgress } from "./output/terminal.ts";
import { UsageError } from "@deltaloop/base";

interface ResumeFlags extends StartupFlags, EnvironmentFlags, Partial<ClustersFlags> {
  readonly force?: true;
  readonly namespace?: string;
  readonly lineage?: true;
  readonly leaseNamespace?: string;
}

const EXIT_REFUSED = 1;

export function registerResume(program: Command): void {
  withDetails(
    program
      .command("resume")
      .description("Resumes writing after another controller wrote to the managed objects.")
      .argument("[cluster]", "a listed cluster")
      .option("--force", "resume even while the other controller writes; its next write stops everything again")
      .option("-n, --namespace <name>", "resume in this namespace only")
      .addOption(clustersOption())
      .addOption(allowOption())
      .addOption(environmentOption())
      .optionsGroup("Cluster access:")
      .option("--kubeconfig <file>", "kubeconfig to use instead of DELTALOOP_KUBE_*; a context named after the watcher's role is preferred")
      .option("--context <name>", "context of the kubeconfig")
      .addOption(startupTimeoutOption())
      .optionsGroup("Clusters that share a cache:")
      .option("--lineage", "replace another cluster's epoch of the shared cache by this cluster's, and allow new epochs again")
      .option("--lease-namespace <name>", "namespace of the watcher's Lease, instead of DELTALOOP_LEASE_NAMESPACE")
      .action(async (cluster: string | undefined, flags: ResumeFlags) => {
        process.exitCode = await runResume(cluster, flags);
        process.stdout.write("", () => process.exit());
      }),
    {
      notes: ["Prints which controller wrote. Exits with 1 while that controller still writes."],
      examples: [
        "resume --env prod.env --kubeconfig roles.yaml",
        "resume -n shop",
        "resume --force",
        "resume --lineage --kubeconfig roles.yaml",
        "resume blue --clusters ssm:/deltaloop/prod/clusters",
      ],
    },
  );
}

interface Target {
  readonly configuration: Configuration;
  access(): Promise<KubeHttpConfig>;
}

/** The cluster to resume. @throws {UsageError} if `name` is not that of a listed cluster, or the deployment serves no list */
async function targetOf(name: string | undefined, flags: ResumeFlags): Promise<Target> {
  const { variables, kube } = watchersEnvironment(flags);
  const directory = clustersOf(flags, variables);
  if (directory === undefined) {
    if (name !== undefined) throw new UsageError(`${printable(name)} is the name of a listed cluster: add --clusters`);
    const live = await readConfiguration(variables);
    const own = async () =>
      kube === undefined ? kubeHttpConfig(live, "resume") : await kubeAccess(kube, serviceAccount("watcher"), "resume");
    return { configuration: live.current, access: own };
  }
  if (flags.kubeconfig !== undefined || flags.context !== undefined)
    throw new UsageError(`${directory.clusters} has the kubeconfigs: remove --kubeconfig and --context`);
  const live = await directoryConfiguration(variables);
  const listed = (await openClusters(directory, consoleLog("deltaloop: ", "warn").warn, live.current)).list();
  const cluster = listed.find((each) => each.name === name);
  if (cluster === undefined) {
    const problem = name === undefined ? "name the cluster to resume" : `${directory.clusters} has no cluster ${printable(name)}`;
    throw new UsageError(`${problem}; it is one of: ${listed.map((each) => each.name).join(", ") || "none"}`);
  }
  return {
    configuration: liveOf(live, cluster).current,
    access: async () => await accessTo(cluster, directory, serviceAccount("watcher"), "resume"),
  };
}

async function runResume(name: string | undefined, flags: ResumeFlags): Promise<number> {
  const target = await targetOf(name, flags);
  const { configuration } = target;
  if (configuration.mode === "shadow")
    throw new UsageError("DELTALOOP_MODE is shadow: shadow mode is never stopped, so there is nothing to resume");
  const access = await target.access();
  const client = starting(createClient(access), access.server, flags, consoleLog("deltaloop: ", "warn"));
  const kube = kubeOver(client);
  const { cid, uid } = await readClusterIdentity(kube);
  const { cluster } = configuration;
  if (!isListedId(cluster) && cid !== cluster)
    throw new UsageError(`DELTALOOP_CLUSTER is ${cluster}, but this API server's cluster is ${cid}`);
  let lost: Error | undefined;
  const { store } = openCache(
    configuration,
    redisStore(configuration.redis, (error) => (lost = error)),
  );
  try {
    const state = await store.guard().catch((error: unknown) => {
      throw redisFailure("DELTALOOP_REDIS_URL", configuration.redis.url, lost ?? error);
    });
    if (flags.lineage) {
      const namespace = flags.leaseNamespace ?? configuration.leaseNamespace ?? NAMESPACE;
      const said = await resumeLineage(kube, store, { namespace, name: watcherLease(configuration.deployment) });
      said.lines.forEach(say);
      return said.isDone ? 0 : EXIT_REFUSED;
    }
    // The id of a listed cluster is from its kubeconfig; the epoch has the UID of the cluster that is resumed.
    const epoch = await store.epoch();
    if (isListedId(cluster) && epoch !== undefined && epoch.clusterUid !== uid)
      throw new UsageError(`the epoch of ${cluster} is of another cluster: kube-system had UID ${epoch.clusterUid}, and now has ${uid}`);
    const { namespace } = flags;
    const { stops, lines } = stopsToResume(state, namespace);
    lines.forEach(say);
    const { dateMs = Date.now() } = await readApiServer(client);
    const reading = stops.length > 0 ? newestForeignWrite(kube, dateMs, new AbortController().signal, namespace) : undefined;
    const newest = reading && (await withProgress("Reading the newest writes", reading));
    if (newest) say(`the last write of another controller: ${describeForeignWrite(newest)}`);
    const decision = decideResume(stops, newest, dateMs, flags.force === true);
    switch (decision.kind) {
      case "notStopped":
        say(namespace === undefined ? "nothing is stopped" : `namespace ${namespace} is not stopped`);
        return 0;
      case "refused":
        say(`not resumed: ${decision.why}`);
        say(`to stop these controllers in kube-controller-manager, start it with ${SWITCH_OFF}`);
        return EXIT_REFUSED;
      case "resume": {
        const { acceptedMs } = decision;
        if ((await store.resume({ ...(namespace !== undefined && { namespace }), seen: state, acceptedMs })) === "changed") {
          say("not resumed: the other controller has written again; run the command again");
          return EXIT_REFUSED;
        }
        say("resumed: due keys are synced within seconds; the next write of another controller stops everything again");
        return 0;
      }
      default:
        return decision satisfies never;
    }
  } finally {
    await store.close();
  }
}

function say(line: string): void {
  process.stdout.write(`${printable(line)}\n`);
}
