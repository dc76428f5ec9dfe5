/**
 * `deltaloop doctor`: why does it do nothing? Looks at everything that watcher and functions stand on, changes nothing, and says of each
 * part whether it is well, what was seen and what to do. Configured like the watcher.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { messageOf } from "@deltaloop/kube/objects";
import { ConfigurationError } from "@deltaloop/controllers/configuration";
import type { Configuration, LiveConfiguration } from "@deltaloop/controllers/configuration";
import { kubeHttpConfig } from "@deltaloop/controllers/lambda";
import { serviceAccount } from "@deltaloop/controllers/registry";
import { judge } from "./doctor/judge.ts";
import { AUDIT_PART_MS, look, PART_MS } from "./doctor/look.ts";
import { reportAsJson, reportForPeople, withoutSecrets } from "./doctor/report.ts";
import { readConfiguration } from "@deltaloop/local/processes";
import { watchersEnvironment } from "./cluster/environment-file.ts";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { UsageError } from "@deltaloop/base";

interface DoctorFlags {
  readonly env?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly leaseNamespace: string;
  readonly audit?: true;
  readonly json?: true;
}

const EXIT_FAILURE = 1;
const COLUMNS = 120;

export function registerDoctor(program: Command): void {
  program
    .command("doctor")
    .description("say why it does nothing: looks at API server, rights, Redis, queues, watcher, cache and work; changes nothing")
    .option("--env <file>", "DELTALOOP_* of the watcher as lines NAME=value, instead of the environment; dev says where its own is")
    .option("--kubeconfig <file>", "instead of DELTALOOP_KUBE_*; contexts named like our roles are used for them")
    .option("--context <name>", "context of the kubeconfig")
    .option("--lease-namespace <name>", "where the watcher's Lease stands", "deltaloop")
    .option("--audit", `compare every object of the API server with its row in the cache, too; may take ${AUDIT_PART_MS / 1000} s`)
    .option("--json", "one JSON object (cli/README.md has its fields)")
    .addHelpText(
      "after",
      "\nEnds with 0 when nothing failed (warnings do not count), 1 when something did, 2 when it was asked wrongly. Takes 10 s at most without --audit.",
    )
    .action(async (flags: DoctorFlags) => {
      process.exitCode = await runDoctor(flags);
      // Of a server that hangs connections stay open; what is printed is out first, also into a pipe.
      process.stdout.write("", () => process.exit());
    });
}

async function runDoctor(flags: DoctorFlags): Promise<number> {
  const from = performance.now();
  const live = await readConfiguration(watchersEnvironment(flags.env));
  const configuration = live.current;
  const secrets = new Set(secretsOf(configuration));
  const access = kubeAccessOf(flags, live, (token) => secrets.add(token));
  // A kubeconfig that cannot be used is wrong use. One whose plugin hangs is for the parts to say.
  await Promise.race([access(serviceAccount("watcher")), sleep(PART_MS)]);
  const facts = await look({ configuration, access, leaseNamespace: flags.leaseNamespace, audit: flags.audit === true });
  const findings = withoutSecrets(judge(facts), [...secrets]);
  const { deployment, cluster, mode } = configuration;
  const report = { deployment, cluster, mode, tookMs: Math.round(performance.now() - from), findings };
  process.stdout.write(flags.json ? reportAsJson(report) : reportForPeople(report, process.stdout.columns ?? COLUMNS));
  return findings.some(({ state }) => state === "failure") ? EXIT_FAILURE : 0;
}

/** Each token that is used is told to `used`. */
function kubeAccessOf(
  { kubeconfig, context }: DoctorFlags,
  live: LiveConfiguration,
  used: (token: string) => void,
): (role: string) => Promise<KubeHttpConfig> {
  return async (role) => {
    const config =
      kubeconfig === undefined
        ? fromEnvironment(live)
        : await kubeAccess({ kubeconfig, ...(context !== undefined && { context }) }, role, "doctor");
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

/** @throws {UsageError} when a file that it names cannot be read */
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
    return password; // it has a % of its own
  }
}
