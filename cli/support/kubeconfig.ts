/**
 * A kubeconfig: one cluster as one user of it.
 *
 * Source: client-go tools/clientcmd, tools/clientcmd/api/v1. What it knows and we do not is refused by name: `proxy-url`, `username`,
 * `auth-provider`, impersonation (`as`).
 */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import * as v from "valibot";

import { showsToken, TokenInClearError } from "../../shared/adapters/kube-http/config.ts";
import type { ClientCertificate, KubeHttpConfig } from "../../shared/adapters/kube-http/config.ts";
import { parseYaml, stringifyYaml } from "../../shared/adapters/system/yaml.ts";
import { messageOf } from "../../shared/api/errors.ts";
import { ExecPlugin, runExecPlugin } from "./exec-plugin.ts";
import type { Credentials, ExecCluster } from "./exec-plugin.ts";

/** A token file and the kubeconfig are read again after this long. */
const TOKEN_MS_MAX = 60_000;

const text = v.nullish(v.string(), "");
const flag = v.nullish(v.boolean(), false);
const Cluster = v.object({
  server: text,
  "tls-server-name": text,
  "insecure-skip-tls-verify": flag,
  "certificate-authority": text,
  "certificate-authority-data": text,
  "proxy-url": text,
  extensions: v.nullish(v.array(v.object({ name: v.string(), extension: v.nullish(v.unknown()) })), []),
});
const User = v.object({
  "client-certificate": text,
  "client-certificate-data": text,
  "client-key": text,
  "client-key-data": text,
  token: text,
  tokenFile: text,
  as: text,
  username: text,
  "auth-provider": v.nullish(v.unknown()),
  exec: v.nullish(v.unknown()),
});
const Context = v.object({ cluster: text, user: text });
const Kubeconfig = v.object({
  clusters: v.nullish(v.array(v.object({ name: v.string(), cluster: v.nullish(Cluster, {}) })), []),
  users: v.nullish(v.array(v.object({ name: v.string(), user: v.nullish(User, {}) })), []),
  contexts: v.nullish(v.array(v.object({ name: v.string(), context: v.nullish(Context, {}) })), []),
  "current-context": text,
});
type Kubeconfig = v.InferOutput<typeof Kubeconfig>;
type User = v.InferOutput<typeof User>;
type Cluster = v.InferOutput<typeof Cluster>;

/** @throws {Error} naming the file and what is wrong with it, never what stands in it */
export async function readKubeconfig(path: string): Promise<Kubeconfig> {
  const content = await readFile(path, "utf8").catch((error: unknown) => {
    throw new Error(`kubeconfig ${path} cannot be read: ${messageOf(error)}`);
  });
  let parsed: unknown;
  try {
    parsed = parseYaml(content);
  } catch (error) {
    // The parser's message ends with the line that it could not read, and that may hold a secret.
    throw new Error(`kubeconfig ${path} is not YAML: ${messageOf(error).split("\n")[0]}`);
  }
  const config = v.safeParse(Kubeconfig, parsed ?? {});
  if (config.success) return config.output;
  const [issue] = config.issues;
  throw new Error(`kubeconfig ${path}: ${v.getDotPath(issue) ?? "it"} is not ${issue.expected}`);
}

/**
 * How to reach the cluster that `context` (default: the current one) of a kubeconfig names. Exec plugins and token files are
 * followed: tokens and client certificates are replaced when they end, are refused, or may be others by now.
 *
 * @throws {Error} naming what the file lacks: the context, its cluster, or its user; {TokenInClearError}
 */
export async function kubeHttpConfigFrom(
  path: string,
  options: { readonly component: string; readonly context?: string; readonly fieldManager?: string },
): Promise<KubeHttpConfig> {
  const config = await readKubeconfig(path);
  // Held: whoever makes another context the current one meanwhile does not mean us.
  const context = options.context ?? config["current-context"];
  const { cluster, user } = chosen(config, path, context);
  const folder = dirname(resolve(path));
  const { server } = cluster;
  const ca = await pem(folder, cluster["certificate-authority-data"], cluster["certificate-authority"]);
  const serverName = cluster["tls-server-name"];
  const credentials = await credentialsOf(user, folder, execCluster(cluster, ca));
  if (credentials.token !== undefined && showsToken(server)) throw new TokenInClearError(server);
  const { cert, key } = credentials;
  // What stands in the file itself is read with it.
  const isFollowed = cert !== undefined && user["client-certificate-data"] === "";
  let last = credentials;
  const followed = cached(credentials, renewed);
  return {
    server,
    component: options.component,
    ...(options.fieldManager !== undefined && { fieldManager: options.fieldManager }),
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(cluster["insecure-skip-tls-verify"] && { insecure: true }),
    ...(serverName !== "" && { serverName }),
    ...(credentials.token !== undefined && {
      token: async (refused?: string) => (await followed(refused === undefined ? {} : { token: refused })).token ?? "",
    }),
    ...(isFollowed && { certificate: async (refused?: ClientCertificate) => certificateIn(await followed({ ...refused })) }),
  };

  /** The file may name another user by now. One of another server is not for this one, which goes on with what it was shown. */
  async function renewed(): Promise<Credentials> {
    const anew = chosen(await readKubeconfig(path), path, context);
    if (anew.cluster.server === server) last = await credentialsOf(anew.user, folder, execCluster(anew.cluster, ca));
    return last;
  }
}

/** What a kubeconfig says of its user's client certificate; files by absolute path. */
export interface CertificatePlaces {
  readonly certFile?: string;
  readonly keyFile?: string;
  /** What stands in the kubeconfig itself, PEM. */
  readonly cert?: string;
  readonly key?: string;
}

/** @throws as `kubeHttpConfigFrom` does for the kubeconfig itself; the files need not be there */
export async function certificatePlaces(path: string, context?: string): Promise<CertificatePlaces> {
  const { user } = chosen(await readKubeconfig(path), path, context);
  const folder = dirname(resolve(path));
  const [cert, key] = [user["client-certificate-data"], user["client-key-data"]].map((data) => Buffer.from(data, "base64").toString());
  const [certFile, keyFile] = [user["client-certificate"], user["client-key"]];
  return {
    ...(cert !== "" ? { cert } : certFile !== "" && { certFile: resolve(folder, certFile) }),
    ...(key !== "" ? { key } : keyFile !== "" && { keyFile: resolve(folder, keyFile) }),
  } as CertificatePlaces; // a spread of `false` adds nothing
}

/**
 * A kubeconfig for the cluster of `path`, whose user's certificate and key are in `pemPath`.
 *
 * Source: pkg/kubelet/certificate/bootstrap/bootstrap.go writeKubeconfigFromBootstrapping.
 */
export async function kubeconfigForCertificate(path: string, pemPath: string): Promise<string> {
  const { cluster } = chosen(await readKubeconfig(path), path, undefined);
  const { server, "certificate-authority": caFile, "certificate-authority-data": caData, "tls-server-name": serverName } = cluster;
  const entry = {
    server,
    ...(cluster["insecure-skip-tls-verify"] && { "insecure-skip-tls-verify": true }),
    ...(serverName !== "" && { "tls-server-name": serverName }),
    ...(caFile !== "" && { "certificate-authority": resolve(dirname(resolve(path)), caFile) }),
    ...(caFile === "" && caData !== "" && { "certificate-authority-data": caData }),
  };
  const [clusterName, userName, contextName] = ["default-cluster", "default-auth", "default-context"];
  return stringifyYaml({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: clusterName, cluster: entry }],
    users: [{ name: userName, user: { "client-certificate": pemPath, "client-key": pemPath } }],
    contexts: [{ name: contextName, context: { cluster: clusterName, namespace: "default", user: userName } }],
    "current-context": contextName,
  });
}

function chosen(config: Kubeconfig, path: string, asked: string | undefined): { readonly cluster: Cluster; readonly user: User } {
  const name = asked ?? config["current-context"];
  const context = config.contexts.find((each) => each.name === name)?.context;
  if (context === undefined) {
    const known = config.contexts.map((each) => each.name).join(", ") || "none";
    throw new Error(
      name === "" ? `${path} has no current-context; name one of: ${known}` : `no context "${name}" in ${path}; it has: ${known}`,
    );
  }
  const cluster = config.clusters.find((each) => each.name === context.cluster)?.cluster;
  if (cluster === undefined || cluster.server === "") throw new Error(`context "${name}" of ${path} names no cluster of that file`);
  const user = config.users.find((each) => each.name === context.user)?.user;
  if (user === undefined && context.user !== "") throw new Error(`context "${name}" of ${path} names no user of that file`);
  const refused = unsupported(cluster, user);
  if (refused !== undefined) throw new Error(`context "${name}" of ${path} uses ${refused}`);
  return { cluster, user: user ?? v.parse(User, {}) };
}

function unsupported(cluster: Cluster, user: User | undefined): string | undefined {
  if (cluster["proxy-url"] !== "") return "proxy-url, which is not supported";
  if (user === undefined) return undefined;
  if (user.username !== "") return "username and password, which API servers no longer accept";
  if (isGiven(user["auth-provider"])) return "auth-provider, which Kubernetes has replaced by exec plugins";
  return user.as === "" ? undefined : "impersonation (as), which is not supported";
}

/**
 * A token file goes before a token, both before a plugin; a certificate of the file before a plugin's.
 * Source: client-go transport/round_trippers.go HTTPWrappersForConfig; plugin/pkg/client/auth/exec/exec.go UpdateTransportConfig.
 */
async function credentialsOf(user: User, folder: string, cluster: ExecCluster): Promise<Credentials> {
  const cert = await pem(folder, user["client-certificate-data"], user["client-certificate"]);
  const key = await pem(folder, user["client-key-data"], user["client-key"]);
  const own = { ...(cert && { cert: cert.toString() }), ...(key && { key: key.toString() }) };
  if (user.tokenFile !== "") return { ...own, token: (await readFile(resolve(folder, user.tokenFile), "utf8")).trim() };
  if (user.token !== "") return { ...own, token: user.token };
  if (!isGiven(user.exec)) return own;
  const plugin = v.safeParse(ExecPlugin, user.exec);
  if (plugin.success) return { ...(await runExecPlugin(plugin.output, folder, cluster)), ...own };
  const [issue] = plugin.issues;
  throw new Error(`exec.${v.getDotPath(issue) ?? ""} of the kubeconfig's user is not ${issue.expected}`);
}

function certificateIn({ cert, key }: Credentials): ClientCertificate | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** What a cluster's entry holds for plugins. Source: client-go tools/clientcmd/api/types.go; tools/clientcmd/client_config.go. */
const EXEC_EXTENSION = "client.authentication.k8s.io/exec";

function execCluster({ server, ...cluster }: Cluster, ca: Buffer | undefined): ExecCluster {
  const serverName = cluster["tls-server-name"];
  const config = cluster.extensions.find(({ name }) => name === EXEC_EXTENSION)?.extension;
  return {
    server,
    ...(serverName !== "" && { "tls-server-name": serverName }),
    ...(cluster["insecure-skip-tls-verify"] && { "insecure-skip-tls-verify": true }),
    ...(ca !== undefined && { "certificate-authority-data": ca.toString("base64") }),
    ...(isGiven(config) && { config }),
  };
}

/** Data goes before a file; a file's path is relative to the kubeconfig's folder. */
async function pem(folder: string, data: string, file: string): Promise<Buffer | undefined> {
  if (data !== "") return Buffer.from(data, "base64");
  return file === "" ? undefined : await readFile(resolve(folder, file));
}

/** One that the server has refused is asked for anew at once, but the same one only once: a plugin that has no other is not run by every call. */
function cached(
  first: Credentials,
  ask: () => Promise<Credentials>,
): (refused: Pick<Credentials, "token" | "cert">) => Promise<Credentials> {
  let credentials: Promise<Credentials> | undefined = Promise.resolve(first);
  let dueMs = dueAt(first);
  let renewed: string | undefined;
  return async ({ token, cert }) => {
    const held = credentials;
    const refused = token ?? cert;
    const given = await held?.catch(() => undefined);
    const isRefused = refused !== undefined && refused === (token === undefined ? given?.cert : given?.token);
    const isDue = Date.now() > dueMs || (isRefused && refused !== renewed);
    if (credentials === undefined || (credentials === held && isDue)) {
      if (isRefused) renewed = refused;
      dueMs = Date.now() + TOKEN_MS_MAX;
      credentials = ask();
      // The next call asks again; this one gets the error.
      credentials.then(
        (got) => (dueMs = dueAt(got)),
        () => (credentials = undefined),
      );
    }
    return await credentials;
  };
}

/** A plugin's are good until they end or are refused; a file may hold others by now. */
function dueAt({ expiresAtMs = Date.now() + TOKEN_MS_MAX }: Credentials): number {
  return expiresAtMs;
}
