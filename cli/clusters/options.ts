import { Option } from "commander";

import { ALLOWANCES } from "@deltaloop/kube/kubeconfig";
import type { Allowance } from "@deltaloop/kube/kubeconfig";

export interface ClustersFlags {
  readonly clusters: string;
  readonly allow: readonly Allowance[];
}

/** `--allow`, which each command repeats that reads kubeconfigs of others. */
export function allowOption(): Option {
  return new Option("--allow <what...>", "accept in kubeconfigs").choices([...ALLOWANCES]).default([]);
}
