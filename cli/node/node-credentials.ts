/** The registry credentials of the node itself. */
import { access, constants, readdir, readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { extname, join } from "node:path";
import { parseYamlOrJson } from "@deltaloop/kube/yaml";
import { messageOf } from "@deltaloop/kube/objects";
import { parseProviders } from "@deltaloop/node-agent/kubelet";
import type { CredentialProvider } from "@deltaloop/node-agent/kubelet";
import { createNodeCredentials } from "@deltaloop/node-agent/credentials";
import type { Clock, Log } from "@deltaloop/base";
import type { NodeCredentials } from "@deltaloop/node-agent/ports";
import { UsageError } from "@deltaloop/base";

export interface CredentialFlags {
  readonly rootDir: string;
  readonly imageCredentialProviderConfig?: string;
  readonly imageCredentialProviderBinDir?: string;
}

/** Opens the credential sources that the options name. @throws {UsageError} for providers that cannot be used */
export async function nodeCredentials(
  flags: CredentialFlags,
  means: { readonly clock: Clock; readonly log: Log },
): Promise<NodeCredentials> {
  const { rootDir, imageCredentialProviderConfig: config, imageCredentialProviderBinDir: binDir = "" } = flags;
  if ((config === undefined) !== (binDir === ""))
    throw new UsageError("--image-credential-provider-config and --image-credential-provider-bin-dir must be set together");
  const home = homedir();
  return createNodeCredentials({
    configFolders: {
      "config.json": [rootDir, process.cwd(), join(home, ".docker"), "/.docker"],
      ".dockercfg": [rootDir, process.cwd(), home, "/"],
    },
    providers: config === undefined ? [] : await readProviders(config, binDir),
    binDir,
    environment: process.env,
    ...means,
  });
}

/**
 * Reads a file, or all files of a folder in the order of their names.
 *
 * Source: pkg/credentialprovider/plugin/config.go readCredentialProviderConfig; plugin.go RegisterCredentialProviderPlugins.
 */
async function readProviders(path: string, binDir: string): Promise<readonly CredentialProvider[]> {
  const providers: CredentialProvider[] = [];
  try {
    for (const file of await filesOf(path))
      try {
        providers.push(...parseProviders(parseYamlOrJson(await readFile(file, "utf8"))));
      } catch (error) {
        throw new Error(`error decoding config "${file}": ${messageOf(error)}`, { cause: error });
      }
    const twice = providers.find(({ name }, index) => providers.findIndex((one) => one.name === name) !== index);
    if (twice !== undefined) throw new Error(`duplicate provider name "${twice.name}" found in configuration file(s)`);
    for (const { name } of providers)
      await access(join(binDir, name), constants.X_OK).catch(() => {
        throw new Error(`plugin binary executable ${join(binDir, name)} did not exist`);
      });
  } catch (error) {
    throw new UsageError(`--image-credential-provider-config: ${messageOf(error)}`);
  }
  return providers;
}

async function filesOf(path: string): Promise<readonly string[]> {
  if (!(await stat(path)).isDirectory()) return [path];
  const names = (await readdir(path)).filter((name) => [".json", ".yaml", ".yml"].includes(extname(name))).toSorted();
  if (names.length === 0) throw new Error(`no configuration files found in directory "${path}"`);
  return names.map((name) => join(path, name));
}
