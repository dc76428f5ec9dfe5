/** hostIP(s) and podIP(s) of a status (node-agent §13.4). */
import type { PodStatus } from "../../ports/node-store.ts";
import type { ObservedPod } from "../observed-pod.ts";
import type { NodePod } from "../pod.ts";

/** One of each family at most. */
const ADDRESSES_MAX = 2;

/** The node's, as it gives them. */
export function hostAddresses(hostIps: readonly string[]): Pick<PodStatus, "hostIP" | "hostIPs"> {
  const [hostIP] = hostIps;
  return hostIP === undefined ? {} : { hostIP, hostIPs: hostIps.slice(0, ADDRESSES_MAX).map((ip) => ({ ip })) };
}

/**
 * The first address of the node's primary family, then the first of the other:
 *
 *     node 10.0.0.1, runtime [fd00::5 10.1.0.5 10.1.0.6] → 10.1.0.5, fd00::5
 *
 * A pod on the host's network takes the node's own once and keeps them; a second family that the node gets later is added.
 * Others keep theirs while no sandbox is READY, so that the pod has an address to its end.
 *
 * Source: pkg/kubelet/kubelet_pods.go sortPodIPs, generateAPIPodStatus; pkg/kubelet/pleg/generic.go getPodIPs.
 * Differs from upstream: there the address of a pod without a READY sandbox is kept in memory only and gone after a restart.
 */
export function podAddresses({
  pod,
  observed,
  hostIps,
  previous,
}: {
  readonly pod: NodePod;
  readonly observed: ObservedPod;
  readonly hostIps: readonly string[];
  readonly previous: PodStatus["podIPs"];
}): Pick<PodStatus, "podIP" | "podIPs"> {
  const kept = (previous ?? []).map(({ ip }) => ip);
  const isSandboxReady = observed.sandboxes.some(({ state }) => state === "SANDBOX_READY");
  if (pod.spec.hostNetwork === true) return addresses(withSecondFamily(kept.length > 0 ? kept : hostIps, hostIps));
  if (observed.ips.length === 0 && !isSandboxReady) return addresses(kept);
  return addresses(onePerFamily(observed.ips, isIPv6(hostIps[0] ?? "")));
}

function addresses(ips: readonly string[]): Pick<PodStatus, "podIP" | "podIPs"> {
  const [podIP] = ips;
  return podIP === undefined ? {} : { podIP, podIPs: ips.slice(0, ADDRESSES_MAX).map((ip) => ({ ip })) };
}

function withSecondFamily(ips: readonly string[], hostIps: readonly string[]): readonly string[] {
  const [first = "", ...more] = ips;
  const second = hostIps[1];
  return more.length === 0 && second !== undefined && isIPv6(first) !== isIPv6(second) ? [first, second] : ips;
}

function onePerFamily(ips: readonly string[], isPrimaryIPv6: boolean): readonly string[] {
  const primary = ips.find((ip) => isIPv6(ip) === isPrimaryIPv6);
  const secondary = ips.find((ip) => isIPv6(ip) !== isPrimaryIPv6);
  return [primary, secondary].filter((ip) => ip !== undefined);
}

function isIPv6(ip: string): boolean {
  return ip.includes(":");
}
