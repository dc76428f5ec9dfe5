/** All functions of one cluster in this process. */
import type { Log } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import type { ApplierPorts } from "@deltaloop/controllers/cache";
import type { LiveConfiguration } from "@deltaloop/controllers/configuration";
import type { TraceLine } from "@deltaloop/controllers/kit";
import { connectLive, wireFunction } from "@deltaloop/controllers/lambda";
import type { Component, SharedConnections } from "@deltaloop/controllers/lambda";
import { serviceAccount, syncFunction } from "@deltaloop/controllers/registry";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { FunctionHandlers } from "@deltaloop/local";
import { SyncLog } from "@deltaloop/replay/sync-log";
import type { ReplayedSync } from "@deltaloop/replay/sync-log";
import type { Signer } from "@deltaloop/store/ports";
import type { RunningSyncs } from "../health/running-syncs.ts";
import { functionHandlers } from "../functions/functions.ts";

interface Options {
  readonly live: LiveConfiguration;
  /** Access to the API server as one role. */
  readonly accessAs: (role: string, component: string) => Promise<KubeHttpConfig>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly running: RunningSyncs;
  /** Connections to use instead of connections of this cluster alone. */
  readonly shared?: SharedConnections;
  readonly onSync: (sync: ReplayedSync) => void;
  readonly onChanges?: ApplierPorts["onChanges"];
}

export interface OpenedFunctions {
  readonly handlers: FunctionHandlers;
  /** Verifies what was signed for this cluster. */
  readonly signer: Signer;
  close(): Promise<void>;
}

/** Every function on a queue, and its component name in calls to the API server. */
const COMPONENTS: readonly (readonly [functionName: string, component: Component])[] = [
  ["apply-deltas", "apply-deltas"],
  ["dead-deltas", "dead-deltas"],
  ...CONTROLLERS.map((controller) => [syncFunction(controller), controller] as const),
];

/** Opens the functions of a cluster. @throws {UsageError} when its kubeconfig cannot be used */
export async function openFunctions({
  live,
  accessAs,
  log,
  metrics,
  running,
  shared,
  onSync,
  onChanges,
}: Options): Promise<OpenedFunctions> {
  const syncs = new SyncLog(onSync, Date.now);
  const trace = (line: TraceLine): void => {
    running.trace(live.current.cluster, line, Date.now());
    syncs.trace(line);
  };
  const accesses = await Promise.all(
    COMPONENTS.map(async ([fn, component]) => [fn, component, await accessAs(serviceAccount(fn), component)] as const),
  );
  const connections = shared && connectLive(live, log, { shared });
  const wirings = new Map(
    accesses.map(([fn, component, access]) => [
      fn,
      { ...wireFunction(component, live, { ...access, metrics }, { connections, log }), trace },
    ]),
  );
  const wiring = (functionName: string) => {
    const found = wirings.get(functionName);
    if (!found) throw new Error(`no function ${functionName}`);
    return found;
  };
  const served = wiring("apply-deltas").cluster(live.current.cluster);
  if (!served) throw new Error(`the functions do not serve cluster ${live.current.cluster}`);
  return {
    handlers: functionHandlers(wiring, (resource, items, isListed) => {
      syncs.changed(resource, items);
      onChanges?.(resource, items, isListed);
    }),
    signer: served.signer,
    close: async () => void (await Promise.all([...wirings.values()].map((each) => each.close()))),
  };
}
