export { clusterValueText, isPausedText, parameterPath, parseClusterValue, pausedText } from "./kubeconfig/clusters/cluster-value.ts";
export type { ClusterValue, ListedValue } from "./kubeconfig/clusters/cluster-value.ts";
export { credentialKind, inlineAccess } from "./kubeconfig/clusters/inline-access.ts";
export { ALLOWANCES } from "./kubeconfig/clusters/vet.ts";
export type { Allowance } from "./kubeconfig/clusters/vet.ts";
export { LISTED_HOST } from "./kubeconfig/clusters/directory.ts";
export { vettedLookup } from "./kubeconfig/clusters/vetted-lookup.ts";
