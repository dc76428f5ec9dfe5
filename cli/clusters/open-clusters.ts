import { UsageError } from "@deltaloop/base";
import { createSystemClock } from "@deltaloop/base/system";
import type { Configuration, LiveConfiguration, Variables } from "@deltaloop/controllers/configuration";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import type { ClusterDirectory, ListedCluster } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";
import { serviceAccount } from "@deltaloop/controllers/registry";
import { hostResolver, isParameterPlace, openClusterFolder, openClusterParameters, vettedLookup } from "@deltaloop/local/clusters";
import { createOwnFolder, readConfiguration } from "@deltaloop/local/processes";
import { cachedAmong } from "@deltaloop/store/redis";
import { createParameters } from "@deltaloop/store/secrets";
import type { Parameters } from "@deltaloop/store/secrets";
import type { ClustersFlags } from "./options.ts";

/** Stands for the cluster in the configuration of a process that serves all clusters of a directory. */
export const NO_CLUSTER: Pick<ListedCluster, "cid" | "server"> = { cid: "0".repeat(32), server: "https://none.invalid" };

/** Parameter Store at DELTALOOP_SECRETS_ENDPOINT, which is that of AWS by default. */
export function parametersOf(): Parameters {
  const endpoint = process.env["DELTALOOP_SECRETS_ENDPOINT"];
  return createParameters(endpoint === undefined || endpoint === "" ? {} : { endpoint });
}

/**
 * `report` gets each problem of a file as one line. `store` decides between entries with one server.
 *
 * @throws {UsageError} when the folder cannot be read
 */
export async function openClusters(
  { clusters, allow = [] }: Partial<ClustersFlags>,
  report: (line: string) => void,
  store?: Pick<Configuration, "redis" | "deployment">,
): Promise<ClusterDirectory> {
  const place = clusters ?? "";
  const options = {
    copies: createOwnFolder("clusters").path,
    allowed: new Set(allow),
    resolve: hostResolver(createSystemClock()),
    onProblem: (line: string) => report(`kubeconfig rejected: ${line}`),
    ...(store && {
      cached: async (cids: readonly string[]) => await cachedAmong(store.redis, store.deployment, cids).catch(() => undefined),
    }),
  };
  try {
    if (!isParameterPlace(place)) return await openClusterFolder({ ...options, folder: place });
    return await openClusterParameters({ ...options, place, role: serviceAccount("watcher"), parameters: parametersOf() });
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
