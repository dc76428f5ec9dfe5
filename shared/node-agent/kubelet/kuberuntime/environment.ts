/** Environment variables of a container, including service variables (node-agent §7.4). */
import { podFieldText, resourceFieldText } from "../volume/downward-api.ts";
import { VolumeError } from "../types/volume-error.ts";
import type { NodeResources } from "../types/node-options.ts";
import type { ContainerSpec, NodePod } from "../types/pod.ts";
import type { V1Service } from "@kubernetes/client-node";
import type { KubeObject, Wire } from "@deltaloop/kube/objects";
import type { ReferencedObjects, ConfigMapData, SecretData } from "../types/referenced-objects.ts";
import { expand } from "../types/expand.ts";
import { textOfBytes } from "@deltaloop/base";

/**
 * The container cannot be created until a referenced object changes. The message is shown in the Event and as CreateContainerConfigError;
 * it contains names, but never values.
 */
export class ContainerConfigError extends Error {
  override readonly name = "ContainerConfigError";
}

export interface EnvironmentVariable {
  readonly key: string;
  /** Bytes that are not UTF-8 are escaped by `textOfBytes`. */
  readonly value: string;
}

export interface EnvironmentInput {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  /** The pod's addresses, in the node's order of address families. */
  readonly podIps: readonly string[];
  readonly hostIps: readonly string[];
  /** Services of all namespaces. For static pods, empty until the Services were listed once. */
  readonly services: readonly ServiceInfo[];
  readonly objects: ReferencedObjects;
  readonly allocatable: NodeResources;
}

/**
 * Builds the environment. `env` takes precedence over `envFrom`, which takes precedence over service variables; within a list, later
 * entries do. References can name earlier entries and service variables.
 *
 *     envFrom: ConfigMap {A: "1"}; env: A="$(A)2", B="$(A)$(C)", C="3" → A=12, B=12$(C), C=3
 *
 * @throws {ContainerConfigError} when a required reference does not exist. Source: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables.
 */
export function makeEnvironment(input: EnvironmentInput): readonly EnvironmentVariable[] {
  const { container, objects, pod, services } = input;
  const ofServices = serviceEnvironment(pod, services);
  const own = new Map<string, string>();
  for (const { prefix = "", configMapRef, secretRef } of container.envFrom ?? []) {
    const data = configMapRef ? configMapOf(objects, configMapRef)?.data : secretRef && decoded(secretOf(objects, secretRef));
    for (const [key, value] of Object.entries(data ?? {})) own.set(prefix + key, value);
  }
  for (const entry of container.env ?? []) {
    const value = entry.value ? expand(entry.value, (name) => own.get(name) ?? ofServices.get(name)) : valueFrom(input, entry.valueFrom);
    if (value !== undefined) own.set(entry.name, value);
  }
  return [...new Map([...ofServices, ...own])].map(([key, value]) => ({ key, value }));
}

type ValueSource = NonNullable<NonNullable<ContainerSpec["env"]>[number]["valueFrom"]>;

/** Returns undefined for a missing optional reference; the variable is then not set. */
function valueFrom(input: EnvironmentInput, source: ValueSource | undefined): string | undefined {
  const { objects, pod } = input;
  if (source?.fieldRef) return fieldValue(input, source.fieldRef.fieldPath);
  if (source?.resourceFieldRef) return resourceValue(input, source.resourceFieldRef);
  if (source?.configMapKeyRef) {
    const reference = source.configMapKeyRef;
    return keyOf(configMapOf(objects, reference)?.data, reference, `ConfigMap ${pod.metadata.namespace}/${reference.name}`);
  }
  if (source?.secretKeyRef) {
    const reference = source.secretKeyRef;
    const base64 = keyOf(secretOf(objects, reference)?.data, reference, `Secret ${pod.metadata.namespace}/${reference.name}`);
    return base64 === undefined ? undefined : decode(base64);
  }
  return "";
}

/** Source: pkg/kubelet/kubelet_pods.go podFieldSelectorRuntimeValue. */
function fieldValue({ hostIps, pod, podIps }: EnvironmentInput, fieldPath: string): string {
  switch (fieldPath) {
    case "spec.nodeName":
      return pod.spec.nodeName ?? "";
    case "spec.serviceAccountName":
      return pod.spec.serviceAccountName ?? "";
    case "status.hostIP":
      return hostIps[0] ?? "";
    case "status.hostIPs":
      return hostIps.join(",");
    case "status.podIP":
      return podIps[0] ?? "";
    case "status.podIPs":
      return podIps.join(",");
    default:
      return asConfigError(() => podFieldText(pod, fieldPath));
  }
}

/** Without a container name, the field refers to the container itself. Ephemeral containers have no other option. */
function resourceValue({ allocatable, container, pod }: EnvironmentInput, reference: NonNullable<ValueSource["resourceFieldRef"]>): string {
  if (reference.containerName) return asConfigError(() => resourceFieldText(pod, reference, allocatable));
  const alone = { ...pod, spec: { ...pod.spec, containers: [container], initContainers: [] } };
  return asConfigError(() => resourceFieldText(alone, { ...reference, containerName: container.name }, allocatable));
}

function asConfigError(text: () => string): string {
  try {
    return text();
  } catch (error) {
    if (error instanceof VolumeError) throw new ContainerConfigError(error.message, { cause: error });
    throw error;
  }
}

interface Reference {
  readonly name?: string;
  readonly optional?: boolean;
}

function configMapOf(objects: ReferencedObjects, { name = "", optional }: Reference): ConfigMapData | undefined {
  return required(objects.configMap(name), optional, `configmap "${name}" not found`);
}

function secretOf(objects: ReferencedObjects, { name = "", optional }: Reference): SecretData | undefined {
  return required(objects.secret(name), optional, `secret "${name}" not found`);
}

function required<T>(object: T | undefined, optional: boolean | undefined, message: string): T | undefined {
  if (object === undefined && optional !== true) throw new ContainerConfigError(message);
  return object;
}

function keyOf(
  data: Readonly<Record<string, string>> | undefined,
  { key, optional }: Reference & { readonly key: string },
  where: string,
): string | undefined {
  if (data !== undefined && Object.hasOwn(data, key)) return data[key];
  if (optional === true) return undefined;
  throw new ContainerConfigError(`couldn't find key ${key} in ${where}`);
}

function decoded(secret: SecretData | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(secret?.data ?? {}).map(([key, base64]) => [key, decode(base64)]));
}

function decode(base64: string): string {
  return textOfBytes(Buffer.from(base64, "base64"));
}

const PROTOCOL_DEFAULT = "TCP";

export interface ServiceInfo {
  readonly name: string;
  readonly namespace: string;
  /** Absent, empty or `None` if the Service has no cluster IP. */
  readonly clusterIP?: string;
  readonly ports: readonly { readonly name?: string; readonly port: number; readonly protocol?: string }[];
}

/**
 * Returns the variables for `default/kubernetes` and, unless `enableServiceLinks` is false, for the Services in the pod's namespace,
 * which take precedence on equal names. Services without a cluster IP have no variables. Example:
 *
 *     REDIS_PRIMARY_SERVICE_HOST=10.0.0.11              REDIS_PRIMARY_SERVICE_PORT=6379
 *     REDIS_PRIMARY_PORT=tcp://10.0.0.11:6379           REDIS_PRIMARY_PORT_6379_TCP=tcp://10.0.0.11:6379
 *     REDIS_PRIMARY_PORT_6379_TCP_PROTO=tcp             REDIS_PRIMARY_PORT_6379_TCP_PORT=6379
 *     REDIS_PRIMARY_PORT_6379_TCP_ADDR=10.0.0.11        REDIS_PRIMARY_SERVICE_PORT_<NAME> for each named port
 *
 * Source: pkg/kubelet/kubelet_pods.go getServiceEnvVarMap; pkg/kubelet/envvars/envvars.go FromServices. Differs from upstream: an absent
 * `enableServiceLinks` is true, as the API server defaults it; upstream rejects such a pod.
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

/** Variables in the format of Docker container links. */
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

/** IPv6 addresses need brackets. */
function urlOf(clusterIP: string, { protocol = PROTOCOL_DEFAULT, port }: ServiceInfo["ports"][number]): string {
  const host = clusterIP.includes(":") ? `[${clusterIP}]` : clusterIP;
  return `${protocol.toLowerCase()}://${host}:${port}`;
}

function variableName(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}

/** Extracts the fields for environment variables from a listed Service. */
export function serviceInfo(object: KubeObject): ServiceInfo {
  const { spec } = object as KubeObject & Pick<Wire<V1Service>, "spec">; // the requested resource implies the type
  const { name, namespace = "" } = object.metadata;
  return {
    name,
    namespace,
    ...(spec?.clusterIP !== undefined && { clusterIP: spec.clusterIP }),
    ports: (spec?.ports ?? []).map(({ name: port, port: number, protocol }) => ({
      port: number,
      ...(port !== undefined && { name: port }),
      ...(protocol !== undefined && { protocol }),
    })),
  };
}
