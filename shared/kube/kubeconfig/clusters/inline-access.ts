/** Access to the cluster of a vetted kubeconfig whose credentials are all in its text. */
import type { ClientCertificate, KubeHttpConfig } from "../../http/config.ts";
import { proxyOf } from "../../http/proxy.ts";
import { decoded } from "../inline-data.ts";
import { certificatesIn, problemOfPair } from "../pem.ts";
import { isToken } from "../schema.ts";
import type { Kubeconfig } from "../schema.ts";

export interface InlineCredentials {
  readonly token?: string;
  readonly certificate?: ClientCertificate;
}

export interface InlineAccessOptions {
  /** Selects the context of that name, if there is one. */
  readonly role: string;
  readonly component: string;
  /** Called when the server has refused the credentials; `current` may return others afterwards. */
  readonly renew?: () => Promise<unknown>;
}

/**
 * `current` returns the newest kubeconfig of one cluster id, so its server and CA never change (KD2). Credentials stay of one kind, token or
 * certificate: the client of a cluster that changes it is made again.
 *
 * @throws {Error} when the server's CA or the credentials cannot be used
 */
export function inlineAccess(current: () => Kubeconfig, { role, component, renew }: InlineAccessOptions): KubeHttpConfig {
  const cluster = current().clusters[0]?.cluster;
  if (cluster === undefined) throw new TypeError("a vetted kubeconfig has a cluster");
  const { server, "tls-server-name": serverName, "certificate-authority-data": data, "proxy-url": proxy } = cluster;
  const ca = data === "" ? undefined : decoded("certificate-authority", data).toString();
  if (ca !== undefined && certificatesIn(ca).length === 0) throw new Error("certificate-authority-data contains no PEM certificate");
  const held = newest(() => current(), role);
  return {
    server,
    component,
    ...(ca !== undefined && { ca }),
    ...(serverName !== "" && { serverName }),
    ...(cluster["insecure-skip-tls-verify"] && { insecure: true }),
    ...(proxy !== "" && { proxy: proxyOf(proxy, "proxy-url") }),
    ...(held().token !== undefined && {
      async token(refused?: string) {
        if (refused !== undefined && held().token === refused) await renew?.();
        return held().token ?? "";
      },
    }),
    ...(held().certificate !== undefined && {
      async certificate(refused?: ClientCertificate) {
        if (refused !== undefined && held().certificate?.cert === refused.cert) await renew?.();
        return held().certificate;
      },
    }),
  };
}

/** The kind of a role's credentials. */
export function credentialKind(config: Kubeconfig, role: string): string {
  return Object.keys(inlineCredentials(config, role)).join();
}

/** The credentials of the role's context, or else of the current one. @throws {Error} when they cannot be used; quotes nothing of them */
export function inlineCredentials({ users, contexts, "current-context": current }: Kubeconfig, role: string): InlineCredentials {
  const context = contexts.find(({ name }) => name === role) ?? contexts.find(({ name }) => name === current);
  const user = users.find(({ name }) => name === context?.context.user)?.user;
  if (user === undefined) return {};
  const { token, "client-certificate-data": certData, "client-key-data": keyData } = user;
  if (token !== "" && !isToken(token)) throw new Error("token contains a line break or another character that is invalid in a token");
  if (certData === "") return token === "" ? {} : { token };
  const certificate = {
    cert: decoded("client-certificate", certData).toString(),
    key: decoded("client-key", keyData).toString(),
  };
  const problem = problemOfPair(certificate.cert, certificate.key);
  if (problem !== undefined) throw new Error(`client-certificate-data ${problem}`);
  return { ...(token !== "" && { token }), certificate };
}

/** Reads credentials once for each kubeconfig, so that unchanged ones stay the same object. */
function newest(current: () => Kubeconfig, role: string): () => InlineCredentials {
  let of: Kubeconfig | undefined;
  let credentials: InlineCredentials = {};
  return () => {
    const config = current();
    if (config !== of) [of, credentials] = [config, inlineCredentials(config, role)];
    return credentials;
  };
}
