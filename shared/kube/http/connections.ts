import type { ClientCertificate, KubeHttpConfig } from "./config.ts";

/** As node:tls has it. */
export type Tls = ReturnType<typeof tlsOf>;

/**
 * What makes connections, as one certificate at a time. When that is another one, what is on its way ends on the former
 * connections, and nothing begins on them: `retire` is told.
 */
export function perCertificate<C>(
  config: KubeHttpConfig,
  open: (tls: Tls) => C,
  retire: (former: C) => void = () => undefined,
): (certificate?: ClientCertificate) => C {
  let held: { readonly certificate: ClientCertificate | undefined; readonly connections: C } | undefined;
  return (certificate) => {
    if (held !== undefined && isSame(held.certificate, certificate)) return held.connections;
    if (held !== undefined) retire(held.connections);
    held = { certificate, connections: open(tlsOf(config, certificate)) };
    return held.connections;
  };
}

function tlsOf(config: KubeHttpConfig, certificate: ClientCertificate | undefined) {
  const { cert, key } = certificate ?? config;
  return {
    ca: config.ca,
    cert,
    key,
    rejectUnauthorized: config.insecure !== true,
    ...(config.serverName === undefined ? {} : { servername: config.serverName }),
  };
}

function isSame(one: ClientCertificate | undefined, other: ClientCertificate | undefined): boolean {
  return one === other || (one !== undefined && one.cert === other?.cert && one.key === other.key);
}
