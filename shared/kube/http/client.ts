/** One HTTP/1.1 client for one API server and component: calls and streams. */
import { createAccess } from "./access.ts";
import { createCalls } from "./calls.ts";
import type { KubeCalls } from "./calls.ts";
import type { KubeHttpConfig } from "./config.ts";
import { createConnections } from "./connections.ts";
import { createStreams } from "./streams.ts";
import type { KubeStreams } from "./streams.ts";

/** The base of reader, writer and watch. The in-process variant is in shared/api-server. */
export interface KubeClient extends KubeCalls, KubeStreams {}

/** @throws {TokenInClearError} when the configuration has a token and the server is plain HTTP on another machine */
export function createClient(config: KubeHttpConfig): KubeClient {
  const access = createAccess(config);
  const connections = createConnections(config, access);
  return { ...createCalls(config, access, connections), ...createStreams(config, access, connections) };
}
