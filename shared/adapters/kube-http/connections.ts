/** The connections of one client: those for calls, which are kept, and those of watches. */
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";

import { createExchanges } from "../http-exchanges.ts";
import type { Exchanges } from "../http-exchanges.ts";
import type { ClientCertificate, KubeHttpConfig } from "./config.ts";

/** The API server closes idle connections after 90 s. Later than this, also after a frozen sandbox, ours are thrown away first. */
const IDLE_MS_MAX = 50_000;

interface Connections {
  readonly calls: Exchanges;
  /** One connection each, by node:http: what a stream costs is its bytes. */
  readonly watches: HttpAgent;
}

/**
 * The connections of one client, as one certificate at a time. When that is another one, what is on its way ends on the former
 * connections, and nothing begins on them.
 */
export function createConnections(config: KubeHttpConfig): (certificate?: ClientCertificate) => Connections {
  const { protocol, hostname, port } = new URL(config.server);
  const secure = protocol === "https:";
  const Agent = secure ? HttpsAgent : HttpAgent;
  const host = hostname.replace(/^\[|\]$/g, "");
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
    const server = { host, port: port === "" ? (secure ? 443 : 80) : Number(port), ...(secure && { tls }) };
    return {
      calls: createExchanges(server, { idleMsMax: IDLE_MS_MAX }),
      watches: new Agent({ ...tls, keepAlive: false }),
    };
  }

  return (certificate) => {
    if (held !== undefined && isSame(held.certificate, certificate)) return held.connections;
    held?.connections.calls.retire();
    held = { certificate, connections: open(certificate) };
    return held.connections;
  };
}

function isSame(one: ClientCertificate | undefined, other: ClientCertificate | undefined): boolean {
  return one === other || (one !== undefined && one.cert === other?.cert && one.key === other.key);
}
