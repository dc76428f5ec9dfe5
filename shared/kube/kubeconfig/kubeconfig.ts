/**
 * Kubeconfig files: one cluster as one user.
 *
 * Source: client-go tools/clientcmd, tools/clientcmd/api/v1. Unsupported fields are rejected before any call: `username` and `password`,
 * `auth-provider`, impersonation (`as` and related fields). So is everything that client-go rejects.
 */
import { readFile, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import * as v from "valibot";

import { proxyOf } from "../http/proxy.ts";
import { showsToken, TokenInClearError } from "../http/config.ts";
import type { ClientCertificate, KubeHttpConfig } from "../http/config.ts";
import { parseYaml, stringifyYaml } from "../yaml/yaml.ts";
import { messageOf } from "../objects/errors.ts";
import { ExecPlugin, runExecPlugin } from "./exec-plugin.ts";
import type { Credentials, ExecCluster } from "./exec-plugin.ts";
import { filesIn } from "./kubeconfig-path.ts";
import { issueText } from "./issue-text.ts";
import { decoded } from "./inline-data.ts";
import { certificatesIn, problemOfPair } from "./pem.ts";
import { isToken, kubeconfigFrom, User } from "./schema.ts";
import type { Cluster, Kubeconfig } from "./schema.ts";

/** Interval after which a token file and the kubeconfig are read again. */
const TOKEN_MS_MAX = 60_000;
/** Interval after which the same rejected credentials are looked for in files again: a user renews them at some time after they expired. */
const REJECTED_MS = 2_000;

/** The merged entries of all files, each with the folder of its file. */
interface Merged {
  readonly clusters: readonly (Kubeconfig["clusters"][number] & In)[];
  readonly users: readonly (Kubeconfig["users"][number] & In)[];
  readonly contexts: readonly Kubeconfig["contexts"][number][];
  readonly "current-context": string;
}

interface In {
  readonly folder: string;
}

/**
 * Reads the kubeconfig at `path`, or merges those of a list of paths as in KUBECONFIG: the first file that names a cluster, user or context
 * defines it. Files that do not exist are skipped if at least one file exists.
 *
 * Source: client-go tools/clientcmd/loader.go ClientConfigLoadingRules.Load.
 *
 * @throws {Error} with the file and the problem, never with its content
 */
export async function readKubeconfig(path: string): Promise<Merged> {
  const files = filesIn(path);
  const read = await Promise.allSettled(files.map((file) => readOne(file)));
  const broken = read.find(({ status }, i) => status === "rejected" && !isMissing(read[i]));
  const all = read.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const failed = broken ?? (all.length === 0 ? read[0] : undefined);
  if (failed?.status === "rejected") throw failed.reason;
  const firstOf = <T extends { readonly name: string }>(named: readonly T[]): readonly T[] =>
    named.filter(({ name }, i) => named.findIndex((each) => each.name === name) === i);
  const within = <T>(list: (config: Kubeconfig) => readonly T[]): readonly (T & In)[] =>
    all.flatMap(({ config, folder }) => list(config).map((entry) => ({ ...entry, folder })));
  return {
    clusters: firstOf(within(({ clusters }) => clusters)),
    users: firstOf(within(({ users }) => users)),
    contexts: firstOf(within(({ contexts }) => contexts)),
    "current-context": all.map(({ config }) => config["current-context"]).find((name) => name !== "") ?? "",
  };
}

function isMissing(result: PromiseSettledResult<unknown> | undefined): boolean {
  const cause: unknown = result?.status === "rejected" && result.reason instanceof Error ? result.reason.cause : undefined;
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}

async function readOne(path: string): Promise<{ readonly config: Kubeconfig } & In> {
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw new Error(`kubeconfig ${path} cannot be read: ${messageOf(cause)}`, { cause });
  });
  return { config: parseKubeconfig(bytes, `kubeconfig ${path}`), folder: dirname(resolve(path)) };
}

/** Parses a kubeconfig file. @throws {Error} with `what` and the problem, never with the content */
export function parseKubeconfig(bytes: Buffer, what: string): Kubeconfig {
  const content = textOf(bytes);
  let parsed: unknown;
  try {
    parsed = parseYaml(content);
  } catch (error) {
    // The last line of the parser's message quotes the input, which may hold a secret.
    throw new Error(`${what} is ${messageOf(error).split("\n")[0]}`);
  }
  return kubeconfigFrom(parsed ?? {}, what);
}

/** UTF-8, or UTF-16 that begins with its byte order mark, as PowerShell writes it. */
function textOf(bytes: Buffer): string {
  const mark = bytes.toString("hex", 0, 2);
  const encoding = mark === "fffe" ? "utf-16le" : mark === "feff" ? "utf-16be" : "utf-8";
  return new TextDecoder(encoding).decode(bytes);
}

/**
 * Client configuration for `context` (default: the current one). Tokens and client certificates from exec plugins and files are renewed
 * when they expire, are rejected, or may have been replaced.
 *
 * @throws {Error} naming what is missing: the context, its cluster, or its user; {TokenInClearError}
 */
export async function kubeHttpConfigFrom(
  path: string,
  options: { readonly component: string; readonly context?: string; readonly fieldManager?: string },
): Promise<KubeHttpConfig> {
  const read = await versionOf(path); // before the file is read, so that a change meanwhile is noticed
  const config = await readKubeconfig(path);
  // The context is fixed here, because a later change of the current context must not change the cluster.
  const context = options.context ?? config["current-context"];
  const { cluster, user } = chosen(config, path, context);
  const { server } = cluster;
  const ca = await named(path, context, authorityOf(cluster, cluster.folder));
  const serverName = cluster["tls-server-name"];
  const credentials = await named(path, context, credentialsOf(user, user.folder, execCluster(cluster, ca)));
  if (credentials.token !== undefined && showsToken(server)) throw new TokenInClearError(server);
  const { cert, key } = credentials;
  // Inline data is re-read with the kubeconfig; a certificate file is re-read separately.
  const isFollowed = cert !== undefined && user["client-certificate-data"] === "";
  let last = credentials;
  /** Of the file from which `last` was read. Absent if credentials are in other files too, or from a plugin. */
  let version = isInline(user) ? read : undefined;
  const followed = cached(credentials, renewed, user.exec ? TOKEN_MS_MAX : REJECTED_MS);
  return {
    server,
    component: options.component,
    ...(options.fieldManager !== undefined && { fieldManager: options.fieldManager }),
    ...(cluster["proxy-url"] !== "" && { proxy: proxyOf(cluster["proxy-url"], `proxy-url of context "${context}" of ${path}`) }),
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

  /**
   * Reads the file again, unless it is unchanged: parsing takes milliseconds, each minute and cluster. A file that names another server is
   * ignored, and the client keeps its credentials.
   */
  async function renewed(): Promise<Credentials> {
    const found = version === undefined ? undefined : await versionOf(path);
    if (found !== undefined && found === version) return last;
    const latest = chosen(await readKubeconfig(path), path, context);
    version = isInline(latest.user) ? found : undefined;
    if (latest.cluster.server === server)
      last = await named(path, context, credentialsOf(latest.user, latest.user.folder, execCluster(latest.cluster, ca)));
    return last;
  }
}

function isInline(user: ReturnType<typeof chosen>["user"]): boolean {
  return !user.exec && [user.tokenFile, user["client-certificate"], user["client-key"]].every((file) => file === "");
}

/** Changes with the file; undefined for several files, or one that cannot be read. */
async function versionOf(path: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found && [found.size, found.ino, found.mtimeNs, found.ctimeNs].join();
}

/** The namespace of a context (default: the current one). @throws {Error} when the kubeconfig cannot be read */
export async function namespaceOf(path: string, context?: string): Promise<string> {
  const config = await readKubeconfig(path);
  const found = config.contexts.find(({ name }) => name === (context ?? config["current-context"]));
  return found?.context?.namespace || "default";
}

/** Location of the client certificate of a kubeconfig's user. File paths are absolute. */
export interface CertificatePlaces {
  readonly certFile?: string;
  readonly keyFile?: string;
  /** Inline certificate data of the kubeconfig, PEM. */
  readonly cert?: string;
  readonly key?: string;
}

/** @throws as `kubeHttpConfigFrom` does for the kubeconfig itself; the files need not exist */
export async function certificatePlaces(path: string, context?: string): Promise<CertificatePlaces> {
  const { user } = chosen(await readKubeconfig(path), path, context);
  const { folder } = user;
  const [cert, key] = (["client-certificate", "client-key"] as const).map((field) => decoded(field, user[`${field}-data`]).toString());
  const [certFile, keyFile] = [user["client-certificate"], user["client-key"]];
  return {
    ...(cert !== "" ? { cert } : certFile !== "" && { certFile: resolve(folder, certFile) }),
    ...(key !== "" ? { key } : keyFile !== "" && { keyFile: resolve(folder, keyFile) }),
  } as CertificatePlaces; // a spread of `false` adds nothing
}

/**
 * A kubeconfig for the cluster of `path` with certificate and key in `pemPath`.
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
    ...(caFile !== "" && { "certificate-authority": resolve(cluster.folder, caFile) }),
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

function chosen(config: Merged, path: string, requested: string | undefined): { readonly cluster: Cluster & In; readonly user: User & In } {
  const name = requested ?? config["current-context"];
  const context = config.contexts.find((each) => each.name === name)?.context;
  if (context === undefined) {
    const known = config.contexts.map((each) => each.name).join(", ") || "none";
    throw new Error(
      name === "" ? `${path} has no current-context; name one of: ${known}` : `no context "${name}" in ${path}; it has: ${known}`,
    );
  }
  const entry = config.clusters.find((each) => each.name === context.cluster);
  if (entry === undefined || entry.cluster.server === "") throw new Error(`context "${name}" of ${path} names no cluster of that file`);
  const { cluster, folder } = entry;
  const found = config.users.find((each) => each.name === context.user);
  const user = found?.user;
  if (user === undefined && context.user !== "") throw new Error(`context "${name}" of ${path} names no user of that file`);
  const refused = unsupported(context.cluster, cluster, user);
  if (refused !== undefined) throw new Error(`context "${name}" of ${path} uses ${refused}`);
  return { cluster: { ...cluster, folder }, user: { ...(user ?? v.parse(User, {})), folder: found?.folder ?? folder } };
}

/** Source: client-go tools/clientcmd/validation.go; transport/transport.go TLSConfigFor. Quotes nothing of a rejected server URL. */
function unsupported(name: string, cluster: Cluster, user: User | undefined): string | undefined {
  const wrong = wrongServer(cluster.server);
  if (wrong !== undefined) return `cluster "${name}", whose server ${wrong}`;
  if (cluster["insecure-skip-tls-verify"] && (cluster["certificate-authority"] !== "" || cluster["certificate-authority-data"] !== ""))
    return `cluster "${name}", which sets insecure-skip-tls-verify and a certificate authority: remove one of them`;
  if (user === undefined) return undefined;
  if (user.username !== "" || user.password !== "") return "username and password, which API servers no longer accept";
  if (isGiven(user["auth-provider"])) return "auth-provider, which Kubernetes has replaced by exec plugins";
  const impersonates = [
    ...(["as", "as-uid"] as const).filter((field) => user[field] !== ""),
    ...(["as-groups", "as-user-extra"] as const).filter((field) => Object.keys(user[field]).length > 0),
  ];
  return impersonates.length === 0 ? undefined : `impersonation (${impersonates.join(", ")}), which is not supported`;
}

function wrongServer(server: string): string | undefined {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return "is not a URL that begins with https:// (or http://)";
  if (url.username !== "" || url.password !== "")
    return "contains a user name or password, which API servers no longer accept: remove it from the URL";
  return url.search === "" && url.hash === "" ? undefined : "contains a query or fragment: remove the part from ? or # on";
}

/** @throws {Error} the error of `reading`, prefixed with context and path */
async function named<T>(path: string, context: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    throw new Error(`context "${context}" of ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * A token file takes precedence over a token, and both over a plugin. A certificate of the kubeconfig takes precedence over that of a
 * plugin.
 *
 * Source: client-go transport/round_trippers.go HTTPWrappersForConfig; plugin/pkg/client/auth/exec/exec.go UpdateTransportConfig. Differs
 * from upstream: an unreadable token file is an error even if there is a token.
 */
async function credentialsOf(user: User, folder: string, cluster: ExecCluster): Promise<Credentials> {
  const own = await ownCertificate(user, folder);
  if (user.tokenFile !== "") return { ...own, token: await tokenIn(resolve(folder, user.tokenFile)) };
  if (user.token !== "") {
    if (!isToken(user.token)) throw new Error("token contains a line break or another character that is invalid in a token");
    return { ...own, token: user.token };
  }
  if (!isGiven(user.exec)) return own;
  const plugin = v.safeParse(ExecPlugin, user.exec);
  if (plugin.success) return { ...(await runExecPlugin(plugin.output, folder, cluster)), ...own };
  throw new Error(`exec.${issueText(plugin.issues[0])}`);
}

async function ownCertificate(user: User, folder: string): Promise<Pick<Credentials, "cert" | "key">> {
  const cert = await given("client-certificate", user, folder);
  const key = await given("client-key", user, folder);
  if (cert !== undefined && key === undefined) throw new Error(`${placeOf("client-certificate", user)} is set without client-key`);
  const problem = cert === undefined || key === undefined ? undefined : problemOfPair(cert.toString(), key.toString());
  if (problem !== undefined) throw new Error(`${placeOf("client-certificate", user)} ${problem}`);
  return { ...(cert && { cert: cert.toString() }), ...(key && { key: key.toString() }) };
}

/** Surrounding white space is trimmed. Source: client-go transport/token_source.go fileTokenSource. */
async function tokenIn(file: string): Promise<string> {
  const token = (await contentOf("tokenFile", file)).toString().trim();
  if (token === "") throw new Error(`tokenFile ${file} is empty`);
  if (!isToken(token)) throw new Error(`tokenFile ${file} contains a line break or another character that is invalid in a token`);
  return token;
}

async function authorityOf(cluster: Cluster, folder: string): Promise<Buffer | undefined> {
  const ca = await given("certificate-authority", cluster, folder);
  if (ca !== undefined && certificatesIn(ca.toString()).length === 0)
    throw new Error(`${placeOf("certificate-authority", cluster)} contains no PEM certificate`);
  return ca;
}

function certificateIn({ cert, key }: Credentials): ClientCertificate | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Name of the cluster extension for plugins. Source: client-go tools/clientcmd/api/types.go; tools/clientcmd/client_config.go. */
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

type Given<F extends string> = Readonly<Record<F | `${F}-data`, string>>;

function placeOf<F extends string>(field: F, fields: Given<F>): string {
  return fields[`${field}-data`] === "" ? `${field} ${fields[field]}` : `${field}-data`;
}

/** Inline data takes precedence over a file. A file's path is relative to the kubeconfig's folder. */
async function given<F extends string>(field: F, fields: Given<F>, folder: string): Promise<Buffer | undefined> {
  const [data, file] = [fields[`${field}-data`], fields[field]];
  if (data !== "") return decoded(field, data);
  return file === "" ? undefined : await contentOf(field, resolve(folder, file));
}

async function contentOf(field: string, file: string): Promise<Buffer> {
  return await readFile(file).catch((error: unknown) => {
    throw new Error(`${field} cannot be read: ${messageOf(error)}`);
  });
}

/**
 * Renews rejected credentials at once, and the same credentials again after `againMs`. Otherwise every call would run a plugin, or read a
 * file, that returns the same credentials.
 */
function cached(
  first: Credentials,
  ask: () => Promise<Credentials>,
  againMs: number,
): (refused: Pick<Credentials, "token" | "cert">) => Promise<Credentials> {
  let credentials: Promise<Credentials> | undefined = Promise.resolve(first);
  let dueMs = dueAt(first);
  let renewed: { readonly refused: string; readonly atMs: number } | undefined;
  return async ({ token, cert }) => {
    const known = credentials;
    const refused = token ?? cert;
    const given = await known?.catch(() => undefined);
    const isRefused = refused !== undefined && refused === (token === undefined ? given?.cert : given?.token);
    const isSoon = renewed !== undefined && refused === renewed.refused && Date.now() - renewed.atMs < againMs;
    const isDue = Date.now() > dueMs || (isRefused && !isSoon);
    if (credentials === undefined || (credentials === known && isDue)) {
      if (isRefused) renewed = { refused, atMs: Date.now() };
      dueMs = Date.now() + TOKEN_MS_MAX;
      credentials = ask();
      // This call gets the error; the next call retries.
      credentials.then(
        (got) => (dueMs = dueAt(got)),
        () => (credentials = undefined),
      );
    }
    return await credentials;
  };
}

/** Credentials of a plugin are valid until they expire or are rejected; a file may change at any time. */
function dueAt({ expiresAtMs = Date.now() + TOKEN_MS_MAX }: Credentials): number {
  return expiresAtMs;
}
