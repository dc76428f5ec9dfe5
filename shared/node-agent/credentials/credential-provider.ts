/**
 * The node's registry credentials: first from its docker configuration, then from credential provider plugins (node-agent §8).
 *
 * Source: pkg/credentialprovider/{provider,config}.go, plugin/plugin.go.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@deltaloop/kube/objects";
import {
  cacheKeysOf,
  credentialsFor,
  parseDockerConfig,
  providerAnswer,
  providerRequest,
  repositoryOf,
  urlsMatch,
} from "../kubelet/images/credential-provider.ts";
import type { CredentialProvider, DockerConfig } from "../kubelet/images/credential-provider.ts";
import type { Clock, Log } from "@deltaloop/base";
import type { AuthConfig } from "../ports/cri-types.ts";
import type { NodeCredentials } from "../ports/node-credentials.ts";

/** How long a parsed docker configuration is cached. */
const CONFIG_MS = 5 * 60_000;
const PROVIDER_MS_MAX = 60_000;
const ANSWER_BYTES_MAX = 1024 * 1024;
const ANSWERS_MAX = 1_000;

export interface NodeCredentialsOptions {
  /** Directories that are searched for `config.json`, in this order, and then for `.dockercfg`. */
  readonly configFolders: { readonly "config.json": readonly string[]; readonly ".dockercfg": readonly string[] };
  readonly providers: readonly CredentialProvider[];
  /** Directory of the plugins. */
  readonly binDir: string;
  /** Environment of the plugins, to which a provider's configuration can add variables. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Log;
}

interface Kept {
  readonly auth: DockerConfig;
  readonly untilMs: number;
}

export function createNodeCredentials(options: NodeCredentialsOptions): NodeCredentials {
  const { providers, clock, log } = options;
  const answers = new Map<string, Kept>();
  const asking = new Map<string, Promise<DockerConfig>>();
  let config: Kept | undefined;

  async function ofConfig(): Promise<DockerConfig> {
    if (config !== undefined && clock.now() < config.untilMs) return config.auth;
    config = { auth: await readDockerConfig(options), untilMs: clock.now() + CONFIG_MS };
    return config.auth;
  }

  async function ofProvider(provider: CredentialProvider, repository: string): Promise<DockerConfig> {
    if (!provider.matchImages.some((glob) => urlsMatch(glob, repository))) return {};
    const nowMs = clock.now();
    for (const [key, { untilMs }] of answers) if (untilMs < nowMs) answers.delete(key);
    for (const key of Object.values(cacheKeysOf(repository))) {
      const kept = answers.get(`${provider.name} ${key}`);
      if (kept !== undefined) return kept.auth;
    }
    const asked = `${provider.name} ${repository}`;
    const answer = asking.get(asked) ?? ask(provider, repository).finally(() => asking.delete(asked));
    asking.set(asked, answer);
    return await answer;
  }

  async function ask(provider: CredentialProvider, repository: string): Promise<DockerConfig> {
    const output = await run(join(options.binDir, provider.name), provider, repository, options.environment);
    const { auth, cacheKey, cacheMs } = providerAnswer(output, provider, repository);
    if (cacheMs > 0 && answers.size < ANSWERS_MAX) answers.set(`${provider.name} ${cacheKey}`, { auth, untilMs: clock.now() + cacheMs });
    return auth;
  }

  return {
    async lookup(image) {
      const repository = repositoryOf(image);
      const given = await Promise.all(
        providers.map((provider) =>
          ofProvider(provider, repository).catch((error: unknown) => {
            log.error("credential provider failed", { provider: provider.name, image: repository, error: messageOf(error) });
            return {};
          }),
        ),
      );
      const found: AuthConfig[] = [...credentialsFor(repository, [await ofConfig()]), ...credentialsFor(repository, given)];
      return found;
    },
  };
}

/** Returns the first configuration that exists and can be parsed. */
async function readDockerConfig({ configFolders, log }: NodeCredentialsOptions): Promise<DockerConfig> {
  for (const form of ["config.json", ".dockercfg"] as const)
    for (const folder of configFolders[form]) {
      const path = join(folder, form);
      const text = await readFile(path, "utf8").catch(() => undefined);
      if (text === undefined) continue;
      try {
        return parseDockerConfig(text, form);
      } catch {
        log.warn("failed to parse docker configuration", { path }); // leaves out the parse error, which may quote a password
      }
    }
  return {};
}

function run(
  file: string,
  { name, args, env, ...provider }: CredentialProvider,
  repository: string,
  environment: NodeCredentialsOptions["environment"],
): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = {
      env: { ...environment, ...env },
      timeout: PROVIDER_MS_MAX,
      maxBuffer: ANSWER_BYTES_MAX,
      killSignal: "SIGKILL",
    } as const;
    const program = execFile(file, [...args], options, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      const why =
        error.killed === true
          ? "context deadline exceeded"
          : typeof error.code === "number"
            ? `exit status ${error.code}`
            : String(error.code);
      reject(new Error(`error execing credential provider plugin ${name} for image ${repository}: ${why}: ${stderr.slice(0, 1_000)}`));
    });
    program.stdin?.on("error", () => undefined); // ignores the error of a plugin that exits without reading its input
    program.stdin?.end(providerRequest({ name, args, env, ...provider }, repository));
  });
}
