/**
 * `deltaloop rotate`: what is renewed by writing a secret, while everything runs (docs/internals/threat-model.md). Tokens of functions for the API
 * server, the MAC key, the digest key. No secret is printed.
 */
import { Option } from "commander";
import type { Command } from "commander";
import { createSecrets } from "@deltaloop/store/secrets";
import { createSystemClock } from "@deltaloop/base/system";
import { rotateDigestKey } from "./rotate/digest-key.ts";
import { rotateMacKey } from "./rotate/mac-key.ts";
import { keepTokensFresh, KUBE_COMPONENTS, renewTokens } from "./rotate/tokens.ts";
import type { TokenPlan } from "./rotate/tokens.ts";
import { watchersEnvironment } from "./cluster/environment-file.ts";
import { kubeAccess, kubeconfigPath } from "@deltaloop/kube/kubeconfig";
import { untilSignalled } from "@deltaloop/local/processes";
import { duration, UsageError, wholeNumber } from "@deltaloop/base";

interface TokenFlags {
  readonly secrets: string;
  readonly for: string;
  readonly seconds: number;
  readonly every?: number;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly secretsEndpoint?: string;
}

interface KeyFlags {
  readonly env?: string;
  readonly wait?: number;
  readonly finish?: true;
}

const EXIT_FAILED = 1;

export function registerRotate(program: Command): void {
  const rotate = program
    .command("rotate")
    .description("renew what stands in secrets, while everything runs (docs/internals/threat-model.md)");
  rotate
    .command("tokens")
    .description("ask the API server for a token of each function's service account, and write it to the function's secret")
    .requiredOption("--secrets <prefix>", "what the secrets' names begin with: deltaloop/<stage>/kube/, or ssm:/path/")
    .option("--for <names>", "whose, with commas; watcher is one, too", KUBE_COMPONENTS.join(","))
    .option(
      "--seconds <n>",
      "how long a token is good; the API server may give less",
      wholeNumber("--seconds", { min: 600, max: 86_400 }),
      3_600,
    )
    .option("--every <duration>", "go on, and renew them so often: at most half of what they are good for", duration("--every"))
    .option("--kubeconfig <file>", "of who may ask for them (infra/manifests/token-renewer.yaml)")
    .option("--context <name>", "context of the kubeconfig")
    .addOption(
      new Option("--secrets-endpoint <url>", "a Secrets Manager and Parameter Store of your own").env("DELTALOOP_SECRETS_ENDPOINT"),
    )
    .action(runTokens);
  for (const [name, what, run] of [
    [
      "mac-key",
      "replace the MAC key: both are accepted, then the new one signs, then all is signed anew, then the old one goes",
      rotateMacKey,
    ],
    ["digest-key", "replace the digest key: a new epoch; tells for how long gates were shut", rotateDigestKey],
  ] as const)
    rotate
      .command(name)
      .description(what)
      .option("--env <file>", "the watcher's environment, with references; else this one's")
      .option(
        "--wait <duration>",
        "how long everybody has to read a secret that has changed (default: DELTALOOP_SECRETS_SECONDS and 15 s, so 5m15s)",
        duration("--wait"),
      )
      .option("--finish", "of mac-key: go on where a rotation was ended, with the secret's first key as the new one")
      .action(async ({ env, wait, finish }: KeyFlags) => {
        const done = await run({
          environment: watchersEnvironment(env),
          ...(wait !== undefined && { waitMs: wait }),
          finish: finish === true,
          say,
          ...createSystemClock(),
          signal: untilSignalled(),
        });
        process.exitCode = done ? 0 : EXIT_FAILED;
      });
}

async function runTokens(flags: TokenFlags): Promise<void> {
  const names = flags.for.split(",");
  const unknown = names.filter((name) => !KUBE_COMPONENTS.includes(name) && name !== "watcher");
  if (unknown.length > 0) throw new UsageError(`--for knows ${[...KUBE_COMPONENTS, "watcher"].join(", ")}, not ${unknown.join(", ")}`);
  const { every, seconds, secretsEndpoint } = flags;
  if (every !== undefined && (every < 1_000 || every > seconds * 500))
    throw new UsageError(`--every takes at most half of --seconds, ${seconds / 2} s, so that a token is renewed long before it ends`);
  const access = await kubeAccess({ ...flags, kubeconfig: kubeconfigPath(flags.kubeconfig) }, "deltaloop-token-renewer", "token-renewer");
  const secrets = createSecrets({ ...(secretsEndpoint !== undefined && { endpoint: secretsEndpoint }), timeoutMs: 10_000 });
  const plan: TokenPlan = { access, secrets, names, prefix: flags.secrets, seconds, say };
  const failed = every === undefined ? await renewTokens(plan) : await keepTokensFresh(plan, every, untilSignalled());
  secrets.close();
  if (failed > 0) process.exitCode = EXIT_FAILED;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
