/** The faults of the proof: seven of one cluster each, and those of the deployment. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { RANK_WAIT_MS } from "../../../cli/watch/nominate.ts";
import { TAKEOVER_MS_MAX, VISIBILITY_SECONDS } from "../../../shared/base/times.ts";
import type { Random } from "../../../shared/base/random.ts";
import { STILL_MS } from "../../../shared/controllers/cache/watcher/lineage.ts";
import type { Disturbance } from "../../bench/clusters/api-servers.ts";
import type { Fleet, Host } from "../../bench/clusters/stage.ts";
import { isRunning, killHard } from "../../support/e2e.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";

/** Clusters with churn; the first seven of them also fail. */
export const CHURNING = 10;
const STORM_PODS_PER_SECOND = 100;

/** One cluster of the proof. */
export interface Proved {
  readonly name: string;
  host: Host;
  /** Index in its host. */
  server: number;
  url: string;
  /** All tokens that its kubeconfig had. */
  readonly tokens: string[];
  /** Names of it and, of a clone, of the clusters that it was copied from. Its objects and canaries begin with one of them; the last is its own. */
  identities: readonly string[];
}

export interface Fault {
  readonly name: string;
  /** Absent for faults of the deployment, which all clusters must survive. */
  readonly cluster?: Proved;
  /** Documented limit from the end of the fault to a rollout in the cluster. */
  readonly boundSeconds: number;
  /** Returns, if any, the cluster that it has added. */
  begin(): Promise<Proved | undefined>;
  /** Absent when the fault ends by itself. */
  readonly end?: () => Promise<unknown>;
}

export interface FaultPorts {
  readonly fleet: Fleet;
  readonly churning: readonly Proved[];
  /** A process for new API servers. */
  readonly startServer: () => Promise<Pick<Proved, "host" | "server" | "url">>;
  readonly random: Random;
}

/** A new cluster is served within 30 s (cli/dev). */
const SERVED_SECONDS = 30;
/** The gates of 200 clusters open within 60 s. */
const GATES_SECONDS = 60;
/** A cluster loses its Lease in a longer outage; its watcher may then wait for a minute (informer §11.11). */
const LEASE_LOST_SECONDS = STILL_MS / 1_000 + SERVED_SECONDS;
/** From the renewal of rejected credentials. */
const RENEWED_SECONDS = 15;
/** The Lease of a dead watcher, a heartbeat, and the wait of the watcher with the second rank. */
const WATCHER_KILLED_SECONDS = 15 + RANK_WAIT_MS / 1_000 + 10;

export function faultsOf({ fleet, churning, startServer, random }: FaultPorts): readonly Fault[] {
  let [renewals, clones, lives] = [0, 0, 0];
  const at = (index: number): Proved => {
    const found = churning[index];
    if (found === undefined) throw new Error(`no cluster ${index}`);
    return found;
  };
  const disturb = async ({ host, server }: Proved, how: Disturbance): Promise<undefined> =>
    await host.ask({ verb: "disturb", server, how });
  const [stormy, dead, slow, recreated, expired, upgraded, cloned] = [0, 1, 2, 3, 4, 5, 6].map(at) as [
    Proved,
    Proved,
    Proved,
    Proved,
    Proved,
    Proved,
    Proved,
  ];
  const writeKubeconfig = async ({ name, url, tokens }: Proved): Promise<void> =>
    await writeFile(join(fleet.folder, name), kubeconfigOf({ server: url }, { token: tokens.at(-1) }), { mode: 0o600 });
  const watchers = (): readonly number[] =>
    Object.entries(fleet.dev.pids()).flatMap(([name, pid]) => (name.startsWith("watcher") ? [pid] : []));
  /** A process that has just exited is being restarted. */
  const kill = (pids: readonly number[]): undefined => {
    for (const pid of pids) if (isRunning(pid)) killHard(pid);
  };
  return [
    {
      ...{ name: "a storm of pods", cluster: stormy, boundSeconds: SERVED_SECONDS },
      begin: async () => await stormy.host.ask({ verb: "storm", server: stormy.server, podsPerSecond: STORM_PODS_PER_SECOND }),
      end: async () => await stormy.host.ask({ verb: "calm" }),
    },
    {
      ...{ name: "unreachable", cluster: dead, boundSeconds: LEASE_LOST_SECONDS },
      begin: async () => await disturb(dead, "unreachable"),
      end: async () => await disturb(dead, "back"),
    },
    {
      ...{ name: "answers after 10 s", cluster: slow, boundSeconds: LEASE_LOST_SECONDS },
      begin: async () => await disturb(slow, "slow"),
      end: async () => await disturb(slow, "back"),
    },
    {
      ...{ name: "deleted, and recreated under its name", cluster: recreated, boundSeconds: SERVED_SECONDS },
      async begin() {
        await rm(join(fleet.folder, recreated.name));
        return await recreated.host.ask({ verb: "end", server: recreated.server });
      },
      async end() {
        Object.assign(recreated, await startServer(), { identities: [`${recreated.name}-life${++lives}`] });
        await writeKubeconfig(recreated);
      },
    },
    {
      ...{ name: "expired credentials", cluster: expired, boundSeconds: RENEWED_SECONDS },
      begin: async () => await expired.host.ask({ verb: "expire", server: expired.server, token: expired.tokens.at(-1) ?? "" }),
      async end() {
        expired.tokens.push(`${expired.name}-renewed-${++renewals}`);
        await writeKubeconfig(expired);
      },
    },
    {
      ...{ name: "upgraded", cluster: upgraded, boundSeconds: SERVED_SECONDS },
      begin: async () => await disturb(upgraded, "old"),
      end: async () => await disturb(upgraded, "upgraded"),
    },
    {
      ...{ name: "cloned", cluster: cloned, boundSeconds: LEASE_LOST_SECONDS },
      async begin() {
        const { url, server } = await cloned.host.ask({ verb: "copy", server: cloned.server });
        const name = `clone-${++clones}`;
        const clone: Proved = { ...{ name, url, server }, host: cloned.host, tokens: [name], identities: [...cloned.identities, name] };
        await writeKubeconfig(clone);
        return clone;
      },
    },
    {
      ...{ name: "a watcher is killed", boundSeconds: WATCHER_KILLED_SECONDS },
      begin: async () => await Promise.resolve(kill(watchers().slice(...(random.next() < 0.5 ? [0, 1] : [1, 2])))),
    },
    {
      ...{ name: "both watchers are killed", boundSeconds: WATCHER_KILLED_SECONDS + GATES_SECONDS },
      begin: async () => await Promise.resolve(kill(watchers())),
    },
    {
      ...{ name: "the functions are killed", boundSeconds: Math.max(TAKEOVER_MS_MAX / 1_000, VISIBILITY_SECONDS.deltas) },
      begin: async () => await Promise.resolve(kill([fleet.dev.pids()["functions"] ?? 0])),
    },
    {
      ...{ name: "Redis is restarted empty", boundSeconds: GATES_SECONDS },
      async begin() {
        await fleet.redis.restart();
        return undefined;
      },
    },
  ];
}
