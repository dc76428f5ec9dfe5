import { initContainersOf, isSidecar, type NodePod } from "../types/pod.ts";

interface HostPort {
  readonly ip: string;
  readonly protocol: string;
  readonly port: number;
}

const ANY_ADDRESS = "0.0.0.0";

/**
 * Whether `pod` uses a host port that one of `others` uses. Two host ports conflict if protocol and port are equal, and if the addresses
 * are equal or one of them is the wildcard. Init containers other than sidecars do not count. Source: plugins/nodeports Fits, scheduler
 * framework HostPortInfo.CheckConflict.
 */
export function hostPortConflict(pod: NodePod, others: readonly NodePod[]): boolean {
  const taken = others.flatMap(hostPortsOf);
  return hostPortsOf(pod).some((wanted) =>
    taken.some(
      ({ ip, protocol, port }) =>
        protocol === wanted.protocol && port === wanted.port && (ip === wanted.ip || ip === ANY_ADDRESS || wanted.ip === ANY_ADDRESS),
    ),
  );
}

function hostPortsOf(pod: NodePod): readonly HostPort[] {
  const containers = [...initContainersOf(pod).filter(isSidecar), ...pod.spec.containers];
  return containers.flatMap(({ ports = [] }) =>
    ports
      .filter(({ hostPort = 0 }) => hostPort > 0)
      .map(({ hostIP, protocol, hostPort = 0 }) => ({ ip: hostIP || ANY_ADDRESS, protocol: protocol || "TCP", port: hostPort })),
  );
}
