/**
 * The whole system in one process behind a fault-injecting API server, in real time: the in-memory API server over HTTP, scripted nodes, the
 * watcher, memory queues and Store, the deployed handlers.
 */
import { testSigner } from "../support/signer.ts";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { shutGate } from "../../shared/controllers/cache/gates.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { serveHttp } from "../../shared/api-server/http.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { silentLog } from "../support/silent-log.ts";
import { startFaultInjectingServer } from "./server.ts";
import type { FaultInjectingServer } from "./server.ts";
import { rawClientIn } from "../support/raw-client.ts";
import type { RawClient } from "../support/raw-client.ts";

export interface MemorySystem {
  readonly road: FaultInjectingServer;
  /** Connects directly to the API server behind the fault injection. */
  readonly client: RawClient;
  close(): Promise<void>;
}

const CLUSTER = "c1";
const NODES = 2;
const READY_POLL_MS = 20;

/** Resolves once keys of every controller can be taken. */
export async function startMemorySystem(): Promise<MemorySystem> {
  const [clock, random, log] = [createSystemClock(), createSeededRandom(1), silentLog];
  const server = createApiServer({ clock, random });
  const http = await serveHttp(server);
  const road = await startFaultInjectingServer({ url: http.url });
  const client = rawClientIn(server);
  const digester = createDigester("faulty");
  const backend = memoryBackend({ clock, random, digester, deployment: "faulty", cluster: CLUSTER });
  const { store } = backend;
  const fleet = { count: NODES, clock, random, bindPods: true };
  const system = assembleSystem(
    {
      ...{ clock, random, log, digester, signer: testSigner(CLUSTER), functions: functionHandlers, ...backend },
      kube: (name) => createKubeHttp({ server: road.url, component: name.replace("sync-", "") }),
    },
    {
      cluster: CLUSTER,
      clusterUid: "cluster-uid",
      lease: { namespace: "kube-system", name: "deltaloop-watcher-faulty" },
      nodes: (ends) => runScriptedNodes(createInProcessKube(server, { component: "nodes" }), fleet, ends),
    },
  );
  while ((await shutGate(store)) !== undefined) await clock.after(READY_POLL_MS);

  return {
    road,
    client,
    async close() {
      await system.stop();
      await road.close();
      await http.close();
      server.close();
    },
  };
}
