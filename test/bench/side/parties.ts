/** The compared systems, as processes whose resource usage is measured separately. */
import { ROOT, deltaloop, OWN_NAMESPACE } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { cpuSeconds, memoryMiB } from "../process-usage.ts";
import { bundleCli } from "../../../infra/build/bundle.ts";
import { join } from "node:path";

export type PartyName = "ours" | "upstream" | "before";

/** A running system. */
export interface AtWork {
  /** Process ids: functions and watcher; for upstream, the controller manager, which runs only the three workload controllers. */
  readonly own: Readonly<Record<string, number>>;
  /** Process ids of the stand-ins for AWS: queue and Redis. */
  readonly standIns: Readonly<Record<string, number>>;
  /** The steps of its start until now, by `performance.now()`. */
  readonly milestones: readonly { readonly what: string; readonly atMs: number }[];
  stop(): Promise<unknown>;
}

export interface Party {
  readonly name: PartyName;
  /** Prefixes of the system's user names in the audit log. */
  readonly users: readonly string[];
  /** Resolves as soon as its processes run; their initial reads are part of the measurement. */
  readonly launch: () => Promise<AtWork>;
  /** Resolves when it is ready for events. */
  readonly start: () => Promise<AtWork>;
}

/** Raises upstream's client limits, because our functions have none. */
const NO_LIMITS = { qps: 5_000, burst: 5_000 };
/** Upstream does not report when its caches have synced; that takes about a second unless there are very many objects. */
const UPSTREAM_READY_MS = 4_000;

/** Texts in the output of `dev`. */
const STEPS_OF_START = ["cluster ", "redis started", "queue started", "functions started", "watcher started", "ready:"];

interface Started {
  readonly dev: ReturnType<typeof deltaloop>;
  readonly milestones: AtWork["milestones"];
}

export interface PartyOptions {
  /** The folder into which each of our processes writes a CPU profile. */
  readonly profiles?: string | undefined;
  /** Our main file, if it is not the bundled command. */
  readonly main?: string | undefined;
  /** Further variables of our environment. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** The main file of another deltaloop version, which then runs as well. */
  readonly before?: string | undefined;
}

/** The compared systems, all on one control plane whose own three workload controllers are off. */
export async function partiesOn(cluster: Cluster, { profiles, before, main, environment }: PartyOptions = {}): Promise<readonly Party[]> {
  const program = join(ROOT, "dist", "cli");
  await bundleCli(ROOT, program);
  const identity = await cluster.plane.clientCertificate("system:kube-controller-manager", []);
  const startDev = (main: string): Started => {
    const dev = deltaloop(
      ["dev", "--act", "--kubeconfig", cluster.rolesKubeconfig, "--lease-namespace", OWN_NAMESPACE],
      { ...environment, ...(profiles !== undefined && { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profiles}` }) },
      main,
    );
    const milestones: { what: string; atMs: number }[] = [];
    for (const what of STEPS_OF_START)
      dev.line(what).then(
        () => milestones.push({ what, atMs: performance.now() }),
        () => undefined, // it has ended
      );
    return { dev, milestones };
  };
  const running = ({ dev, milestones }: Started): AtWork => {
    const { functions = 0, watcher = 0, ...standIns } = dev.pids();
    return { own: { functions, watcher }, standIns, milestones, stop: () => dev.stop() };
  };
  const launchLoops = async (): Promise<AtWork> => {
    const stop = await cluster.plane.startWorkloadLoops({ server: cluster.plane.url, identity, kubeApi: NO_LIMITS, isReadable: false });
    const { "workload-loops": pid = 0 } = cluster.plane.pids();
    return { own: { "kube-controller-manager": pid }, standIns: {}, milestones: [], stop };
  };
  const dev = (name: PartyName, main: string): Party => ({
    name,
    users: [`system:serviceaccount:${OWN_NAMESPACE}:`],
    launch: async () => {
      const started = startDev(main);
      await started.dev.line("watcher started");
      return running(started);
    },
    start: async () => {
      const started = startDev(main);
      await started.dev.line("ready:");
      return running(started);
    },
  });
  return [
    dev("ours", main ?? join(program, "deltaloop.js")),
    {
      name: "upstream",
      users: ["deployment", "replicaset", "replication"].map((name) => `system:serviceaccount:kube-system:${name}-controller`),
      launch: launchLoops,
      start: async () => {
        const loops = await launchLoops();
        await new Promise((resolve) => setTimeout(resolve, UPSTREAM_READY_MS));
        return loops;
      },
    },
    ...(before === undefined ? [] : [dev("before", before)]),
  ];
}

/** User plus system time so far, in seconds, by process. */
export async function cpuOf({ own, standIns }: AtWork): Promise<Readonly<Record<string, number>>> {
  const entries = Object.entries({ ...own, ...standIns }).map(async ([name, pid]) => [name, await cpuSeconds(pid)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

/** Proportional set size (PSS) in MiB, by process. */
export async function memoryOf({ own, standIns }: AtWork): Promise<Readonly<Record<string, number>>> {
  const entries = Object.entries({ ...own, ...standIns }).map(async ([name, pid]) => [name, (await memoryMiB(pid)).pss] as const);
  return Object.fromEntries(await Promise.all(entries));
}
