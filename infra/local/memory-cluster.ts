/** An in-memory cluster: an API server on a loopback port, scripted nodes, and a kubeconfig. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { KubeClient } from "@deltaloop/kube/http";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { createApiServer, serveHttp, createInProcessClient, createInProcessKube, runScriptedNodes } from "@deltaloop/api-server";

export interface MemoryCluster {
  readonly kubeconfig: string;
  /** A client for user requests. */
  readonly client: KubeClient;
  stop(): Promise<void>;
}

const NODES = 3;

export async function startMemoryCluster(): Promise<MemoryCluster> {
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const server = createApiServer({ clock, random });
  const http = await serveHttp(server);
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-local-"));
  const kubeconfig = join(directory, "kubeconfig");
  const content = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "local", cluster: { server: http.url, "insecure-skip-tls-verify": true } }], // the server has no TLS
    users: [{ name: "local", user: {} }],
    contexts: [{ name: "local", context: { cluster: "local", user: "local", namespace: "default" } }],
    "current-context": "local",
  };
  await writeFile(kubeconfig, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 }); // JSON is YAML
  const ends = new AbortController();
  const nodes = runScriptedNodes(
    createInProcessKube(server, { component: "scripted-nodes" }),
    { count: NODES, clock, random, bindPods: true },
    ends.signal,
  );
  nodes.catch((error: unknown) => ends.signal.aborted || process.stderr.write(`local: the scripted nodes failed: ${String(error)}\n`));
  return {
    kubeconfig,
    client: createInProcessClient(server, { component: "person" }),
    async stop() {
      ends.abort(new Error("the cluster is stopping"));
      await nodes.catch(() => undefined);
      await http.close();
      server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
