/**
 * `deltaloop doctor`: checks everything that the watcher and the functions depend on, changes nothing, and prints the state, the observation
 * and the remedy of each check. Configured like the watcher.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { messageOf } from "@deltaloop/kube/objects";
import { ConfigurationError } from "@deltaloop/controllers/configuration";
import type { Configuration, LiveConfiguration } from "@deltaloop/controllers/configuration";
import { liveOf } from "@deltaloop/controllers/clusters";
import { kubeHttpConfig } from "@deltaloop/controllers/lambda";
import { NAMESPACE, serviceAccount } from "@deltaloop/controllers/registry";
import { checkClusters, printClusters } from "./doctor/check-clusters.ts";
import { judge } from "./doctor/judge.ts";
import { runProbe } from "./doctor/probe.ts";
import type { ProbeFlags } from "./doctor/probe.ts";
import { AUDIT_PART_MS, look, PART_MS } from "./doctor/look.ts";
import { reportAsObject, reportForPeople, withoutSecrets } from "./doctor/report.ts";
import type { Report } from "./doctor/report.ts";
import { accessTo, directoryConfiguration, openClusters } from "./clusters/open-clusters.ts";
import { allowOption, clustersOf, clustersOption } from "./clusters/options.ts";
import type { ClustersFlags } from "./clusters/options.ts";
import { readConfiguration } from "@deltaloop/local/processes";
import { environmentOption, watchersEnvironment } from "./cluster/environment-file.ts";
import type { EnvironmentFlags, WatchersEnvironment } from "./cluster/environment-file.ts";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import type { KubeFlags } from "@deltaloop/kube/kubeconfig";
import { consoleLog } from "@deltaloop/base/output";
import { startupTimeoutOption, untilAnswered } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import { withProgress } from "./output/terminal.ts";
import { UsageError } from "@deltaloop/base";

interface DoctorFlags extends StartupFlags, EnvironmentFlags, ProbeFlags, Partial<ClustersFlags> {
  readonly leaseNamespace?: string;
  readonly audit?: true;
  readonly output?: OutputFormat;
}

const EXIT_FAILURE = 1;
const COLUMNS = 120;

export function registerDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .description("Checks API server, permissions, Redis, queues, watcher, cache and work queue.")
    .addOption(new Option("--redis <url>", "check only the commands of this Redis"))
    .option("--redis-cluster", "the Redis is a cluster")
    .addOption(new Option("--redis-durability <class>", "its durability class").choices(["A", "B", "C"]).default("C"))
    .addOption(clustersOption())
    .addOption(allowOption())
    .option("--audit", `compare every object of the API server with its row in the cache; may take ${AUDIT_PART_MS / 1000} s`)
    .addOption(environmentOption());
  addOutputOption(command, "one object")
    .optionsGroup("Cluster access:")
    .option(
      "--kubeconfig <file>",
      "kubeconfig to use instead of DELTALOOP_KUBE_*; a context named after a deltaloop role is used for that role",
    )
    .option("--context <name>", "context of the kubeconfig")
    .option("--lease-namespace <name>", "namespace of the watcher's Lease, instead of DELTALOOP_LEASE_NAMESPACE")
    .addOption(startupTimeoutOption())
    .action(async (flags: DoctorFlags) => {
      process.exitCode = await checkOf(flags);
      // A server that hangs keeps connections open, so the process exits explicitly, after the report is flushed.
      process.stdout.write("", () => process.exit());
    });
  withDetails(command, {
    notes: [
      "Changes nothing. Exits with 1 when a check failed; warnings do not count. Takes up to 10 s without --audit. cli/README.md describes the checks and the fields of -o json.",
    ],
    examples: [
      "doctor",
      "doctor --env prod.env --kubeconfig roles.yaml",
      "doctor --audit -o json",
      "doctor --redis rediss://user:password@host:6379",
      "doctor --clusters ssm:/deltaloop/prod/clusters",
    ],
  });
}

async function checkOf(flags: DoctorFlags): Promise<number> {
  if (flags.redis !== undefined) return await runProbe(flags, flags.redis);
  const environment = watchersEnvironment(flags);
  const directory = clustersOf(flags, environment.variables);
  return directory === undefined ? await runDoctor(flags, environment) : await runClusters({ ...flags, ...directory }, environment);
}

async function runDoctor(flags: DoctorFlags, { variables, kube }: WatchersEnvironment): Promise<number> {
  const live = await readConfiguration(variables);
  const secrets = new Set(secretsOf(live.current));
  const access = kubeAccessOf(kube, live, (token) => secrets.add(token));
  // An invalid kubeconfig is a usage error. A plugin that hangs is reported by the checks.
  const reached = await Promise.race([access(serviceAccount("watcher")), sleep(PART_MS)]);
  // The checks report an API server that does not answer.
  if (reached) await untilAnswered(reached, flags, consoleLog("deltaloop: ", "warn")).catch(() => undefined);
  const report = await withProgress("Checking", checked(flags, live.current, access, secrets));
  process.stdout.write(
    flags.output ? objectText(reportAsObject(report), flags.output) : reportForPeople(report, process.stdout.columns ?? COLUMNS),
  );
  return report.findings.some(({ state }) => state === "failure") ? EXIT_FAILURE : 0;
}

async function runClusters(flags: DoctorFlags & ClustersFlags, { variables }: WatchersEnvironment): Promise<number> {
  if (flags.kubeconfig !== undefined || flags.context !== undefined)
    throw new UsageError(`${flags.clusters} has the kubeconfigs: remove --kubeconfig and --context`);
  const rejected: string[] = [];
  const live = await directoryConfiguration(variables);
  const clusters = (await openClusters(flags, (line) => rejected.push(line), live.current)).list();
  const check = async (name: string): Promise<Report> => {
    const cluster = clusters.find((each) => each.name === name);
    if (cluster === undefined) throw new Error("no longer listed");
    const { current } = liveOf(live, cluster);
    const secrets = new Set(secretsOf(current));
    const access = withTokens(
      (role) => accessTo(cluster, flags, role, "doctor"),
      (token) => secrets.add(token),
    );
    return await checked(flags, current, access, secrets);
  };
  const all = await withProgress(`Checking ${clusters.length} clusters`, checkClusters(clusters, check));
  const { text, exitCode } = printClusters(all, rejected, { output: flags.output, width: process.stdout.columns ?? COLUMNS });
  process.stdout.write(text);
  return exitCode;
}

async function checked(
  flags: DoctorFlags,
  configuration: Configuration,
  access: (role: string) => Promise<KubeHttpConfig>,
  secrets: ReadonlySet<string>,
): Promise<Report> {
  const from = performance.now();
  const leaseNamespace = flags.leaseNamespace ?? configuration.leaseNamespace ?? NAMESPACE;
  const facts = await look({ configuration, access, leaseNamespace, audit: flags.audit === true });
  const { deployment, cluster, mode } = configuration;
  const findings = withoutSecrets(judge(facts), [...secrets]);
  return { deployment, cluster, mode, tookMs: Math.round(performance.now() - from), findings };
}

function kubeAccessOf(
  kube: KubeFlags | undefined,
  live: LiveConfiguration,
  used: (token: string) => void,
): (role: string) => Promise<KubeHttpConfig> {
  return withTokens(async (role) => (kube === undefined ? fromEnvironment(live) : await kubeAccess(kube, role, "doctor")), used);
}

/** Reports each token that is used to `used`. */
function withTokens(
  access: (role: string) => Promise<KubeHttpConfig>,
  used: (token: string) => void,
): (role: string) => Promise<KubeHttpConfig> {
  return async (role) => {
    const config = await access(role);
    const { token } = config;
    if (token === undefined) return config;
    return {
      ...config,
      token: async () => {
        const fresh = await token();
        used(fresh);
        return fresh;
      },
    };
  };
}

/** Returns the API server access of the environment. @throws {UsageError} if a file that it names cannot be read */
function fromEnvironment(live: LiveConfiguration): KubeHttpConfig {
  try {
    return kubeHttpConfig(live, "doctor");
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw new UsageError(`DELTALOOP_KUBE_CA_FILE: ${messageOf(error)}`);
  }
}

function secretsOf({ digestKey, macKeys, redis, kube }: Configuration): readonly string[] {
  const passwords = [redis.url, kube.server].flatMap((url) => (URL.canParse(url) ? [new URL(url).password] : []));
  const credentials = [kube.token, kube.certificate?.key].filter((each) => each !== undefined);
  return [digestKey, ...macKeys, ...passwords, ...passwords.map(decoded), ...credentials];
}

function decoded(password: string): string {
  try {
    return decodeURIComponent(password);
  } catch {
    return password; // the password has an invalid percent-encoding
  }
}
