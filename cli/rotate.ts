/**
 * `deltaloop rotate`: rotates secrets of the running system (docs/internals/threat-model.md): the functions' tokens for the API server, the
 * MAC key, the digest key. No secret is printed.
 */
import { Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { createSecrets } from "@deltaloop/store/secrets";
import { createSystemClock } from "@deltaloop/base/system";
import { rotateDigestKey } from "./rotate/digest-key.ts";
import { rotateMacKey } from "./rotate/mac-key.ts";
import { keepTokensFresh, KUBE_COMPONENTS, renewTokens } from "./rotate/tokens.ts";
import type { TokenPlan } from "./rotate/tokens.ts";
import { environmentOption, watchersEnvironment } from "./cluster/environment-file.ts";
import type { EnvironmentFlags } from "./cluster/environment-file.ts";
import { kubeAccess, kubeconfigPath } from "@deltaloop/kube/kubeconfig";
import type { KubeFlags } from "@deltaloop/kube/kubeconfig";
import { createClient, kubeOver } from "@deltaloop/kube/http";
import { consoleLog } from "@deltaloop/base/output";
import { starting, startupTimeoutOption } from "./cluster/startup.ts";
import type { StartupFlags } from "./cluster/startup.ts";
import { untilSignalled } from "@deltaloop/local/processes";
import { duration, UsageError, wholeNumber } from "@deltaloop/base";

interface TokenFlags extends StartupFlags, EnvironmentFlags {
  readonly secrets?: string;
  readonly for: string;
  readonly seconds: number;
  readonly every?: number;
  readonly secretsEndpoint?: string;
}

interface KeyFlags {
  readonly env?: string;
  readonly wait?: number;
  readonly finish?: true;
}

const EXIT_FAILED = 1;

export function registerRotate(program: Command): void {
  const rotate = program.command("rotate").description("Rotates tokens and keys without downtime.");
  withDetails(rotate, {
    examples: ["rotate tokens --secrets deltaloop/prod/kube/", "rotate mac-key --env prod.env", "rotate digest-key --env prod.env"],
    docs: "docs/guides/rotate-keys.md",
  });
  withDetails(
    rotate
      .command("tokens")
      .description("Requests tokens of the functions' service accounts and writes them to their secrets.")
      .option(
        "--secrets <prefix>",
        "prefix of the secrets' names: deltaloop/<stage>/kube/ or ssm:/path/ (default: that of the watcher's DELTALOOP_KUBE_SECRET)",
      )
      .addOption(environmentOption())
      .option("--for <names>", "comma-separated components; watcher is also allowed", KUBE_COMPONENTS.join(","))
      .option(
        "--seconds <n>",
        "requested lifetime of a token in seconds; the API server may shorten it",
        wholeNumber("--seconds", { min: 600, max: 86_400 }),
        3_600,
      )
      .option("--every <duration>", "keep running, and renew at this interval, at most half of the lifetime", duration("--every"))
      .optionsGroup("Access:")
      .option(
        "--kubeconfig <file>",
        "kubeconfig with the permissions of infra/manifests/token-renewer (default: KUBECONFIG, then ~/.kube/config)",
      )
      .option("--context <name>", "context of the kubeconfig")
      .addOption(startupTimeoutOption())
      .addOption(
        new Option("--secrets-endpoint <url>", "endpoint of Secrets Manager and Parameter Store").env("DELTALOOP_SECRETS_ENDPOINT"),
      )
      .action(runTokens),
    { examples: ["rotate tokens --secrets deltaloop/prod/kube/ --every 30m0s"], docs: "docs/guides/rotate-keys.md" },
  );
  for (const [name, what, run] of [
    ["mac-key", "Rotates the MAC key: accept both, sign with the new one, re-sign stored data, remove the old one.", rotateMacKey],
    ["digest-key", "Rotates the digest key, which starts a new epoch, and prints how long gates were closed.", rotateDigestKey],
  ] as const) {
    const command = rotate
      .command(name)
      .description(what)
      .addOption(environmentOption())
      .option(
        "--wait <duration>",
        "time for all processes to read a changed secret (default: DELTALOOP_SECRETS_SECONDS plus 15s, usually 5m15s)",
        duration("--wait"),
      )
      .addOption(
        new Option("--finish", "continue an interrupted rotation, with the secret's first key as the new one").hideHelp(name !== "mac-key"),
      )
      .action(async ({ wait, finish, ...flags }: KeyFlags) => {
        const done = await run({
          environment: watchersEnvironment(flags).variables,
          ...(wait !== undefined && { waitMs: wait }),
          finish: finish === true,
          say,
          ...createSystemClock(),
          signal: untilSignalled(),
        });
        process.exitCode = done ? 0 : EXIT_FAILED;
      });
    withDetails(command, { examples: [`rotate ${name} --env prod.env`], docs: "docs/guides/rotate-keys.md" });
  }
}

async function runTokens(flags: TokenFlags): Promise<void> {
  const names = flags.for.split(",");
  const unknown = names.filter((name) => !KUBE_COMPONENTS.includes(name) && name !== "watcher");
  if (unknown.length > 0) throw new UsageError(`--for takes ${[...KUBE_COMPONENTS, "watcher"].join(", ")}, not ${unknown.join(", ")}`);
  const { every, seconds } = flags;
  if (every !== undefined && (every < 1_000 || every > seconds * 500))
    throw new UsageError(`--every takes at most half of --seconds, ${seconds / 2} s, so that a token is renewed long before it ends`);
  const { prefix, endpoint, kube: kubeFlags } = secretsToRenew(flags);
  const access = await kubeAccess(kubeFlags, "deltaloop-token-renewer", "token-renewer");
  const secrets = createSecrets({ ...(endpoint !== undefined && { endpoint }), timeoutMs: 10_000 });
  const kube = kubeOver(starting(createClient(access), access.server, flags, consoleLog("deltaloop: ", "warn")));
  const plan: TokenPlan = { kube, ca: access.ca, secrets, names, prefix, seconds, say };
  const failed = every === undefined ? await renewTokens(plan) : await keepTokensFresh(plan, every, untilSignalled());
  secrets.close();
  if (failed > 0) process.exitCode = EXIT_FAILED;
}

/** A CronJob is configured by `--secrets` alone. @throws {UsageError} */
function secretsToRenew(flags: TokenFlags): { readonly prefix: string; readonly endpoint: string | undefined; readonly kube: KubeFlags } {
  const own = { ...flags, kubeconfig: kubeconfigPath(flags.kubeconfig) };
  const { secrets, secretsEndpoint, env } = flags;
  if (secrets !== undefined && env === undefined) return { prefix: secrets, endpoint: secretsEndpoint, kube: own };
  const { variables, kube = own } = watchersEnvironment(flags);
  const prefix = secrets ?? /^.*\//.exec(variables["DELTALOOP_KUBE_SECRET"] ?? "")?.[0];
  if (prefix === undefined) throw new UsageError("set --secrets: its default comes from DELTALOOP_KUBE_SECRET, which is not set either");
  return { prefix, endpoint: secretsEndpoint ?? variables["DELTALOOP_SECRETS_ENDPOINT"], kube };
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
