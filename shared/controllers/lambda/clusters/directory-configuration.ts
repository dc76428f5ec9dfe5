/** The configuration of a process that serves all clusters of a directory. */
import { ALLOWANCES } from "@deltaloop/kube/clusters";
import type { Allowance } from "@deltaloop/kube/clusters";
import { ConfigurationError } from "../configuration.ts";
import type { Configuration, Variables } from "../configuration.ts";
import type { LiveConfiguration } from "../live-configuration.ts";

/** Stands for the cluster in such a configuration. */
export const NO_CLUSTER = { cid: "0".repeat(32), server: "https://none.invalid" } as const;

const [PLACE, ALLOW] = ["DELTALOOP_CLUSTERS", "DELTALOOP_CLUSTERS_ALLOW"] as const;

export interface DirectoryPlace {
  /** `ssm:/deltaloop/prod/clusters`, or a folder. */
  readonly place: string;
  readonly allowed: readonly Allowance[];
}

/** Returns where the clusters are; undefined for a deployment that serves one cluster. @throws {ConfigurationError} for an unknown allowance */
export function directoryIn(environment: Variables): DirectoryPlace | undefined {
  const place = environment[PLACE];
  if (!place) return undefined;
  const names = (environment[ALLOW] ?? "").split(",").filter((name) => name !== "");
  const allowed = ALLOWANCES.filter((each) => names.includes(each));
  if (allowed.length < names.length) throw new ConfigurationError([`${ALLOW}: must be some of ${ALLOWANCES.join(", ")}`]);
  return { place, allowed };
}

/** The variables that `directoryIn` reads. */
export function directoryEnvironment({ place, allowed }: DirectoryPlace): Readonly<Record<string, string>> {
  return { [PLACE]: place, ...(allowed.length > 0 && { [ALLOW]: allowed.join(",") }) };
}

/** An environment without the variables of the directory, which parseConfiguration does not know, and of one cluster. */
export function directoryVariables(environment: Variables): Variables {
  const kept = Object.entries(environment).filter(([name]) => name !== PLACE && name !== ALLOW && !name.startsWith("DELTALOOP_KUBE_"));
  return { ...Object.fromEntries(kept), DELTALOOP_CLUSTER: NO_CLUSTER.cid, DELTALOOP_KUBE_SERVER: NO_CLUSTER.server };
}

/** The configuration of one cluster: that of the process, with the cluster's id and server. */
export function liveOf(live: LiveConfiguration, { cid, server }: { readonly cid: string; readonly server: string }): LiveConfiguration {
  let made: { readonly of: Configuration; readonly own: Configuration } | undefined;
  const own = (of: Configuration): Configuration => {
    if (made?.of !== of) made = { of, own: { ...of, cluster: cid, kube: { server } } };
    return made.own;
  };
  return {
    get current() {
      return own(live.current);
    },
    fresh: async () => own(await live.fresh()),
    renew: async (cause) => await live.renew(cause),
  };
}
