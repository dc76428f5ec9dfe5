/** Builds the Node, its Lease and the Events about changes of the Node (node-agent §14.1 to §14.3). */
import type { V1ContainerImage, V1Node } from "@kubernetes/client-node";
import type { Image } from "../../ports/cri-types.ts";
import { allocatableOf, missingCapacity, resourceQuantities, type NodeOptions, type NodeResources } from "../types/node-options.ts";
import type { PressureCondition } from "../types/eviction-thresholds.ts";
import { DEFAULT_LABELS, PROVIDED_NODE_IP, UNINITIALIZED } from "./registration.ts";
import { conditionOf, nodeConditions } from "./node-conditions.ts";
import { numericQuantity } from "@deltaloop/kube/quantity";
import { KUBERNETES_VERSION, type Lease, type Wire } from "@deltaloop/kube/objects";
import { canonicalJson } from "../types/json-equal.ts";
import { nodeReference, type NodeEvent } from "../events/event-recorder.ts";

type ClientNodeStatus = NonNullable<Wire<V1Node>["status"]>;
/** The client's type, plus fields that Kubernetes 1.37 added. */
export type NodeStatus = Omit<ClientNodeStatus, "nodeInfo"> & {
  readonly nodeInfo?: NonNullable<ClientNodeStatus["nodeInfo"]> & { readonly runningInUserNamespace?: boolean };
};

/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go NodeStatusMaxImages; nodestatus/setters.go MaxNamesPerImageInNodeStatus. */
const IMAGES_MAX = 50;
const NAMES_PER_IMAGE_MAX = 5;
/** Annotation that lets the attach-detach controller manage this node's volumes. Source: pkg/volume/util/util.go. */
const MANAGED_ATTACH_DETACH = "volumes.kubernetes.io/controller-managed-attach-detach";

/** Properties of the machine, which are read at start. */
export interface MachineFacts {
  /** The default node name. */
  readonly hostname: string;
  readonly os: "linux";
  /** Architecture as named by Go: `amd64`, `arm64`. */
  readonly architecture: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly machineId: string;
  readonly systemUuid: string;
  /** Id that changes with each boot. */
  readonly bootId: string;
  /** Whether the agent runs in a user namespace other than the machine's initial one. */
  readonly runningInUserNamespace: boolean;
  /** Size of the swap space; absent if there is none. */
  readonly swapBytes?: number;
  /** Capacity. The option `maxPods` overrides `pods`. */
  readonly resources: NodeResources;
}

export interface NodeStatusInput {
  readonly options: NodeOptions;
  readonly facts: MachineFacts;
  /** Name and version of the runtime, such as `containerd://1.6.20`. */
  readonly runtimeVersion: string;
  readonly runtimeError?: string;
  readonly networkError?: string;
  readonly shuttingDown?: true;
  readonly pressure?: readonly PressureCondition[];
  readonly images: readonly Image[];
  /** The current status in the API server, including fields of other components. */
  readonly previous?: NodeStatus;
  readonly nowMs: number;
}

/**
 * The Node to create. The hostname label, which topology spread and affinity use, is the node name. Source:
 * pkg/kubelet/kubelet_node_status.go initialNode.
 */
export function nodeBody(input: NodeStatusInput): Wire<V1Node> {
  const { options } = input;
  const { taints = [], providerId = "", externalCloudProvider } = options.registration ?? {};
  const all = [...taints, ...(externalCloudProvider === true ? [UNINITIALIZED] : [])];
  const providedIp = providedNodeIp(options);
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: options.nodeName,
      labels: { ...nodeLabels(input) },
      annotations: { [MANAGED_ATTACH_DETACH]: "true", ...(providedIp !== null && { [PROVIDED_NODE_IP]: providedIp }) },
    },
    spec: { ...(all.length > 0 && { taints: all }), ...(providerId !== "" && { providerID: providerId }) },
    status: nodeStatus(input),
  };
}

/** Returns the labels; configured labels override detected labels. */
function nodeLabels({ options, facts }: Pick<NodeStatusInput, "options" | "facts">): Readonly<Record<string, string>> {
  return {
    "kubernetes.io/hostname": options.nodeName,
    "kubernetes.io/os": facts.os,
    "kubernetes.io/arch": facts.architecture,
    "beta.kubernetes.io/os": facts.os,
    "beta.kubernetes.io/arch": facts.architecture,
    ...options.registration?.labels,
  };
}

/**
 * The merge patch for an existing Node. It contains only default labels and the agent's annotations, so that user changes are kept
 * (§14.1). Source: kubelet_node_status.go tryRegisterWithAPIServer, updateDefaultLabels.
 */
export function takenOverPatch(input: Pick<NodeStatusInput, "options" | "facts">): object {
  const labels = Object.entries(nodeLabels(input)).filter(([label]) => DEFAULT_LABELS.includes(label));
  return {
    metadata: {
      labels: Object.fromEntries(labels.map(([label, value]) => [label, value === "" ? null : value])),
      annotations: { [MANAGED_ATTACH_DETACH]: "true", [PROVIDED_NODE_IP]: providedNodeIp(input.options) },
    },
  };
}

/**
 * Returns the value of the annotation with which the cloud controller selects the node's addresses; null without a cloud provider or
 * `--node-ip`. Source: nodestatus/setters.go NodeAddress.
 */
function providedNodeIp({ hostIps, registration }: NodeOptions): string | null {
  return registration?.externalCloudProvider === true && registration.nodeIpGiven === true ? hostIps.join(",") : null;
}

/**
 * Returns the addresses of the cloud provider if there is one. Until it has set them, a node without `--node-ip` has only its hostname.
 * Source: nodestatus/setters.go NodeAddress.
 */
function nodeAddresses(
  { hostIps, nodeName, registration }: NodeOptions,
  previous: NodeStatus | undefined,
): NonNullable<NodeStatus["addresses"]> {
  const hostname = { type: "Hostname", address: nodeName };
  if (registration?.externalCloudProvider === true) {
    if (previous?.addresses !== undefined && previous.addresses.length > 0) return previous.addresses;
    if (registration.nodeIpGiven !== true) return [hostname];
  }
  return [...hostIps.map((address) => ({ type: "InternalIP", address })), hostname];
}

/**
 * Returns the complete status. Keeps the fields, conditions and resources of other components from `previous`. Source:
 * kubelet_node_status.go defaultNodeStatusFuncs. Differs from upstream: does not set runtimeHandlers, because Cri does not report them.
 */
export function nodeStatus(input: NodeStatusInput): NodeStatus {
  const { options, facts, runtimeVersion, runtimeError, networkError, shuttingDown, pressure, images, previous, nowMs } = input;
  const resources = { ...facts.resources, pods: options.maxPods };
  const health = {
    missingCapacity: missingCapacity(resources),
    ...(runtimeError !== undefined && { runtimeError }),
    ...(networkError !== undefined && { networkError }),
    ...(shuttingDown && { shuttingDown }),
    ...(pressure !== undefined && { pressure }),
  };
  return {
    ...previous,
    addresses: nodeAddresses(options, previous),
    capacity: { ...previous?.capacity, ...resourceQuantities(resources) },
    allocatable: { ...previous?.capacity, ...resourceQuantities(allocatableOf(resources, options.eviction)) },
    conditions: nodeConditions(previous?.conditions ?? [], health, nowMs),
    nodeInfo: {
      machineID: facts.machineId,
      systemUUID: facts.systemUuid,
      bootID: facts.bootId,
      kernelVersion: facts.kernelVersion,
      osImage: facts.osImage,
      containerRuntimeVersion: runtimeVersion,
      kubeletVersion: KUBERNETES_VERSION,
      kubeProxyVersion: "",
      operatingSystem: facts.os,
      architecture: facts.architecture,
      runningInUserNamespace: facts.runningInUserNamespace,
      ...(facts.swapBytes !== undefined && { swap: { capacity: facts.swapBytes } }),
    },
    daemonEndpoints: { kubeletEndpoint: { Port: options.port } },
    images: nodeImages(images),
    declaredFeatures: [...DECLARED_FEATURES],
  };
}

/**
 * Declared features, sorted. Without InPlacePodVerticalScalingInitContainers, the API server rejects resizes of plain init containers.
 * Source: component-helpers nodedeclaredfeatures/features/registry.go AllFeatures. Differs from upstream: without
 * ExtendWebSocketsToKubelet, which the server does not support (node-agent §15), and pod-level resources.
 */
const DECLARED_FEATURES: readonly string[] = ["InPlacePodVerticalScalingInitContainers"];

/**
 * Returns the strategic merge patch. It replaces the whole list of addresses, because addresses are merged by type and a dual-stack node
 * has two InternalIPs. Source: component-helpers node/util/status.go PatchNodeStatus, fixupPatchForNodeStatusAddresses.
 */
export function nodeStatusPatch(status: NodeStatus): object {
  return { status: { ...status, addresses: [...(status.addresses ?? []), { $patch: "replace" }] } };
}

/** Returns the largest images, for the scheduler's image locality. Source: nodestatus/setters.go Images. */
function nodeImages(images: readonly Image[]): Wire<V1ContainerImage>[] {
  return images
    .toSorted((a, b) => b.sizeBytes - a.sizeBytes || (a.id < b.id ? 1 : -1))
    .slice(0, IMAGES_MAX)
    .map(({ repoDigests, repoTags, sizeBytes }) => ({ names: [...repoDigests, ...repoTags].slice(0, NAMES_PER_IMAGE_MAX), sizeBytes }));
}

/**
 * Whether anything other than heartbeat times differs. Compares quantities by value, ignores the order of conditions, and treats empty
 * lists as absent. Source: pkg/kubelet/kubelet_node_status.go nodeStatusHasChanged.
 */
export function nodeStatusChanged(before: NodeStatus | undefined, after: NodeStatus): boolean {
  return before === undefined || comparable(before) !== comparable(after);
}

function comparable(status: NodeStatus): string {
  const conditions = status.conditions
    ?.map(({ lastHeartbeatTime: _, ...condition }) => condition)
    .toSorted((a, b) => (a.type < b.type ? -1 : 1));
  const resources = { capacity: values(status.capacity), allocatable: values(status.allocatable) };
  const fields = Object.entries({ ...status, ...resources, conditions });
  return canonicalJson(Object.fromEntries(fields.filter(([, field]) => !(Array.isArray(field) && field.length === 0))));
}

function values(quantities: Readonly<Record<string, string>> | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(quantities ?? {}).map(([resource, text]) => [resource, numericQuantity(text) ?? text]));
}

export const NODE_LEASE_NAMESPACE = "kube-node-lease";
/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go NodeLeaseDurationSeconds. */
const LEASE_DURATION_SECONDS = 40;

/** Returns the Lease, which is owned by the Node. Source: component-helpers apimachinery/lease/controller.go newLease. */
export function nodeLease(node: { readonly name: string; readonly uid: string }, nowMs: number): Lease {
  const { name, uid } = node;
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, namespace: NODE_LEASE_NAMESPACE, ownerReferences: [{ apiVersion: "v1", kind: "Node", name, uid }] },
    spec: { holderIdentity: name, leaseDurationSeconds: LEASE_DURATION_SECONDS, renewTime: microTime(nowMs) },
  };
}

/** Returns the renewed Lease, with the resourceVersion of the last known one. */
export function renewedLease(lease: Lease, nowMs: number): Lease {
  return { ...lease, spec: { ...lease.spec, renewTime: microTime(nowMs) } };
}

/** Formats a time in RFC 3339 with microseconds. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}

/** Returns the Events about changes of a known Node. Source: nodestatus/setters.go ReadyCondition, MemoryPressureCondition, MachineInfo. */
export function nodeEvents(name: string, before: NodeStatus | undefined, after: NodeStatus): readonly NodeEvent[] {
  const involved = nodeReference(name);
  const events: NodeEvent[] = [];
  const bootId = after.nodeInfo?.bootID;
  if (before?.nodeInfo !== undefined && before.nodeInfo.bootID !== "" && before.nodeInfo.bootID !== bootId)
    events.push({ involved, type: "Warning", reason: "Rebooted", message: `Node ${name} has been rebooted, boot id: ${bootId}` });
  const [was, is] = [before, after].map((status) => conditionOf(status?.conditions, "Ready")?.status);
  if (was !== undefined && was !== is) {
    const reason = is === "True" ? "NodeReady" : "NodeNotReady";
    events.push({ involved, type: "Normal", reason, message: `Node ${name} status is now: ${reason}` });
  }
  for (const { type, reason } of after.conditions ?? []) {
    const word = reason?.replace(/^KubeletHas/u, "NodeHas");
    const known = conditionOf(before?.conditions, type);
    if (!type.endsWith("Pressure") || known === undefined || known.reason === reason) continue;
    events.push({ involved, type: "Normal", reason: `${word}`, message: `Node ${name} status is now: ${word}` });
  }
  return events;
}
