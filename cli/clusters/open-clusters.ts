import { UsageError } from "@deltaloop/base";
import { createSystemClock } from "@deltaloop/base/system";
import { directoryVariables } from "@deltaloop/controllers/clusters";
import type { Configuration, LiveConfiguration, Variables } from "@deltaloop/controllers/configuration";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import type { ClusterDirectory, ListedCluster } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";
import { serviceAccount } from "@deltaloop/controllers/registry";
import { inlineAccess, LISTED_HOST, vettedLookup } from "@deltaloop/kube/clusters";
import { hostResolver, isParameterPlace, openClusterFolder, openClusterParameters } from "@deltaloop/local/clusters";
import { createOwnFolder, readConfiguration } from "@deltaloop/local/processes";
import { cachedAmong } from "@deltaloop/store/redis";
import { createParameters } from "@deltaloop/store/secrets";
import type { Parameters } from "@deltaloop/store/secrets";
import type { ClustersFlags } from "./options.ts";

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
    allowed: new Set(allow),
    resolve: hostResolver(createSystemClock()),
    onProblem: (line: string) => report(`kubeconfig rejected: ${line}`),
    ...(store && {
      cached: async (cids: readonly string[]) => await cachedAmong(store.redis, store.deployment, cids).catch(() => undefined),
    }),
  };
  try {
    if (!isParameterPlace(place)) return await openClusterFolder({ ...options, folder: place, copies: createOwnFolder("clusters").path });
    return await openClusterParameters({ ...options, place, role: serviceAccount("watcher"), parameters: parametersOf() });
  } catch (error) {
    throw new UsageError(`--clusters: ${messageOf(error)}`);
  }
}

/** Access to a listed cluster as one role, by its vetted kubeconfig and addresses. @throws {UsageError} when the kubeconfig cannot be used */
export async function accessTo(
  { kubeconfig, inline }: Pick<ListedCluster, "kubeconfig" | "inline">,
  { allow = [] }: Partial<ClustersFlags>,
  role: string,
  component: string,
): Promise<KubeHttpConfig> {
  const access = inline ? inlineAccess(inline, { role, component }) : await kubeAccess({ kubeconfig: kubeconfig ?? "" }, role, component);
  return { ...access, lookup: vettedLookup(new Set(allow)), metricsHost: LISTED_HOST };
}

/** The configuration of a process that serves all clusters of a directory; `liveOf` makes that of one of them. */
export async function directoryConfiguration(environment: Variables = process.env): Promise<LiveConfiguration> {
  return await readConfiguration(directoryVariables(environment));
}
