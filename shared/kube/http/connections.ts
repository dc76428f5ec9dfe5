import { createExchanges } from "@deltaloop/base/http";
import type { Exchanges } from "@deltaloop/base/http";
import type { Access } from "./access.ts";
import type { ClientCertificate, KubeHttpConfig } from "./config.ts";
import { proxyFor } from "./proxy.ts";

/** The API server closes idle connections after 90 s. These connections close earlier, even after a sandbox was frozen. */
const IDLE_MS_MAX = 50_000;

/** Connections to one API server, per client certificate. */
export type Connections = (certificate?: ClientCertificate) => Exchanges;

/**
 * After a certificate change, requests in flight finish on the old connections and new requests use new connections.
 *
 * @throws {UsageError} when the environment names an unusable proxy
 */
export function createConnections(config: KubeHttpConfig, { base }: Access): Connections {
  const proxy = config.proxy ?? proxyFor(base, process.env);
  const isPlain = base.protocol !== "https:";
  const server = {
    host: base.hostname.replace(/^\[|\]$/g, ""),
    port: base.port === "" ? (isPlain ? 80 : 443) : Number(base.port),
    ...(config.lookup && { lookup: config.lookup }),
    ...(proxy && { proxy: { ...proxy, ...(proxy.tls && { tls: tlsOf({ ...config, serverName: undefined }, undefined) }) } }),
  };
  let current: { readonly certificate: ClientCertificate | undefined; readonly exchanges: Exchanges } | undefined;
  return (certificate) => {
    if (current !== undefined && isSame(current.certificate, certificate)) return current.exchanges;
    current?.exchanges.retire();
    const exchanges = createExchanges({ ...server, ...(!isPlain && { tls: tlsOf(config, certificate) }) }, { idleMsMax: IDLE_MS_MAX });
    current = { certificate, exchanges };
    return exchanges;
  };
}

function tlsOf(config: Tls, certificate: ClientCertificate | undefined) {
  const { cert, key } = certificate ?? config;
  return {
    ca: config.ca,
    cert,
    key,
    rejectUnauthorized: config.insecure !== true,
    ...(config.serverName === undefined ? {} : { servername: config.serverName }),
  };
}

type Tls = Pick<KubeHttpConfig, "ca" | "cert" | "key" | "insecure"> & { readonly serverName?: string | undefined };

function isSame(one: ClientCertificate | undefined, other: ClientCertificate | undefined): boolean {
  return one === other || (one !== undefined && one.cert === other?.cert && one.key === other.key);
}
