export { openClusterFolder, openClusterParameters } from "./clusters/cluster-folder.ts";
export { removeCluster, setPaused, writeCluster } from "./clusters/edit-folder.ts";
export { readFolder, vet } from "./clusters/read-folder.ts";
export type { FolderEntry } from "./clusters/read-folder.ts";
export { hostResolver } from "./clusters/resolve-host.ts";
export {
  isParameterPlace,
  pauseParameterCluster,
  readParameterClusters,
  removeParameterCluster,
  writeParameterCluster,
} from "./clusters/parameter-clusters.ts";
export type { ParameterRole } from "./clusters/parameter-clusters.ts";
