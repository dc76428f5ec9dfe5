export { createClusterValues } from "./lambda/clusters/cluster-values.ts";
export type { ClusterValues } from "./lambda/clusters/cluster-values.ts";
export { deployedQueue, deployedSchedule } from "./lambda/clusters/deployed-for-clusters.ts";
export { directoryEnvironment, directoryIn, directoryVariables, liveOf, NO_CLUSTER } from "./lambda/clusters/directory-configuration.ts";
export { claimOfDoorbell, routeRecords } from "./lambda/clusters/route-records.ts";
export type { LoadKind } from "./lambda/clusters/route-records.ts";
