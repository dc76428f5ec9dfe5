import { Option } from "commander";

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

/** The same options for a child process. */
export function clustersFlags({ clusters, allow }: ClustersFlags): readonly string[] {
  return ["--clusters", clusters, ...(allow.length === 0 ? [] : ["--allow", ...allow])];
}
