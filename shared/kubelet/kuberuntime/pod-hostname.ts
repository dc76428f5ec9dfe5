/** What a pod calls itself (node-agent §7.2). */
import type { NodePod } from "../pod.ts";

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
export function podHostname({ metadata, spec }: NodePod, clusterDomain: string): PodHostname {
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
