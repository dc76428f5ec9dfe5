/**
 * The directory of clusters in Parameter Store: one SecureString for each cluster and role, `<prefix>/<role>/<cluster id>`. IAM limits each
 * function and the watcher to the path of its role. `@deltaloop/kube/clusters` describes the values.
 *
 * PP1 the functions' parameters are written before the watcher's and removed after it: the watcher's is what makes a cluster served.
 * PP2 a role without rights in clusters gets a value without credentials, so that all functions find their clusters in the same way.
 * PP3 Parameter Store has no conditional write. A write that replaced another version than the one it was made of is made again of that one,
 *     so that a pause and renewed credentials of two operators both last. A cluster that was removed meanwhile stays removed.
 */
import { clusterValueText, isPausedText, parameterPath, parseClusterValue, pausedText } from "@deltaloop/kube/clusters";
import type { ClusterValue, ListedValue } from "@deltaloop/kube/clusters";
import { clusterId } from "@deltaloop/kube/kubeconfig";
import type { Kubeconfig } from "@deltaloop/kube/kubeconfig";
import { SecretError } from "@deltaloop/store/ports";
import { batches, numberOf } from "@deltaloop/store/secrets";
import type { Parameters } from "@deltaloop/store/secrets";
import { rejectRepeated, vetAddress } from "./read-folder.ts";
import type { FolderEntry, FolderOptions } from "./read-folder.ts";

/** What marks a place of clusters as a prefix of parameters. */
const SCHEME = "ssm:";

export interface ParameterOptions extends Omit<FolderOptions, "folder" | "parsed"> {
  readonly parameters: Parameters;
  /** `ssm:/deltaloop/prod/clusters`. */
  readonly place: string;
  readonly role: string;
  /** Values as last read, by parameter, so that an unchanged one is neither decrypted nor parsed again. */
  readonly known?: Map<string, KnownValue>;
}

interface KnownValue {
  readonly version: string;
  readonly value: ReturnType<typeof parseClusterValue>;
}

export interface ParameterRole {
  readonly name: string;
  readonly hasCredentials: boolean;
}

/** Whether clusters are in Parameter Store, not in a folder. */
export function isParameterPlace(place: string): boolean {
  return place.startsWith(SCHEME);
}

/** Reads the clusters of one role. @throws {Error} if the path cannot be read; a bad value is a rejected entry */
export async function readParameterClusters(options: ParameterOptions): Promise<readonly FolderEntry[]> {
  const { parameters, place, role, allowed, known = new Map<string, KnownValue>() } = options;
  const path = parameterPath(place, role);
  const versions = await parameters.versions(path);
  const changed = [...versions].filter(([name, version]) => known.get(name)?.version !== version).map(([name]) => name);
  for (const batch of batches(changed))
    for (const [name, found] of await parameters.values(batch))
      known.set(
        name,
        found instanceof SecretError
          ? unreadable(name, found, known.get(name))
          : { version: found.version, value: parseClusterValue(found.text, cidIn(name), allowed) },
      );
  for (const name of known.keys()) if (!versions.has(name)) known.delete(name);
  const entries = [...known].map(async ([name, { value }]) => await entryOf(name, value, options));
  return await rejectRepeated(
    (await Promise.all(entries)).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    options.served,
  );
}

/** A value that cannot be decrypted is rejected, and read again the next time. */
function unreadable(parameter: string, { problems }: SecretError, former: KnownValue | undefined): KnownValue {
  const { name = cidIn(parameter), isPaused = false } = former?.value ?? {};
  const own = problems.map((problem) => problem.replace(`ssm:${parameter}: `, ""));
  return { version: "", value: { kind: "rejected", name, isPaused, problems: own } };
}

async function entryOf(file: string, value: KnownValue["value"], options: ParameterOptions): Promise<FolderEntry> {
  const { name, isPaused } = value;
  const problems = value.kind === "rejected" ? value.problems : await vetAddress(value.config, options);
  if (problems.length > 0) return { kind: "rejected", name, file, isPaused, problems: problems.map((problem) => `${file}: ${problem}`) };
  return { ...(value as ListedValue), kind: "vetted", file }; // a rejected value has problems
}

/** The cluster id in the name of a parameter. */
function cidIn(parameter: string): string {
  return parameter.slice(parameter.lastIndexOf("/") + 1);
}

/**
 * Writes a cluster for each role. A context named after a role selects its user; the others get the current context's. A cluster that is
 * written again stays paused or not as it was.
 */
export async function writeParameterCluster(
  { parameters, place }: Pick<ParameterOptions, "parameters" | "place">,
  roles: readonly ParameterRole[],
  { config, ...cluster }: ClusterValue,
): Promise<void> {
  const cid = clusterId(cluster.name, config);
  for (const { name: role, hasCredentials } of watcherLast(roles, ({ name }) => name)) {
    const own = ofRole(config, role);
    const value = { ...cluster, config: hasCredentials ? own : withoutUsers(own) };
    await edit(parameters, `${parameterPath(place, role)}/${cid}`, (former) =>
      clusterValueText({ ...value, isPaused: isPausedText(former) ?? cluster.isPaused }),
    ); // PP1
  }
}

export async function removeParameterCluster(
  { parameters, place }: Pick<ParameterOptions, "parameters" | "place">,
  roles: readonly string[],
  cid: string,
): Promise<void> {
  for (const role of watcherLast(roles, (name) => name).toReversed()) await parameters.remove([`${parameterPath(place, role)}/${cid}`]); // PP1
}

/** Pauses or resumes a cluster for each role that has it. A text that is no value is left as it is. @throws {SecretError} */
export async function pauseParameterCluster(
  { parameters, place }: Pick<ParameterOptions, "parameters" | "place">,
  roles: readonly string[],
  cid: string,
  isPaused: boolean,
): Promise<void> {
  const names = watcherLast(roles, (name) => name).map((role) => `${parameterPath(place, role)}/${cid}`);
  const values = await parameters.values(names);
  for (const found of values.values()) if (found instanceof SecretError) throw found;
  for (const name of names) await edit(parameters, name, (former) => pausedText(former, isPaused));
}

/** Writes what `textOf` makes of the former text, if it makes one (PP3). A text that cannot be decrypted is replaced like none. */
async function edit(parameters: Parameters, name: string, textOf: (former: string) => string | undefined): Promise<void> {
  const found = (await parameters.values([name])).get(name);
  let text = textOf(found instanceof SecretError ? "" : (found?.text ?? ""));
  let madeOf = found === undefined ? 0 : found instanceof SecretError ? undefined : numberOf(found.version);
  while (text !== undefined) {
    const version = await parameters.put(name, text);
    if (madeOf === undefined || version === madeOf + 1) return;
    if (version === 1) return textOf("") === undefined ? await parameters.remove([name]) : undefined; // it was removed meanwhile
    const replaced = await parameters.formerValue(name, version - 1);
    text = textOf(replaced ?? "") ?? replaced; // what was replaced returns, even if nothing is to be changed in it
    madeOf = version;
  }
}

/** The kubeconfig with one context and its user. */
function ofRole({ clusters, users, contexts, "current-context": current }: Kubeconfig, role: string): Kubeconfig {
  const chosen = contexts.find(({ name }) => name === role) ?? contexts.find(({ name }) => name === current);
  return {
    clusters,
    users: users.filter(({ name }) => name === chosen?.context.user),
    contexts: chosen === undefined ? [] : [chosen],
    "current-context": chosen?.name ?? current,
  };
}

/** PP2. The context stays, because a kubeconfig without one is not valid. */
function withoutUsers({ contexts, ...config }: Kubeconfig): Kubeconfig {
  return { ...config, users: [], contexts: contexts.map((each) => ({ ...each, context: { ...each.context, user: "" } })) };
}

function watcherLast<R>(roles: readonly R[], nameOf: (role: R) => string): readonly R[] {
  const isWatcher = (role: R): number => Number(nameOf(role).endsWith("watcher"));
  return roles.toSorted((a, b) => isWatcher(a) - isWatcher(b));
}
