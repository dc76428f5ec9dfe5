/**
 * The whole system in one process behind a fault-injecting API server, in real time: the API server in memory over HTTP, scripted nodes, the
 * watcher, memory queues and Store, the deployed handlers.
 */
import { testSigner } from "../support/signer.ts";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { shutGate } from "../../cli/health/gates.ts";
import { createKubeHttp } from "../../shared/adapters/kube-http/kube-http.ts";
import { createMemoryDeltaQueue } from "../../shared/adapters/memory/queue/delta-queue.ts";
import { createMemoryDoorbells } from "../../shared/adapters/memory/queue/doorbells.ts";
import { createSeededRandom } from "../../shared/adapters/memory/random.ts";
import { createMemoryStore } from "../../shared/adapters/memory/store/store.ts";
import { createSystemClock } from "../../shared/adapters/system/clock.ts";
import { createDigester } from "../../shared/api/digest.ts";
import { cacheIdentity } from "../../shared/cache/identity.ts";
import { acquireLease } from "../../shared/cache/leader-election.ts";
import { runWatcher } from "../../shared/cache/watcher.ts";
import { serving } from "../../shared/lambda/wiring.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { createApiServer } from "../../shared/local/api-server/api-server.ts";
import { serveHttp } from "../../shared/local/api-server/http.ts";
import { startFunctionHost } from "../../shared/local/function-host.ts";
import { createInProcessKube } from "../../shared/local/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/local/scripted-nodes/scripted-nodes.ts";
import { HOLE_LIMIT_MS, HOLE_RELIST_MS } from "../../shared/ports/times.ts";
import { silentLog } from "../support/silent-log.ts";
import { startFaultInjectingServer } from "./server.ts";
import type { FaultInjectingServer } from "./server.ts";
import { rawClientIn } from "../support/raw-client.ts";
import type { RawClient } from "../support/raw-client.ts";

export interface MemorySystem {
  readonly road: FaultInjectingServer;
  /** Straight to the good API server. */
  readonly client: RawClient;
  close(): Promise<void>;
}

const CLUSTER = "c1";
const NODES = 2;
const READY_POLL_MS = 20;

/** Resolves once keys of every controller are handed out. */
export async function startMemorySystem(): Promise<MemorySystem> {
  const [clock, random, log] = [createSystemClock(), createSeededRandom(1), silentLog];
  const server = createApiServer({ clock, random });
  const http = await serveHttp(server);
  const road = await startFaultInjectingServer({ url: http.url });
  const client = rawClientIn(server);
  const digester = createDigester("faulty");
  const identity = cacheIdentity(digester);
  const store = createMemoryStore({ deployment: "faulty", cluster: CLUSTER, identity, holeLimitMs: HOLE_LIMIT_MS, clock });
  const queue = createMemoryDeltaQueue({ clock, random });
  const doorbells = createMemoryDoorbells({ clock, random, cluster: CLUSTER });
  const kube = (component: string): ReturnType<typeof createKubeHttp> => createKubeHttp({ server: road.url, component });

  const ends = new AbortController();
  const nodes = runScriptedNodes(
    createInProcessKube(server, { component: "nodes" }),
    { count: NODES, clock, random, bindPods: true },
    ends.signal,
  );
  const api = kube("watcher");
  const lease = { namespace: "kube-system", name: "deltaloop-watcher-faulty", identity: "faulty" };
  const lead = (signal: AbortSignal): ReturnType<typeof acquireLease> =>
    acquireLease({ reader: api, writer: api, clock, random, log }, lease, signal);
  const signer = testSigner(CLUSTER);
  const watching = runWatcher(
    { kube: api, store, queue, doorbells, clock, random, digester, signer, log, lead },
    { cluster: CLUSTER, clusterUid: "cluster-uid", identity, holeRelistMs: HOLE_RELIST_MS },
    ends.signal,
  );
  const wiring = (name: string): FunctionWiring => {
    const own = kube(name.replace("sync-", ""));
    return { clock, random, log, digester, ...serving(CLUSTER, own, "act", { store, signer, doorbells }) };
  };
  const host = startFunctionHost({
    sources: { deltas: queue, doorbells: doorbells.sources },
    handlers: functionHandlers(wiring),
    clock,
    log,
  });
  while ((await shutGate(store)) !== undefined) await clock.after(READY_POLL_MS);

  return {
    road,
    client,
    async close() {
      await host.stop();
      ends.abort(new Error("the test is over"));
      await Promise.allSettled([watching, nodes]);
      await road.close();
      await http.close();
      server.close();
    },
  };
}
