/** All functions of one cluster in this process. */
import type { Log } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import { printable } from "@deltaloop/base/output";
import type { LiveConfiguration } from "@deltaloop/controllers/configuration";
import type { TraceLine } from "@deltaloop/controllers/kit";
import { connectLive, wireFunction } from "@deltaloop/controllers/lambda";
import type { Component, SharedConnections } from "@deltaloop/controllers/lambda";
import { serviceAccount, syncFunction } from "@deltaloop/controllers/registry";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { FunctionHandlers } from "@deltaloop/local";
import { SyncLog } from "@deltaloop/replay/replay";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import type { Signer } from "@deltaloop/store/ports";
import { decides, describeTrace } from "../explain/describe.ts";
import type { RunningSyncs } from "../health/running-syncs.ts";
import { functionHandlers } from "../functions/functions.ts";

interface Options {
  readonly live: LiveConfiguration;
  /** Access to the API server as one role. */
  readonly accessAs: (role: string, component: string) => Promise<KubeHttpConfig>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly running: RunningSyncs;
  /** Used instead of connections of this cluster alone. */
  readonly shared?: SharedConnections;
  /** Name of the cluster, if this process serves several. */
  readonly name?: string;
  /** Whether to print syncs that made a decision or failed, as JSON. */
  readonly decisions: boolean;
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

/** @throws {UsageError} when the kubeconfig cannot be used */
export async function openFunctions({ live, accessAs, log, metrics, running, shared, name, decisions }: Options): Promise<OpenedFunctions> {
  const syncs = new SyncLog((sync) => {
    printSync(sync, name === undefined ? "" : `${name}: `);
    if (decisions && decides(sync)) process.stdout.write(`${JSON.stringify(sync)}\n`);
  }, Date.now);
  const trace = (line: TraceLine): void => {
    running.trace(line, Date.now());
    syncs.trace(line);
  };
  const accesses = await Promise.all(
    COMPONENTS.map(async ([fn, component]) => [fn, component, await accessAs(serviceAccount(fn), component)] as const),
  );
  const connections = shared && connectLive(live, log, { shared });
  const wirings = new Map(
    accesses.map(([fn, component, access]) => [fn, { ...wireFunction(component, live, { ...access, metrics }, connections), log, trace }]),
  );
  const wiring = (functionName: string) => {
    const found = wirings.get(functionName);
    if (!found) throw new Error(`no function ${functionName}`);
    return found;
  };
  const served = wiring("apply-deltas").cluster(live.current.cluster);
  if (!served) throw new Error(`the functions do not serve cluster ${live.current.cluster}`);
  return {
    handlers: functionHandlers(wiring, (resource, items) => syncs.changed(resource, items)),
    signer: served.signer,
    close: async () => void (await Promise.all([...wirings.values()].map((each) => each.close()))),
  };
}

function printSync(sync: ReplayedSync, cluster: string): void {
  const lines = sync.lines
    .filter(({ kind }) => kind !== "event" && kind !== "reason")
    .map((line) => `            ${describeTrace(line)}\n`);
  if (lines.length === 0 && sync.error === undefined) return;
  process.stderr.write(
    `${cluster}${sync.controller} ${printable(`${sync.key}: ${sync.reasons.slice(0, 3).join(", ") || "a delayed requeue or a retry"}`)}\n${lines.join("")}${sync.error === undefined ? "" : `            error: ${printable(sync.error)}\n`}`,
  );
}
