/** One HTTP/1.1 client for one API server: calls and streams, as one component. */
import { createAccess } from "./access.ts";
import { createCalls } from "./calls.ts";
import type { KubeCalls } from "./calls.ts";
import type { KubeHttpConfig } from "./config.ts";
import { createConnections } from "./connections.ts";
import { createStreams } from "./streams.ts";
import type { KubeStreams } from "./streams.ts";

/** What reader, writer and watch are made of. In process: shared/api-server. */
export interface KubeClient extends KubeCalls, KubeStreams {}

/** @throws {TokenInClearError} when the configuration has a token and the server is plain HTTP on another machine */
export function createClient(config: KubeHttpConfig): KubeClient {
  const access = createAccess(config);
  const connections = createConnections(config, access);
  return { ...createCalls(config, access, connections), ...createStreams(config, access, connections) };
}
