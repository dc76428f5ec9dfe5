/** Builds the sandbox configuration (node-agent §7.1, §7.2). */
import type { PodSandboxConfig, PortMapping } from "../../ports/cri-types.ts";
import { kernelHostname, type PodDns } from "./dns-config.ts";
import { withDots } from "../allocation/sysctls.ts";
import { LABELS } from "../types/labels.ts";
import type { NodeOptions, NodeResources } from "../types/node-options.ts";
import { initContainersOf, isSidecar, type ContainerSpec, type NodePod } from "../types/pod.ts";
import { podCgroup } from "../container-manager/cgroup-name.ts";
import { overheadResources, sandboxResources } from "./resources.ts";
import { sandboxSecurity } from "./security-context.ts";
import { podLogDirectory } from "../types/log-paths.ts";

export interface PodSandboxInput {
  readonly pod: NodePod;
  readonly attempt: number;
  readonly options: NodeOptions;
  readonly dns: PodDns["config"];
  readonly resources: NodeResources;
}

/**
 * Builds the configuration for RunPodSandbox and for the containers of the sandbox; a pure function of its input. @throws
 * {PodSandboxConfigError} if the hostname is too long. Source: pkg/kubelet/kuberuntime/kuberuntime_sandbox.go generatePodSandboxConfig.
 */
export function podSandboxConfig({ pod, attempt, options, dns, resources }: PodSandboxInput): PodSandboxConfig {
  const { annotations = {}, labels = {}, name, namespace, uid } = pod.metadata;
  const { hostNetwork, overhead, securityContext } = pod.spec;
  return {
    metadata: { name, namespace, uid, attempt },
    ...(hostNetwork !== true && { hostname: kernelHostname(pod, options.clusterDomain) }),
    logDirectory: `${withoutTrailingSlash(options.podLogsDir)}/${podLogDirectory(pod)}`,
    dnsConfig: dns,
    portMappings: portMappings(pod),
    labels: { ...labels, ...podIdentity(pod) },
    annotations,
    linux: {
      cgroupParent: options.cgroups.perQos ? podCgroup(options, pod) : "",
      securityContext: sandboxSecurity(pod),
      sysctls: Object.fromEntries((securityContext?.sysctls ?? []).map((sysctl) => [withDots(sysctl.name), sysctl.value])),
      resources: sandboxResources(pod, resources),
      ...(overhead !== undefined && { overhead: overheadResources(pod, resources) }),
    },
  };
}

/** Labels that identify sandboxes and containers of a pod. */
export function podIdentity({ metadata }: NodePod): Readonly<Record<string, string>> {
  return { [LABELS.podName]: metadata.name, [LABELS.podNamespace]: metadata.namespace, [LABELS.podUid]: metadata.uid };
}

/** Ports of regular containers and sidecars. */
function portMappings(pod: NodePod): readonly PortMapping[] {
  return [...initContainersOf(pod).filter(isSidecar), ...pod.spec.containers].flatMap(portsOf);
}

type ContainerPort = NonNullable<ContainerSpec["ports"]>[number];

/** Keeps the first of several ports with the same name or the same value. Source: pkg/kubelet/container/helpers.go MakePortMappings. */
function portsOf({ ports = [] }: ContainerSpec): readonly PortMapping[] {
  const byName = new Map(ports.toReversed().map((port) => [port.name || portKey(port), port]));
  return [...byName.values()].toReversed().map(({ containerPort, hostIP, hostPort, protocol }) => ({
    protocol: protocolOf(protocol),
    containerPort,
    ...(hostPort !== undefined && { hostPort }),
    ...(hostIP !== undefined && { hostIp: hostIP }),
  }));
}

function portKey({ containerPort, hostIP = "", hostPort = 0, protocol = "TCP" }: ContainerPort): string {
  return `${protocol} ${hostIP} ${containerPort} ${hostPort}`;
}

function protocolOf(protocol: string | undefined): PortMapping["protocol"] {
  return protocol === "UDP" || protocol === "SCTP" ? protocol : "TCP";
}

function withoutTrailingSlash(path: string): string {
  return path.replace(/\/+$/u, "");
}
