/** In-memory API servers on loopback ports, each with scripted nodes; they count requests. */
import type { JsonObject } from "../../shared/base/json.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import { serveHttp } from "../../shared/api-server/http.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { kubeconfigOf } from "./kubeconfig.ts";
import { rawClientIn } from "./raw-client.ts";
import type { RawClient } from "./raw-client.ts";

export interface MemoryApiServer {
  /** A client in this process, whose requests are not counted. */
  readonly client: RawClient;
  /** The text of a kubeconfig that contains a token. */
  readonly kubeconfig: string;
  readonly url: string;
  /** Requests over HTTP so far, without those for Leases: method, path and token. */
  readonly requests: readonly string[];
  /** Ends all connections and refuses new ones. */
  die(): Promise<void>;
  /** Listens again, at the same address or that of another server that has ended. */
  comeBack(port?: number): Promise<void>;
  stop(): Promise<void>;
}

/** `objects` replace those of a new cluster. */
export async function startMemoryApiServer(
  token: string,
  objects?: readonly (readonly [resource: string, object: JsonObject])[],
): Promise<MemoryApiServer> {
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const server = createApiServer({ clock, random, ...(objects && { objects }) });
  const requests: string[] = [];
  const served: Pick<ApiServer, "request" | "closeWatches"> = {
    closeWatches: () => server.closeWatches(),
    async request(request) {
      const { method, path, headers } = request;
      if (!path.includes("/leases")) requests.push(`${method} ${path} ${headers?.["authorization"]}`);
      return await server.request(request);
    },
  };
  let http = await serveHttp(served);
  const { port, url } = http;
  const ends = new AbortController();
  const script = { count: 2, clock, random, bindPods: true };
  const nodes = runScriptedNodes(createInProcessKube(server, { component: "scripted-nodes" }), script, ends.signal).catch(() => undefined);
  return {
    client: rawClientIn(server, "test"),
    kubeconfig: kubeconfigOf({ server: url }, { token }),
    url,
    requests,
    die: async () => await http.close(),
    async comeBack(at = port) {
      http = await serveHttp(served, { port: at });
    },
    async stop() {
      ends.abort(new Error("the test has ended"));
      await nodes;
      await http.close().catch(() => undefined);
      server.close();
    },
  };
}
