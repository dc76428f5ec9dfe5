/** The Node and Lease objects of scripted nodes: enough for a real kube-scheduler to bind pods to them. */
import type { V1Lease, V1Node } from "@kubernetes/client-node";
import { KUBERNETES_VERSION } from "@deltaloop/kube/objects";
import type { Wire } from "@deltaloop/kube/objects";

const CAPACITY = { cpu: "64", memory: "256Gi", pods: "1000", "ephemeral-storage": "1000Gi" };
/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go NodeLeaseDurationSeconds. */
const LEASE_DURATION_SECONDS = 40;

/** `now` is an RFC 3339 time. */
export function nodeObject(name: string, index: number, now: string): Wire<V1Node> {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      labels: {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "deltaloop.dev/scripted": "true",
      },
    },
    spec: {},
    status: nodeStatus(name, index, now),
  };
}

export function nodeStatus(name: string, index: number, now: string): NonNullable<Wire<V1Node>["status"]> {
  const condition = (type: string, status: string, reason: string, message: string) => ({
    type,
    status,
    reason,
    message,
    lastHeartbeatTime: now,
    lastTransitionTime: now,
  });
  return {
    capacity: CAPACITY,
    allocatable: CAPACITY,
    conditions: [
      condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
      condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
      condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
      condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ],
    addresses: [
      { type: "InternalIP", address: nodeAddress(index) },
      { type: "Hostname", address: name },
    ],
    nodeInfo: {
      machineID: name,
      systemUUID: name,
      bootID: name,
      kernelVersion: "6.1.0",
      osImage: "scripted",
      containerRuntimeVersion: "scripted://1.0",
      kubeletVersion: KUBERNETES_VERSION,
      kubeProxyVersion: "",
      operatingSystem: "linux",
      architecture: "amd64",
    },
  };
}

export function nodeAddress(index: number): string {
  return `172.30.${Math.floor(index / 250)}.${(index % 250) + 1}`;
}

/** A Lease has its Node as owner, so it is deleted with the Node. `now` has microseconds. */
export function leaseObject(name: string, nodeUid: string, now: string): Wire<V1Lease> {
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, namespace: "kube-node-lease", ownerReferences: [{ apiVersion: "v1", kind: "Node", name, uid: nodeUid }] },
    spec: { holderIdentity: name, leaseDurationSeconds: LEASE_DURATION_SECONDS, renewTime: now },
  };
}
