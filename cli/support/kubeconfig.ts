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
  let kubeConfig = await load(kubeconfigPath, options.context);
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
    ...(bearer(material) === undefined ? {} : { token: cached(renewed) }),
  };

  /** What was refused may stand in client-node's memory, or in the file as it was. */
  async function renewed(anew: boolean): Promise<string> {
    if (anew) kubeConfig = await load(kubeconfigPath, options.context);
    return bearer(await authenticate(kubeConfig)) ?? "";
  }
}

async function load(path: string, context: string | undefined): Promise<KubeConfig> {
  const kubeConfig = new KubeConfig();
  // Read here, so that a missing file is named by the system's own error.
  await readFile(path);
  kubeConfig.loadFromFile(path);
  if (context === undefined) return kubeConfig;
  if (kubeConfig.getContextObject(context) === null) {
    const known = kubeConfig.getContexts().map(({ name }) => name);
    throw new Error(`no context "${context}" in ${path}; it has: ${known.join(", ") || "none"}`);
  }
  kubeConfig.setCurrentContext(context);
  return kubeConfig;
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

/** One that the server has refused is asked for anew at once, but the same one only once: a plugin that has no other is not run by every call. */
function cached(ask: (anew: boolean) => Promise<string>): (refused?: string) => Promise<string> {
  let token: Promise<string> | undefined;
  let askedAtMs = 0;
  let renewed: string | undefined;
  return async (refused) => {
    const held = token;
    const isRefused = refused !== undefined && (await held?.catch(() => undefined)) === refused;
    const isDue = Date.now() - askedAtMs > TOKEN_MS_MAX || (isRefused && refused !== renewed);
    if (token === undefined || (token === held && isDue)) {
      askedAtMs = Date.now();
      if (isRefused) renewed = refused;
      token = ask(isRefused);
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
