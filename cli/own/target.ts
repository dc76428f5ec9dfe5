/** The API server on which `dev` runs user controllers: a cluster, or the in-memory API server (embedded.ts). */
import type { Log } from "@deltaloop/base";
import { UsageError } from "@deltaloop/base";
import { readClusterIdentity } from "@deltaloop/kube/client";
import { createClient, kubeOver } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import type { KubeFlags } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";
import type { Definition } from "@deltaloop/sdk/definitions";
import { readApiServer } from "../cluster/api-server.ts";
import { unsupported } from "../cluster/kubernetes-versions.ts";
import { starting } from "../cluster/startup.ts";
import type { StartupFlags } from "../cluster/startup.ts";
import { isClusterAdmin, kindProblems, missingRights, writtenBy } from "./cluster.ts";

export type ClusterIdentity = Awaited<ReturnType<typeof readClusterIdentity>>;

export interface OwnTarget {
  readonly access: Omit<KubeHttpConfig, "component">;
  readonly act: boolean;
  /** Makes or checks everything that the controllers need. @throws {UsageError} with one line for each problem */
  prepare(definitions: readonly Definition[]): Promise<ClusterIdentity>;
  stop(): Promise<void>;
}

export interface ClusterFlags extends StartupFlags {
  readonly kube: KubeFlags;
  readonly act: boolean;
  readonly yes: boolean;
  readonly anyKubernetes: boolean;
}

/** Connects to a cluster. @throws {UsageError} if it cannot be used */
export async function clusterTarget(flags: ClusterFlags, log: Log): Promise<OwnTarget> {
  const { act, yes, anyKubernetes } = flags;
  const access = await kubeAccess(flags.kube, "deltaloop-own", "own");
  const client = starting(createClient(access), access.server, flags, log);
  const unusable = (error: unknown): never => {
    throw new UsageError(`${access.server} cannot be used: ${messageOf(error)}`);
  };
  const { gitVersion } = await readApiServer(client).catch(unusable);
  const why = unsupported(gitVersion);
  if (why !== undefined && act && !anyKubernetes) throw new UsageError(`${why}. To act anyway, add --any-kubernetes`);
  if (why !== undefined) log.warn(why);
  return {
    access,
    act,
    async prepare(definitions) {
      // First, because the other calls need some of these permissions.
      const missing = await missingRights(client, definitions, act).catch(unusable);
      if (missing.length > 0)
        throw new UsageError(
          missing.map((right) => `missing permission: ${right}: grant what \`deltaloop manifests FILE\` prints`).join("\n"),
        );
      const cluster = await readClusterIdentity(kubeOver(client)).catch(unusable);
      const problems = await kindProblems(client, definitions).catch(unusable);
      if (problems.length > 0) throw new UsageError(problems.join("\n"));
      if (!act) return cluster;
      for (const definition of definitions) for (const what of writtenBy(definition)) log.info(`${definition.name} may: ${what}`);
      if (!yes && (await isClusterAdmin(client).catch(unusable)))
        throw new UsageError(
          "these credentials may do everything in the cluster: use those of a service account that `manifests` prints, or add --yes",
        );
      return cluster;
    },
    stop: () => Promise.resolve(),
  };
}
