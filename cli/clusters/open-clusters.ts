import { UsageError } from "@deltaloop/base";
import { createSystemClock } from "@deltaloop/base/system";
import type { LiveConfiguration, Variables } from "@deltaloop/controllers/configuration";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import type { ClusterDirectory, ListedCluster } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";
import { hostResolver, openClusterFolder, vettedLookup } from "@deltaloop/local/clusters";
import { createOwnFolder, readConfiguration } from "@deltaloop/local/processes";
import type { ClustersFlags } from "./options.ts";

/** Stands for the cluster in the configuration of a process that serves all clusters of a directory. */
export const NO_CLUSTER: Pick<ListedCluster, "cid" | "server"> = { cid: "0".repeat(32), server: "https://none.invalid" };

/** `report` gets each problem of a file as one line. @throws {UsageError} when the folder cannot be read */
export async function openClusters(
  { clusters, allow = [] }: Partial<ClustersFlags>,
  report: (line: string) => void,
): Promise<ClusterDirectory> {
  try {
    return await openClusterFolder({
      folder: clusters ?? "",
      copies: createOwnFolder("clusters").path,
      allowed: new Set(allow),
      resolve: hostResolver(createSystemClock()),
      onProblem: (line) => report(`kubeconfig rejected: ${line}`),
    });
  } catch (error) {
    throw new UsageError(`--clusters: ${messageOf(error)}`);
  }
}

/** Access to a listed cluster as one role, by its vetted kubeconfig and addresses. @throws {UsageError} when the kubeconfig cannot be used */
export async function accessTo(
  { kubeconfig }: Pick<ListedCluster, "kubeconfig">,
  { allow = [] }: Partial<ClustersFlags>,
  role: string,
  component: string,
): Promise<KubeHttpConfig> {
  return { ...(await kubeAccess({ kubeconfig }, role, component)), lookup: vettedLookup(new Set(allow)) };
}

/** The configuration of one cluster: that of the process, with the cluster's id and server. */
export async function configurationOf(
  { cid, server }: typeof NO_CLUSTER,
  environment: Variables = process.env,
): Promise<LiveConfiguration> {
  return await readConfiguration({ ...environment, DELTALOOP_CLUSTER: cid, DELTALOOP_KUBE_SERVER: server });
}
