/** Hostname, /etc/hosts and resolv.conf of a pod (node-agent §7.2, §7.5). */
import { messageOf } from "@deltaloop/kube/objects";
import type { PodSandboxConfig } from "../../ports/cri-types.ts";
import type { NodeOptions } from "../types/node-options.ts";
import type { NodePod } from "../types/pod.ts";

export interface DnsConfig {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

export interface PodDns {
  readonly config: DnsConfig & NonNullable<PodSandboxConfig["dnsConfig"]>;
  /** Messages about omitted entries, for the Event DNSConfigForming. */
  readonly problems: readonly string[];
  /** Whether the pod requests cluster DNS although none is configured. */
  readonly lacksClusterDns: boolean;
}

/** Limits that common resolvers have. Source: pkg/apis/core/validation/validation.go MaxDNS*. */
const SERVERS_MAX = 3;
const SEARCHES_MAX = 32;
const SEARCH_LENGTH_MAX = 253;
const SEARCH_LINE_LENGTH_MAX = 2048;
/** Number of search domains of the cluster. */
const CLUSTER_SEARCHES = 3;
/** Source: dns.go maxResolvConfLength. */
const RESOLV_CONF_LENGTH_MAX = 10 * 1024 * 1024;

const EMPTY: DnsConfig = { servers: [], searches: [], options: [] };

/** Message of the Event MissingClusterDNS. Source: dns.go GetPodDNS. */
export const MISSING_CLUSTER_DNS =
  'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';

/**
 * Builds the DNS configuration from `dnsPolicy` and `dnsConfig`, within resolver limits. `resolvConf` is the content of `--resolv-conf`; if
 * it is absent, the policy Default uses the machine's own resolver.
 *
 *     ClusterFirst in namespace ns, machine searches `corp` → cluster DNS, `ns.svc.<d> svc.<d> <d> corp`, ndots:5
 *
 * @throws {PodSandboxConfigError} for an unreadable file. Source: pkg/kubelet/network/dns/dns.go GetPodDNS.
 */
export function podDns({ metadata, spec }: NodePod, options: NodeOptions, resolvConf: string | undefined): PodDns {
  const policy = dnsPolicyOf(spec);
  const lacksClusterDns = policy === "ClusterFirst" && options.clusterDns.length === 0;
  const base = baseConfig(lacksClusterDns ? "Default" : policy, metadata.namespace, options, resolvConf);
  const { nameservers = [], searches = [], options: ofPod = [] } = spec.dnsConfig ?? {};
  const whole = {
    servers: unique([...base.servers, ...nameservers]),
    searches: unique([...base.searches, ...searches]),
    options: mergeOptions(base.options, ofPod),
  };
  return { ...withinLimits(whole), lacksClusterDns };
}

type Policy = "ClusterFirst" | "Default" | "None";

/** Treats unknown policies as ClusterFirst. */
function dnsPolicyOf({ dnsPolicy, hostNetwork }: NodePod["spec"]): Policy {
  if (dnsPolicy === "None" || dnsPolicy === "Default") return dnsPolicy;
  return hostNetwork === true && dnsPolicy === "ClusterFirst" ? "Default" : "ClusterFirst";
}

function baseConfig(policy: Policy, namespace: string, options: NodeOptions, resolvConf: string | undefined): DnsConfig {
  const host = resolvConf === undefined ? EMPTY : parseResolvConf(resolvConf);
  const { clusterDns, clusterDomain, hostIps } = options;
  switch (policy) {
    case "None":
      return EMPTY;
    case "Default":
      return resolvConf === undefined ? { ...EMPTY, servers: hostIps.map(loopbackOf), searches: ["."] } : host;
    case "ClusterFirst": {
      const ofCluster = clusterDomain === "" ? [] : [`${namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain];
      return { servers: clusterDns, searches: unique([...ofCluster, ...host.searches]), options: ["ndots:5"] };
    }
  }
}

function loopbackOf(address: string): string {
  return address.includes(":") ? "::1" : "127.0.0.1";
}

/**
 * Name servers and options accumulate; the last value of an option and the last `search` line win. Removes trailing dots and the root
 * domain. @throws {PodSandboxConfigError} for a name server without an address. Source: dns.go parseResolvConf, appendOptions.
 */
function parseResolvConf(text: string): DnsConfig {
  const lines = text
    .slice(0, RESOLV_CONF_LENGTH_MAX)
    .split("\n")
    .map((line) => line.trim().split(/\s+/u))
    .map(([keyword = "", ...values]) => ({ keyword, values }));
  const of = (keyword: string): readonly (readonly string[])[] => lines.flatMap((line) => (line.keyword === keyword ? [line.values] : []));
  const servers = of("nameserver").flatMap((values) => values.slice(0, 1));
  if (servers.length < of("nameserver").length)
    throw new PodSandboxConfigError("Encountered error while parsing resolv conf file. Error: nameserver list is empty ");
  return {
    servers,
    searches: (of("search").at(-1) ?? []).filter((domain) => domain !== ".").map((domain) => domain.replace(/\.$/u, "")),
    options: [...new Map(of("options").flatMap((options) => options.map((option) => [option.split(":")[0], option] as const))).values()],
  };
}

/**
 * Returns the message of the Event CheckLimitsForResolvConf if the machine's resolv.conf exceeds a limit. Source: dns.go
 * CheckLimitsForResolvConf.
 */
export function resolvConfProblem(path: string, text: string, clusterDomain: string): string | undefined {
  let searches: readonly string[];
  try {
    ({ searches } = parseResolvConf(text));
  } catch (error) {
    return messageOf(error).replace(/^.*Error: /u, "");
  }
  const searchesMax = clusterDomain === "" ? SEARCHES_MAX : SEARCHES_MAX - CLUSTER_SEARCHES;
  if (searches.length > searchesMax)
    return `Resolv.conf file '${path}' contains search line consisting of more than ${searchesMax} domains!`;
  if (searches.some((domain) => domain.length > SEARCH_LENGTH_MAX))
    return `Resolv.conf file "${path}" contains a search path which length is more than allowed ${SEARCH_LENGTH_MAX} chars!`;
  if (searches.join(" ").length > SEARCH_LINE_LENGTH_MAX)
    return `Resolv.conf file '${path}' contains search line which length is more than allowed ${SEARCH_LINE_LENGTH_MAX} chars!`;
  return undefined;
}

/** The pod's options override the machine's. */
function mergeOptions(base: readonly string[], ofPod: readonly { readonly name?: string; readonly value?: string }[]): readonly string[] {
  const split = base.map((option) => option.split(/:(.*)/su)).map(([name = "", value = ""]) => [name, value] as const);
  const values = new Map([...split, ...ofPod.map(({ name = "", value = "" }) => [name, value] as const)]);
  return [...values].map(([name, value]) => (value === "" ? name : `${name}:${value}`));
}

function unique(items: readonly string[]): readonly string[] {
  return [...new Set(items)];
}

/** Source: pkg/kubelet/network/dns/dns.go formDNSConfigFitsLimits. */
function withinLimits({ options, searches, servers }: DnsConfig): Omit<PodDns, "lacksClusterDns"> {
  const keptServers = servers.slice(0, SERVERS_MAX);
  const keptSearches = searchesWithinLimits(searches);
  const problems = [
    keptServers.length < servers.length &&
      `Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ${keptServers.join(" ")}`,
    keptSearches.length < searches.length &&
      `Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ${keptSearches.join(" ")}`,
  ].filter((problem) => problem !== false);
  return { config: { servers: keptServers, searches: keptSearches, options }, problems };
}

function searchesWithinLimits(searches: readonly string[]): readonly string[] {
  const kept = searches.slice(0, SEARCHES_MAX).filter((domain) => domain.length <= SEARCH_LENGTH_MAX);
  while (kept.join(" ").length > SEARCH_LINE_LENGTH_MAX) kept.pop();
  return kept;
}

/** The kernel allows 64 characters; upstream uses 63 for a short hostname. */
const HOSTNAME_LENGTH_MAX = 63;
const FQDN_LENGTH_MAX = 64;

/**
 * The sandbox cannot be created from this spec; only a change of the spec helps. The message is shown in the Event FailedCreatePodSandBox.
 */
export class PodSandboxConfigError extends Error {
  override readonly name = "PodSandboxConfigError";
}

export interface PodHostname {
  readonly hostname: string;
  /** `<subdomain>.<namespace>.svc.<cluster domain>`, or empty. */
  readonly domain: string;
}

/** Source: pkg/kubelet/kubelet_pods.go GeneratePodHostNameAndDomain, truncatePodHostnameIfNeeded. */
function podHostname({ metadata, spec }: NodePod, clusterDomain: string): PodHostname {
  if (spec.hostnameOverride !== undefined) return { hostname: truncated(spec.hostnameOverride), domain: "" };
  return {
    hostname: truncated(spec.hostname || metadata.name),
    domain: spec.subdomain ? `${spec.subdomain}.${metadata.namespace}.svc.${clusterDomain}` : "",
  };
}

/**
 * The pod's kernel hostname: the short name, or the FQDN if `setHostnameAsFQDN` is set. @throws {PodSandboxConfigError} for an FQDN that is
 * too long. Source: pkg/kubelet/util/util.go GetNodenameForKernel.
 */
export function kernelHostname(pod: NodePod, clusterDomain: string): string {
  const { domain, hostname } = podHostname(pod, clusterDomain);
  if (pod.spec.setHostnameAsFQDN !== true || domain === "") return hostname;
  const fqdn = `${hostname}.${domain}`;
  if (fqdn.length <= FQDN_LENGTH_MAX) return fqdn;
  const limits = `${FQDN_LENGTH_MAX} characters is the max, ${fqdn.length} characters requested`;
  throw new PodSandboxConfigError(`failed to construct FQDN from pod hostname and cluster domain, FQDN ${fqdn} is too long (${limits})`);
}

/** Truncates to the maximum length, and removes trailing separators. */
function truncated(hostname: string): string {
  return hostname.length <= HOSTNAME_LENGTH_MAX ? hostname : hostname.slice(0, HOSTNAME_LENGTH_MAX).replace(/[-.]+$/u, "");
}

const LOOPBACK = [
  "127.0.0.1\tlocalhost",
  "::1\tlocalhost ip6-localhost ip6-loopback",
  "fe00::0\tip6-localnet",
  "fe00::0\tip6-mcastprefix",
  "fe00::1\tip6-allnodes",
  "fe00::2\tip6-allrouters",
];

/**
 * Generates the hosts file. `hostFile` is the content of the machine's /etc/hosts, which is used with host networking.
 *
 *     # Kubernetes-managed hosts file.
 *     127.0.0.1       localhost
 *     …
 *     10.0.0.12       web-0.web.default.svc.cluster.local     web-0
 *
 *     # Entries added by HostAliases.
 *     10.1.2.3        foo.remote      bar.remote
 *
 * Source: pkg/kubelet/kubelet_pods.go managedHostsFileContent, nodeHostsFileContent.
 */
export function hostsFile(pod: NodePod, podIps: readonly string[], hostFile: string, options: NodeOptions): string {
  if (pod.spec.hostNetwork === true) return `# Kubernetes-managed hosts file (host network).\n${hostFile}${aliases(pod)}`;
  const { domain, hostname } = podHostname(pod, options.clusterDomain);
  const names = domain === "" ? hostname : `${hostname}.${domain}\t${hostname}`;
  return text(["# Kubernetes-managed hosts file.", ...LOOPBACK, ...podIps.map((ip) => `${ip}\t${names}`)]) + aliases(pod);
}

function aliases({ spec: { hostAliases = [] } }: NodePod): string {
  if (hostAliases.length === 0) return "";
  return text(["", "# Entries added by HostAliases.", ...hostAliases.map(({ ip, hostnames = [] }) => [ip, ...hostnames].join("\t"))]);
}

function text(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
