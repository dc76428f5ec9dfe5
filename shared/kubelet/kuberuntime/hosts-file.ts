/** The /etc/hosts that all containers of a pod share (node-agent §7.5). */
import type { NodeOptions } from "../node-options.ts";
import { podHostname } from "./pod-hostname.ts";
import type { NodePod } from "../pod.ts";

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
