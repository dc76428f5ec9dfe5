/** `deltaloop cluster`: edits the folder of kubeconfigs that `dev --clusters` serves, or a path in Parameter Store. Prints no credentials. */
import type { Command, Option } from "commander";
import { UsageError } from "@deltaloop/base";
import { printable } from "@deltaloop/base/output";
import { createSystemClock } from "@deltaloop/base/system";
import { clusterId, flattenKubeconfig, isClusterName, kubeconfigPath } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";
import { functionsOf, REGISTRY, serviceAccount } from "@deltaloop/controllers/registry";
import {
  hostResolver,
  isParameterPlace,
  pauseParameterCluster,
  readFolder,
  readParameterClusters,
  removeCluster,
  removeParameterCluster,
  setPaused,
  vet,
  writeCluster,
  writeParameterCluster,
} from "@deltaloop/local/clusters";
import type { FolderEntry, ParameterRole } from "@deltaloop/local/clusters";
import type { Parameters } from "@deltaloop/store/secrets";
import { parametersOf } from "./clusters/open-clusters.ts";
import { allowOption, clustersOption } from "./clusters/options.ts";
import type { ClustersFlags } from "./clusters/options.ts";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";

interface AddFlags extends ClustersFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly embed?: true;
}

const EXIT_REJECTED = 1;
/** The roles that have a parameter for each cluster: those of the watcher and of all functions. */
const PARAMETER_ROLES: readonly ParameterRole[] = [
  ...functionsOf(REGISTRY).map(({ name, usesKube }) => ({ name: serviceAccount(name), hasCredentials: usesKube })),
  { name: serviceAccount("watcher"), hasCredentials: true },
];
const ROLE_NAMES = PARAMETER_ROLES.map(({ name }) => name);

export function registerCluster(program: Command): void {
  const cluster = program.command("cluster").description("Edits the folder of clusters that `dev --clusters` serves.");
  withDetails(cluster, {
    docs: "docs/reference/cli.md#deltaloop-cluster-add",
    examples: [
      "cluster add blue --kubeconfig blue.yaml --clusters clusters",
      "cluster pause blue --clusters ssm:/deltaloop/prod/clusters",
      "cluster ls -o json --clusters clusters",
    ],
  });
  const verb = (name: string, description: string): Command => cluster.command(name).description(description);
  verb("add <name>", "Adds a cluster, or replaces its credentials.")
    .addOption(folderOption())
    .option("--kubeconfig <file>", "kubeconfig to copy (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--embed", "copy the files to which the kubeconfig refers")
    .addOption(allowOption())
    .action(add);
  verb("rm <name>", "Removes a cluster; its cache is deleted.").addOption(folderOption()).action(remove);
  verb("pause <name>", "Pauses a cluster; its cache is kept.")
    .addOption(folderOption())
    .action(async (name: string, flags: ClustersFlags) => await pause(name, flags, true));
  verb("resume <name>", "Ends a pause; after another controller's write, see `deltaloop resume`.")
    .addOption(folderOption())
    .action(async (name: string, flags: ClustersFlags) => await pause(name, flags, false));
  addOutputOption(verb("ls", "Lists the clusters; exits with 1 if one is rejected."), "one object per cluster")
    .addOption(folderOption())
    .addOption(allowOption())
    .action(list);
}

function folderOption(): Option {
  return clustersOption().makeOptionMandatory();
}

async function add(name: string, flags: AddFlags): Promise<void> {
  if (!isClusterName(name)) throw new UsageError(`${printable(name)} is not a DNS label: use small letters, digits and inner dashes`);
  if (isParameterPlace(flags.clusters) && flags.allow.includes("exec"))
    throw new UsageError(
      "--allow exec needs a folder: a function cannot run the program of a kubeconfig in Parameter Store. Use a token or a certificate",
    );
  const path = kubeconfigPath(flags.kubeconfig);
  const context = flags.context !== undefined && { context: flags.context };
  const config = await flattenKubeconfig(path, { ...context, embed: flags.embed === true }).catch((error: unknown) => {
    throw new UsageError(messageOf(error));
  });
  const problems = await vet(config, { allowed: new Set(flags.allow), resolve: hostResolver(createSystemClock()) });
  if (problems.length > 0) throw new UsageError(problems.map((problem) => `${path}: ${problem}`).join("\n"));
  const others = await entries(flags).catch((error: unknown) => (isParameterPlace(flags.clusters) ? Promise.reject(error) : [])); // a folder need not exist
  const server = new URL(config.clusters[0]?.cluster.server ?? "").href;
  const same = others.find((other) => other.kind === "vetted" && other.name !== name && new URL(other.server).href === server);
  if (same) throw new UsageError(`${path}: cluster ${same.name} has the same server: remove that cluster first`);
  const before = others.find((other) => other.name === name);
  if (!isParameterPlace(flags.clusters)) return await writeCluster(flags.clusters, before?.file ?? name, config);
  await inParameters(flags, async (store) => {
    await writeParameterCluster(store, PARAMETER_ROLES, { name, config, isPaused: before?.isPaused ?? false });
    // Another server or CA is another cluster, whose parameters have another name.
    if (before !== undefined && cidOf(before) !== clusterId(name, config)) await removeParameterCluster(store, ROLE_NAMES, cidOf(before));
  });
}

async function remove(name: string, flags: ClustersFlags): Promise<void> {
  if (!isParameterPlace(flags.clusters)) return await removeCluster(flags.clusters, await found(name, flags));
  // A removal that failed half-way, or an addition, has left parameters of functions only (PP1).
  for (const role of ROLE_NAMES.toReversed()) {
    const entry = (await entries(flags, role)).find((each) => each.name === name);
    if (entry) return await inParameters(flags, async (store) => await removeParameterCluster(store, ROLE_NAMES, cidOf(entry)));
  }
  await found(name, flags);
}

/** Calls `act` with Parameter Store, whose connections would keep this process alive. */
async function inParameters<T>(
  { clusters }: Pick<ClustersFlags, "clusters">,
  act: (store: { readonly parameters: Parameters; readonly place: string }) => Promise<T>,
): Promise<T> {
  const parameters = parametersOf();
  try {
    return await act({ parameters, place: clusters });
  } finally {
    parameters.close();
  }
}

/** The cluster id in the name of a parameter. */
function cidOf({ file }: FolderEntry): string {
  return file.slice(file.lastIndexOf("/") + 1);
}

async function pause(name: string, flags: ClustersFlags, isPaused: boolean): Promise<void> {
  const entry = await found(name, flags);
  if (!isParameterPlace(flags.clusters)) return await setPaused(flags.clusters, name, isPaused);
  await inParameters(flags, async (store) => await pauseParameterCluster(store, ROLE_NAMES, cidOf(entry), isPaused));
}

/** Returns the entry of a cluster, which may be rejected: such a cluster can be removed and paused, too. */
async function found(name: string, flags: ClustersFlags): Promise<FolderEntry> {
  const all = await entries(flags);
  const entry = all.find((each) => each.name === name);
  if (entry) return entry;
  throw new UsageError(
    `${flags.clusters} has no cluster ${printable(name)}; it has: ${all.map((each) => printable(each.name)).join(", ") || "none"}`,
  );
}

/** Returns the clusters of a folder, or those that a role has in Parameter Store. @throws {UsageError} */
async function entries(
  { clusters, allow = [] }: Pick<ClustersFlags, "clusters"> & Partial<ClustersFlags>,
  role = serviceAccount("watcher"),
): Promise<readonly FolderEntry[]> {
  const options = { allowed: new Set(allow), resolve: hostResolver(createSystemClock()) };
  try {
    if (!isParameterPlace(clusters)) return await readFolder({ ...options, folder: clusters });
    return await inParameters({ clusters }, async (store) => await readParameterClusters({ ...options, ...store, role }));
  } catch (error) {
    throw new UsageError(
      error instanceof Error && "code" in error && error.code === "ENOENT"
        ? `--clusters ${clusters}: no such folder: \`deltaloop cluster add\` creates it`
        : `--clusters: ${messageOf(error)}`,
    );
  }
}

async function list(flags: ClustersFlags & { readonly output?: OutputFormat }): Promise<void> {
  const rows = (await entries(flags)).map((entry) => ({
    name: entry.name,
    status: entry.kind === "rejected" ? "rejected" : entry.isPaused ? "paused" : "active",
    ...(entry.kind === "vetted" ? { server: entry.server, id: entry.cid } : { problems: entry.problems }),
  }));
  for (const row of rows) process.stdout.write(flags.output ? objectText(row, flags.output) : `${textOf(row)}\n`);
  if (rows.some(({ status }) => status === "rejected")) process.exitCode = EXIT_REJECTED;
}

function textOf({ name, status, server, problems = [] }: Row): string {
  return [name, status, server ?? problems.join("; ")].map(printable).join("\t");
}

interface Row {
  readonly name: string;
  readonly status: string;
  readonly server?: string;
  readonly problems?: readonly string[];
}
