/**
 * Decides which kubeconfigs of others a deployment accepts. The author of such a file may be hostile: its content must not run programs,
 * read files, or send requests and credentials anywhere but to the cluster that the file describes.
 *
 * VE1 every entry of the file counts, because roles select contexts by name; so all clusters of the file must be one server.
 * VE2 a problem names the place and what to do, and quotes nothing of the file.
 */
import type { Kubeconfig } from "../schema.ts";
import { nearAddress } from "./address.ts";
import type { NearAddress } from "./address.ts";

/** What an operator may allow. References to files never are: `deltaloop cluster add --embed` replaces them by their content. */
export const ALLOWANCES = ["exec", "proxy", "insecure", "loopback", "link-local"] as const;
export type Allowance = (typeof ALLOWANCES)[number];

/** One line for each reason to reject the file: place, reason, remedy. */
export type Problem = string;

type Cluster = Kubeconfig["clusters"][number]["cluster"];
type User = Kubeconfig["users"][number]["user"];

const CLUSTER_FILES = ["certificate-authority"] as const;
const USER_FILES = ["client-certificate", "client-key", "tokenFile"] as const;
const EMBED = "embed it: deltaloop cluster add --embed";

/** The problems of a file by itself. Those of the addresses of its server's name: `addressProblem`. */
export function vetKubeconfig(config: Kubeconfig, allowed: ReadonlySet<Allowance>): readonly Problem[] {
  const problems = [
    ...config.clusters.flatMap(({ cluster }, i) => clusterProblems(`clusters[${i}].cluster`, cluster, allowed)),
    ...config.users.flatMap(({ user }, i) => userProblems(`users[${i}].user`, user, allowed)),
  ];
  return problems.length > 0 ? problems : shapeProblems(config);
}

function clusterProblems(at: string, cluster: Cluster, allowed: ReadonlySet<Allowance>): readonly Problem[] {
  return [
    ...filesOf(at, cluster, CLUSTER_FILES),
    ...(cluster["proxy-url"] !== "" && !allowed.has("proxy")
      ? [refusal(`${at}.proxy-url`, "sends requests to another server", "proxy")]
      : []),
    ...(cluster["insecure-skip-tls-verify"] && !allowed.has("insecure")
      ? [refusal(`${at}.insecure-skip-tls-verify`, "lets any server receive the credentials", "insecure", "set certificate-authority-data")]
      : []),
    ...serverProblems(`${at}.server`, cluster.server, allowed),
  ];
}

function serverProblems(at: string, server: string, allowed: ReadonlySet<Allowance>): readonly Problem[] {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (
    url === undefined ||
    !/^https?:$/.test(url.protocol) ||
    url.username !== "" ||
    url.password !== "" ||
    url.search !== "" ||
    url.hash !== ""
  )
    return [`${at}: is not https://HOST:PORT: correct it`];
  return [
    ...(url.protocol === "http:" && !allowed.has("insecure") ? [refusal(at, "is not encrypted", "insecure", "use https://")] : []),
    ...nearProblems(at, "is", [literalAddress(url.hostname)], allowed),
  ];
}

/** The problem of the addresses that a server's name resolves to. */
export function addressProblem(addresses: readonly string[], allowed: ReadonlySet<Allowance>): Problem | undefined {
  return nearProblems("clusters[0].cluster.server", "resolves to", addresses, allowed)[0];
}

function nearProblems(at: string, verb: string, addresses: readonly string[], allowed: ReadonlySet<Allowance>): readonly Problem[] {
  const near = new Set(addresses.map(nearAddress));
  return ([...near].filter((kind) => kind !== undefined && !allowed.has(kind)) as NearAddress[]).map((kind) =>
    refusal(at, `${verb} a ${kind} address of this machine`, kind, "use the address that other machines use"),
  );
}

/** The address that a URL's host denotes by itself; a name is returned as it is. `localhost` is loopback by definition. */
function literalAddress(hostname: string): string {
  const host = hostname.replace(/\.$/, "");
  if (host === "localhost" || host.endsWith(".localhost")) return "127.0.0.1";
  return host.startsWith("[") ? host.slice(1, -1) : host;
}

function userProblems(at: string, user: User, allowed: ReadonlySet<Allowance>): readonly Problem[] {
  const isGiven = (value: unknown): boolean => value !== undefined && value !== null;
  const unsupported = (["auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra"] as const).filter((field) => {
    const value = user[field];
    return field === "auth-provider" ? isGiven(value) : Object.keys(value ?? {}).length > 0;
  });
  return [
    ...(isGiven(user.exec) && !allowed.has("exec")
      ? [refusal(`${at}.exec`, "runs a program", "exec", "use a token or a client certificate")]
      : []),
    ...unsupported.map((field) => `${at}.${field}: is not supported: use a token or a client certificate`),
    ...filesOf(at, user, USER_FILES),
  ];
}

function filesOf<F extends string>(at: string, fields: Readonly<Record<F, string>>, names: readonly F[]): readonly Problem[] {
  return names.filter((name) => fields[name] !== "").map((name) => `${at}.${name}: refers to a file of this machine: ${EMBED}`);
}

/** VE1 */
function shapeProblems(config: Kubeconfig): readonly Problem[] {
  const current = config.contexts.find(({ name }) => name === config["current-context"])?.context;
  if (current === undefined) return ["current-context: is not a context of the file: set it"];
  const { cluster } = current;
  if (!config.clusters.some(({ name }) => name === cluster))
    return [`contexts[${config["current-context"]}].cluster: "${cluster}" is not a cluster of the file: add it, or correct the name`];
  const servers = new Set(config.clusters.map(({ cluster }) => serverKey(cluster)));
  return servers.size === 1 ? [] : ["clusters: has several servers: keep one cluster per file"];
}

/** Returns a key that is equal for entries of the same server: its URL, CA and name in the certificate. */
export function serverKey(cluster: Cluster): string {
  const { server, "certificate-authority-data": ca, "tls-server-name": name, "proxy-url": proxy } = cluster;
  return JSON.stringify([new URL(server).href, ca.replaceAll(/\s/g, ""), name, proxy, cluster["insecure-skip-tls-verify"]]);
}

function refusal(at: string, why: string, allowance: Allowance, remedy = "remove it"): Problem {
  return `${at}: ${why}: ${remedy}, or add --allow ${allowance}`;
}
