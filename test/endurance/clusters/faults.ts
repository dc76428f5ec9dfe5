/** The faults of the proof: seven of one cluster each, three of the deployment. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Fleet, Host } from "../../bench/clusters/stage.ts";
import { killHard } from "../../support/e2e.ts";
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
  /** Prefixes of the names of its own objects. */
  readonly prefixes: string[];
}

export interface Fault {
  readonly name: string;
  /** Absent for faults of the deployment. */
  readonly cluster?: Proved;
  begin(): Promise<unknown>;
  /** Absent when the fault ends by itself. */
  readonly end?: () => Promise<unknown>;
}

export interface FaultPorts {
  readonly fleet: Fleet;
  readonly churning: readonly Proved[];
  /** A process for new API servers. */
  readonly startServer: () => Promise<Pick<Proved, "host" | "server" | "url">>;
  readonly onClone: (clone: Proved) => void;
}

export function faultsOf({ fleet, churning, startServer, onClone }: FaultPorts): readonly Fault[] {
  let renewals = 0;
  let clones = 0;
  const at = (index: number): Proved => {
    const found = churning[index];
    if (found === undefined) throw new Error(`no cluster ${index}`);
    return found;
  };
  const disturb = async ({ host, server }: Proved, how: "unreachable" | "slow" | "old" | "upgraded" | "back"): Promise<void> =>
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
  return [
    {
      ...{ name: "a storm of pods", cluster: stormy },
      begin: async () => await stormy.host.ask({ verb: "storm", server: stormy.server, podsPerSecond: STORM_PODS_PER_SECOND }),
      end: async () => await stormy.host.ask({ verb: "calm" }),
    },
    {
      ...{ name: "unreachable", cluster: dead },
      begin: async () => await disturb(dead, "unreachable"),
      end: async () => await disturb(dead, "back"),
    },
    {
      ...{ name: "answers after 10 s", cluster: slow },
      begin: async () => await disturb(slow, "slow"),
      end: async () => await disturb(slow, "back"),
    },
    {
      ...{ name: "deleted, and recreated under its name", cluster: recreated },
      async begin() {
        await rm(join(fleet.folder, recreated.name));
        await recreated.host.ask({ verb: "end", server: recreated.server });
      },
      async end() {
        Object.assign(recreated, await startServer());
        await writeKubeconfig(recreated);
      },
    },
    {
      ...{ name: "expired credentials", cluster: expired },
      begin: async () => await expired.host.ask({ verb: "expire", server: expired.server, token: expired.tokens.at(-1) ?? "" }),
      async end() {
        expired.tokens.push(`${expired.name}-renewed-${++renewals}`);
        await writeKubeconfig(expired);
      },
    },
    {
      ...{ name: "upgraded", cluster: upgraded },
      begin: async () => await disturb(upgraded, "old"),
      end: async () => await disturb(upgraded, "upgraded"),
    },
    {
      ...{ name: "cloned", cluster: cloned },
      async begin() {
        const { url, server } = await cloned.host.ask({ verb: "copy", server: cloned.server });
        const name = `clone-${++clones}`;
        const clone: Proved = { ...{ name, url, server }, host: cloned.host, tokens: [name], prefixes: [...cloned.prefixes, `${name}-`] };
        onClone(clone);
        await writeKubeconfig(clone);
      },
    },
    { name: "the watcher is killed", begin: async () => await Promise.resolve(killHard(fleet.dev.pids()["watcher"])) },
    { name: "the functions are killed", begin: async () => await Promise.resolve(killHard(fleet.dev.pids()["functions"])) },
    { name: "Redis is restarted empty", begin: async () => await fleet.redis.restart() },
  ];
}
