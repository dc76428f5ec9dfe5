import { resolve } from "node:path";

import { Option } from "commander";

import { directoryIn } from "@deltaloop/controllers/clusters";
import type { Variables } from "@deltaloop/controllers/configuration";
import { ALLOWANCES } from "@deltaloop/kube/kubeconfig";
import type { Allowance } from "@deltaloop/kube/kubeconfig";

export interface ClustersFlags {
  readonly clusters: string;
  readonly allow: readonly Allowance[];
}

export function clustersOption(): Option {
  return new Option("--clusters <dir>", "folder of kubeconfigs, NAME.yaml, or ssm:/PATH");
}

/** `--allow`, an option of every command that reads kubeconfigs of other users. */
export function allowOption(): Option {
  return new Option("--allow <what...>", "accept in kubeconfigs").choices([...ALLOWANCES]).default([]);
}

/**
 * Returns the clusters that the options name, or otherwise the watcher's environment; undefined for a deployment that serves one cluster.
 * The environment's allowances apply to its own directory only.
 *
 * @throws {ConfigurationError} for an unknown allowance
 */
export function clustersOf({ clusters, allow = [] }: Partial<ClustersFlags>, environment: Variables): ClustersFlags | undefined {
  const served = directoryIn(environment);
  const place = clusters ?? served?.place;
  if (place === undefined) return undefined;
  const isServed = served !== undefined && resolve(served.place) === resolve(place);
  return { clusters: place, allow: allow.length === 0 && isServed ? served.allowed : allow };
}

/** The same options for a child process. */
export function clustersFlags({ clusters, allow }: ClustersFlags): readonly string[] {
  return ["--clusters", clusters, ...(allow.length === 0 ? [] : ["--allow", ...allow])];
}
