/** The variables that tell a container where the services are (node-agent §7.4). */
import type { ServiceInfo } from "./environment.ts";
import type { NodePod } from "../pod.ts";

const PROTOCOL_DEFAULT = "TCP";

/**
 * Variables for `default/kubernetes`, and, unless `enableServiceLinks` is off, for the services of the pod's own namespace. A
 * service without cluster IP has none, and one called `kubernetes` in the pod's own namespace wins over `default`'s. Service
 * `redis-primary` with port 6379 at 10.0.0.11 gives
 *
 *     REDIS_PRIMARY_SERVICE_HOST=10.0.0.11              REDIS_PRIMARY_SERVICE_PORT=6379
 *     REDIS_PRIMARY_PORT=tcp://10.0.0.11:6379           REDIS_PRIMARY_PORT_6379_TCP=tcp://10.0.0.11:6379
 *     REDIS_PRIMARY_PORT_6379_TCP_PROTO=tcp             REDIS_PRIMARY_PORT_6379_TCP_PORT=6379
 *     REDIS_PRIMARY_PORT_6379_TCP_ADDR=10.0.0.11
 *
 * and, for each port with a name, REDIS_PRIMARY_SERVICE_PORT_<NAME>.
 *
 * Source: pkg/kubelet/kubelet_pods.go getServiceEnvVarMap; pkg/kubelet/envvars/envvars.go FromServices.
 * Differs from upstream: an absent `enableServiceLinks` is true, which is what the API server makes of it; upstream refuses such
 * a pod.
 */
export function serviceEnvironment(pod: NodePod, services: readonly ServiceInfo[]): ReadonlyMap<string, string> {
  const linked = (pod.spec.enableServiceLinks ?? true) ? services.filter(({ namespace }) => namespace === pod.metadata.namespace) : [];
  const byName = new Map([...services.filter(isMaster), ...linked].filter(hasClusterIP).map((service) => [service.name, service]));
  return new Map([...byName.values()].flatMap(variablesOf));
}

type Reachable = ServiceInfo & { readonly clusterIP: string };

function isMaster({ namespace, name }: ServiceInfo): boolean {
  return namespace === "default" && name === "kubernetes";
}

function hasClusterIP(service: ServiceInfo): service is Reachable {
  return service.clusterIP !== undefined && service.clusterIP !== "" && service.clusterIP !== "None";
}

function variablesOf(service: Reachable): readonly (readonly [string, string])[] {
  const { clusterIP, ports } = service;
  const prefix = variableName(service.name);
  const [first] = ports;
  const host = [`${prefix}_SERVICE_HOST`, clusterIP] as const;
  if (first === undefined) return [host];
  return [
    host,
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...ports.flatMap(({ name = "", port }) =>
      name === "" ? [] : [[`${prefix}_SERVICE_PORT_${variableName(name)}`, String(port)] as const],
    ),
    [`${prefix}_PORT`, urlOf(clusterIP, first)],
    ...ports.flatMap((port) => linkVariables(prefix, clusterIP, port)),
  ];
}

/** As Docker's container links had them. */
function linkVariables(prefix: string, clusterIP: string, port: ServiceInfo["ports"][number]): readonly (readonly [string, string])[] {
  const protocol = port.protocol ?? PROTOCOL_DEFAULT;
  const portPrefix = `${prefix}_PORT_${port.port}_${protocol.toUpperCase()}`;
  return [
    [portPrefix, urlOf(clusterIP, port)],
    [`${portPrefix}_PROTO`, protocol.toLowerCase()],
    [`${portPrefix}_PORT`, String(port.port)],
    [`${portPrefix}_ADDR`, clusterIP],
  ];
}

/** An IPv6 address stands in brackets. */
function urlOf(clusterIP: string, { protocol = PROTOCOL_DEFAULT, port }: ServiceInfo["ports"][number]): string {
  const host = clusterIP.includes(":") ? `[${clusterIP}]` : clusterIP;
  return `${protocol.toLowerCase()}://${host}:${port}`;
}

function variableName(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}
