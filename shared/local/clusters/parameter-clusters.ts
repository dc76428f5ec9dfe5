/**
 * The directory of clusters in Parameter Store: one SecureString for each cluster and role, `<prefix>/<role>/<cluster id>`. IAM limits each
 * function and the watcher to the path of its role.
 *
 * PP1 a value is a JSON text with the cluster's name, whether it is paused, and a kubeconfig with the credentials of this role only.
 * PP2 a value counts only for the cluster id in its name, which is a hash of the cluster's name, server and CA (KD1). So credentials are
 *     used for the server and CA that they came with, even if another client can write parameters.
 * PP3 the functions' parameters are written before the watcher's and removed after it: the watcher's is what makes a cluster served.
 */
import * as v from "valibot";

import { clusterId, isClusterName, kubeconfigText, parseKubeconfig } from "@deltaloop/kube/kubeconfig";
import type { Kubeconfig } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";
import type { Parameters } from "@deltaloop/store/secrets";
import { rejectRepeated, vet } from "./read-folder.ts";
import type { FolderEntry, FolderOptions } from "./read-folder.ts";

/** What marks a place of clusters as a prefix of parameters. */
const SCHEME = "ssm:";
const PREFIX = /^ssm:(\/[\w.-]+)+$/;
const Value = v.strictObject({ name: v.string(), paused: v.boolean(), kubeconfig: v.string() });

export interface ParameterOptions extends Omit<FolderOptions, "folder" | "parsed"> {
  readonly parameters: Parameters;
  /** `ssm:/deltaloop/prod/clusters`. */
  readonly place: string;
  readonly role: string;
  /** Values as last read, by parameter, so that an unchanged one is not decrypted again. */
  readonly known?: Map<string, { readonly version: number; readonly text: string }>;
}

/** Whether clusters are in Parameter Store, not in a folder. */
export function isParameterPlace(place: string): boolean {
  return place.startsWith(SCHEME);
}

/** Reads the clusters of one role. @throws {Error} if the path cannot be read; a bad value is a rejected entry */
export async function readParameterClusters(options: ParameterOptions): Promise<readonly FolderEntry[]> {
  const { parameters, place, role, known = new Map() } = options;
  const path = pathOf(place, role);
  const versions = await parameters.versions(path);
  const changed = [...versions].filter(([name, version]) => known.get(name)?.version !== version).map(([name]) => name);
  for (const [name, text] of await parameters.values(changed)) known.set(name, { version: versions.get(name) ?? 0, text });
  for (const name of known.keys()) if (!versions.has(name)) known.delete(name);
  const entries = [...known].map(async ([name, { text }]) => await entryOf(name, text, options));
  return await rejectRepeated(
    (await Promise.all(entries)).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    options.served,
  );
}

async function entryOf(parameter: string, text: string, options: ParameterOptions): Promise<FolderEntry> {
  const cid = parameter.slice(parameter.lastIndexOf("/") + 1);
  const rejected = (name: string, isPaused: boolean, ...problems: readonly string[]): FolderEntry => ({
    ...{ kind: "rejected", name, file: parameter, isPaused },
    problems: problems.map((problem) => `${parameter}: ${problem}`),
  });
  const value = valueOf(text);
  if (value === undefined) return rejected(cid, false, "is not a cluster's value: write it with deltaloop cluster add");
  const { name, paused: isPaused } = value;
  try {
    if (!isClusterName(name)) return rejected(cid, isPaused, "its name is not a DNS label");
    const config = parseKubeconfig(Buffer.from(value.kubeconfig), parameter);
    const problems = await vet(config, options);
    if (problems.length > 0) return rejected(name, isPaused, ...problems);
    if (clusterId(name, config) !== cid) return rejected(cid, isPaused, "is the value of another cluster: its name, server or CA differ"); // PP2: nor does it take the name
    return { kind: "vetted", name, file: parameter, cid, server: config.clusters[0]?.cluster.server ?? "", config, isPaused };
  } catch (error) {
    return rejected(name, isPaused, messageOf(error));
  }
}

function valueOf(text: string): v.InferOutput<typeof Value> | undefined {
  try {
    return v.parse(Value, JSON.parse(text));
  } catch {
    return undefined; // the error would quote the value
  }
}

/** Writes a cluster for each role. A context named after a role selects its user; the others get the current context's. */
export async function writeParameterCluster(
  { parameters, place }: Pick<ParameterOptions, "parameters" | "place">,
  roles: readonly string[],
  { name, config, isPaused }: { readonly name: string; readonly config: Kubeconfig; readonly isPaused: boolean },
): Promise<void> {
  const cid = clusterId(name, config);
  for (const role of watcherLast(roles)) {
    const value = { name, paused: isPaused, kubeconfig: kubeconfigText(ofRole(config, role)) };
    await parameters.put(`${pathOf(place, role)}/${cid}`, JSON.stringify(value)); // PP3
  }
}

export async function removeParameterCluster(
  { parameters, place }: Pick<ParameterOptions, "parameters" | "place">,
  roles: readonly string[],
  cid: string,
): Promise<void> {
  for (const role of watcherLast(roles).toReversed()) await parameters.remove([`${pathOf(place, role)}/${cid}`]); // PP3
}

/** Pauses or resumes a cluster for each role that has it. */
export async function pauseParameterCluster(
  { parameters, place }: Pick<ParameterOptions, "parameters" | "place">,
  roles: readonly string[],
  cid: string,
  paused: boolean,
): Promise<void> {
  const names = watcherLast(roles).map((role) => `${pathOf(place, role)}/${cid}`);
  const values = await parameters.values(names);
  for (const name of names) {
    const value = valueOf(values.get(name) ?? "");
    if (value !== undefined && value.paused !== paused) await parameters.put(name, JSON.stringify({ ...value, paused }));
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

/** @throws {Error} for an invalid place */
function pathOf(place: string, role: string): string {
  if (!PREFIX.test(place)) throw new Error(`${place}: write ssm:/PATH`);
  return `${place.slice(SCHEME.length)}/${role}`;
}

function watcherLast(roles: readonly string[]): readonly string[] {
  return roles.toSorted((a, b) => Number(a.endsWith("watcher")) - Number(b.endsWith("watcher")));
}
