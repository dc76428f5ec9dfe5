import { readFile } from "node:fs/promises";
import type { RequestOptions } from "node:https";

import { KubeConfig } from "@kubernetes/client-node";

import { showsToken, TokenInClearError } from "../../shared/adapters/kube-http/config.ts";
import type { KubeHttpConfig } from "../../shared/adapters/kube-http/config.ts";

/** A token is asked for again after this long; exec plugins and token files are cached by client-node up to their own expiry. */
const TOKEN_MS_MAX = 60_000;

/**
 * How to reach the cluster that `context` (default: the current one) of a kubeconfig names. Exec plugins and token files are
 * followed, tokens refreshed. A client certificate from a plugin is read once.
 *
 * @throws {Error} naming what the file lacks: the context, its cluster, or its user; {TokenInClearError}
 */
export async function kubeHttpConfigFrom(
  kubeconfigPath: string,
  options: { readonly component: string; readonly context?: string; readonly fieldManager?: string },
): Promise<KubeHttpConfig> {
  const kubeConfig = new KubeConfig();
  // Read here, so that a missing file is named by the system's own error.
  await readFile(kubeconfigPath);
  kubeConfig.loadFromFile(kubeconfigPath);
  if (options.context !== undefined) {
    if (kubeConfig.getContextObject(options.context) === null) {
      const known = kubeConfig.getContexts().map(({ name }) => name);
      throw new Error(`no context "${options.context}" in ${kubeconfigPath}; it has: ${known.join(", ") || "none"}`);
    }
    kubeConfig.setCurrentContext(options.context);
  }
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) throw new Error(`context "${kubeConfig.getCurrentContext()}" of ${kubeconfigPath} names no cluster of that file`);

  const material = await authenticate(kubeConfig);
  const { ca, cert, key, rejectUnauthorized } = material;
  if (bearer(material) !== undefined && showsToken(cluster.server)) throw new TokenInClearError(cluster.server);
  return {
    server: cluster.server,
    component: options.component,
    ...(options.fieldManager === undefined ? {} : { fieldManager: options.fieldManager }),
    ...(isPem(ca) ? { ca } : {}),
    ...(isPem(cert) ? { cert } : {}),
    ...(isPem(key) ? { key } : {}),
    ...(rejectUnauthorized === false ? { insecure: true } : {}),
    ...(cluster.tlsServerName === undefined ? {} : { serverName: cluster.tlsServerName }),
    ...(bearer(material) === undefined ? {} : { token: cached(async () => bearer(await authenticate(kubeConfig)) ?? "") }),
  };
}

/** What client-node would put on a request: TLS material and an Authorization header. */
async function authenticate(kubeConfig: KubeConfig): Promise<RequestOptions> {
  const options: RequestOptions = {};
  await kubeConfig.applyToHTTPSOptions(options);
  return options;
}

function bearer(options: RequestOptions): string | undefined {
  const value = new Map(Object.entries(options.headers ?? {})).get("Authorization");
  return typeof value === "string" && value.startsWith("Bearer ") ? value.slice("Bearer ".length) : undefined;
}

function cached(ask: () => Promise<string>): () => Promise<string> {
  let token: Promise<string> | undefined;
  let askedAtMs = 0;
  return async () => {
    if (token === undefined || Date.now() - askedAtMs > TOKEN_MS_MAX) {
      askedAtMs = Date.now();
      token = ask();
      // The next call asks again; this one gets the error.
      token.catch(() => (token = undefined));
    }
    return await token;
  };
}

/** client-node types TLS material more widely than it fills it: one PEM each. */
function isPem(value: RequestOptions["ca"] | RequestOptions["key"]): value is string | Buffer {
  return typeof value === "string" || Buffer.isBuffer(value);
}
