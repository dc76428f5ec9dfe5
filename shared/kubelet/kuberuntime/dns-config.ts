/** The names a pod has and finds: its hostname, its /etc/hosts, its resolv.conf (node-agent §7.2, §7.5). */
import type { PodSandboxConfig } from "../../ports/cri-types.ts";
import type { NodeOptions } from "../node-options.ts";
import type { NodePod } from "../pod.ts";

export interface DnsConfig {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

/** `problems`: what had to be left out, for the Warning event DNSConfigForming. */
export interface PodDns {
  readonly config: DnsConfig & NonNullable<PodSandboxConfig["dnsConfig"]>;
  readonly problems: readonly string[];
}

/** What resolvers can be relied on to read. Source: pkg/apis/core/validation/validation.go MaxDNS*. */
const SERVERS_MAX = 3;
const SEARCHES_MAX = 32;
const SEARCH_LENGTH_MAX = 253;
const SEARCH_LINE_LENGTH_MAX = 2048;

const EMPTY: DnsConfig = { servers: [], searches: [], options: [] };

/**
 * What the pod's `dnsPolicy` asks for, with `dnsConfig` merged in and cut to what resolvers can read. `resolvConf` is the
 * machine's. A cluster without DNS addresses treats every pod as `Default`.
 *
 *     ClusterFirst in namespace ns, machine searches `corp` → cluster DNS, `ns.svc.<d> svc.<d> <d> corp`, ndots:5
 *
 * Source: pkg/kubelet/network/dns/dns.go GetPodDNS.
 */
export function podDns({ metadata, spec }: NodePod, options: NodeOptions, resolvConf: string): PodDns {
  const base = baseConfig(dnsPolicyOf(spec, options), metadata.namespace, options, parseResolvConf(resolvConf));
  const { nameservers = [], searches = [], options: ofPod = [] } = spec.dnsConfig ?? {};
  return withinLimits({
    servers: unique([...base.servers, ...nameservers]),
    searches: unique([...base.searches, ...searches]),
    options: mergeOptions(base.options, ofPod),
  });
}

type Policy = "ClusterFirst" | "Default" | "None";

/** A name that nobody knows is taken for ClusterFirst. */
function dnsPolicyOf({ dnsPolicy, hostNetwork }: NodePod["spec"], { clusterDns }: NodeOptions): Policy {
  if (dnsPolicy === "None" || dnsPolicy === "Default") return dnsPolicy;
  const ofHost = hostNetwork === true && dnsPolicy === "ClusterFirst";
  return ofHost || clusterDns.length === 0 ? "Default" : "ClusterFirst";
}

function baseConfig(policy: Policy, namespace: string, { clusterDns, clusterDomain }: NodeOptions, machines: DnsConfig): DnsConfig {
  switch (policy) {
    case "None":
      return EMPTY;
    case "Default":
      return machines;
    case "ClusterFirst": {
      const ofCluster = clusterDomain === "" ? [] : [`${namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain];
      return { servers: clusterDns, searches: unique([...ofCluster, ...machines.searches]), options: ["ndots:5"] };
    }
  }
}

/**
 * Name servers add up; of several `search` or `options` lines the last one counts. Domains lose their final dot, so that one
 * written in both ways counts once. Source: pkg/kubelet/network/dns/dns.go parseResolvConf.
 */
function parseResolvConf(text: string): DnsConfig {
  const lines = text
    .split("\n")
    .map((line) => line.trim().split(/\s+/u))
    .map(([keyword = "", ...values]) => ({ keyword, values }));
  const last = (keyword: string): readonly string[] => lines.findLast((line) => line.keyword === keyword)?.values ?? [];
  return {
    servers: lines.flatMap(({ keyword, values }) => (keyword === "nameserver" ? values.slice(0, 1) : [])),
    searches: last("search").map((domain) => (domain === "." ? domain : domain.replace(/\.$/u, ""))),
    options: last("options"),
  };
}

/** An option of the pod replaces the machine's of that name. */
function mergeOptions(base: readonly string[], ofPod: readonly { readonly name?: string; readonly value?: string }[]): readonly string[] {
  const split = base.map((option) => option.split(/:(.*)/su)).map(([name = "", value = ""]) => [name, value] as const);
  const values = new Map([...split, ...ofPod.map(({ name = "", value = "" }) => [name, value] as const)]);
  return [...values].map(([name, value]) => (value === "" ? name : `${name}:${value}`));
}

function unique(items: readonly string[]): readonly string[] {
  return [...new Set(items)];
}

/** Source: pkg/kubelet/network/dns/dns.go formDNSConfigFitsLimits. */
function withinLimits({ options, searches, servers }: DnsConfig): PodDns {
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

/** The kernel's field holds 64 characters and a NUL; upstream leaves one more free for a plain hostname. */
const HOSTNAME_LENGTH_MAX = 63;
const FQDN_LENGTH_MAX = 64;

/** A sandbox cannot be made as the pod's spec says. Nothing but another spec helps; shown in the event FailedCreatePodSandBox. */
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
 * What `hostname` prints in the pod: its short name, or with `setHostnameAsFQDN` the whole one.
 *
 * @throws {PodSandboxConfigError} when the whole one is too long for the kernel
 *
 * Source: pkg/kubelet/util/util.go GetNodenameForKernel.
 */
export function kernelHostname(pod: NodePod, clusterDomain: string): string {
  const { domain, hostname } = podHostname(pod, clusterDomain);
  if (pod.spec.setHostnameAsFQDN !== true || domain === "") return hostname;
  const fqdn = `${hostname}.${domain}`;
  if (fqdn.length <= FQDN_LENGTH_MAX) return fqdn;
  const limits = `${FQDN_LENGTH_MAX} characters is the max, ${fqdn.length} characters requested`;
  throw new PodSandboxConfigError(`failed to construct FQDN from pod hostname and cluster domain, FQDN ${fqdn} is too long (${limits})`);
}

/** A hostname must not end in what the cut may leave there. */
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
 * The file's content. `machinesOwn` is the machine's /etc/hosts; only a pod in the host's network sees it.
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
export function hostsFile(pod: NodePod, podIps: readonly string[], machinesOwn: string, options: NodeOptions): string {
  if (pod.spec.hostNetwork === true) return `# Kubernetes-managed hosts file (host network).\n${machinesOwn}${aliases(pod)}`;
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
