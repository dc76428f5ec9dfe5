import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";

import { CALLS_AT_ONCE_MAX } from "../../ports/kube.ts";
import type { ClientCertificate, KubeHttpConfig } from "./config.ts";

/** The API server closes idle connections after 90 s. Later than this, also after a frozen sandbox, ours are thrown away first. */
export const IDLE_MS_MAX = 50_000;

interface Connections {
  readonly calls: HttpAgent;
  /** One connection each. */
  readonly watches: HttpAgent;
}

/**
 * The connections of one client, as one certificate at a time. When that is another one, what is on its way ends on the former
 * connections, and nothing begins on them.
 */
export function createConnections(config: KubeHttpConfig): (certificate?: ClientCertificate) => Connections {
  const Agent = new URL(config.server).protocol === "https:" ? HttpsAgent : HttpAgent;
  const pooling = { keepAlive: true, noDelay: true, scheduling: "lifo" } as const;
  let held: { readonly certificate: ClientCertificate | undefined; readonly connections: Connections } | undefined;

  function open(certificate: ClientCertificate | undefined): Connections {
    const { cert, key } = certificate ?? config;
    const tls = {
      ca: config.ca,
      cert,
      key,
      rejectUnauthorized: config.insecure !== true,
      ...(config.serverName === undefined ? {} : { servername: config.serverName }),
    };
    return {
      calls: new Agent({ ...pooling, ...tls, maxSockets: CALLS_AT_ONCE_MAX, timeout: IDLE_MS_MAX }),
      watches: new Agent({ ...pooling, ...tls, keepAlive: false }),
    };
  }

  return (certificate) => {
    if (held !== undefined && isSame(held.certificate, certificate)) return held.connections;
    // Only what is idle is thrown away here; the rest goes when it has been idle for long enough.
    for (const sockets of Object.values(held?.connections.calls.freeSockets ?? {})) for (const socket of sockets ?? []) socket.destroy();
    held = { certificate, connections: open(certificate) };
    return held.connections;
  };
}

function isSame(one: ClientCertificate | undefined, other: ClientCertificate | undefined): boolean {
  return one === other || (one !== undefined && one.cert === other?.cert && one.key === other.key);
}
