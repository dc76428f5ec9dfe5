/**
 * Objects of typical size as an API server sends them: the watch line of a pod with sidecar, probes, volumes and managedFields is about 5
 * KB, that of a Deployment about 4 KB.
 */
import { randomUUID } from "node:crypto";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";

export const NAMESPACE = "production";
const TIME = "2026-03-01T10:00:00Z";

export interface Identity {
  readonly name: string;
  readonly uid: string;
}

/** Returns the same identity on every call, so that a pod can refer to its owner before the owner exists. */
export function owner(number: number): Identity {
  return { name: `web-frontend-${hex(number, 4)}-7f8fb6d5c9`, uid: `5f0c3a1e-7b2d-4c6e-9a8f-${hex(number, 12)}` };
}

export function podIdentity(number: number, of: Identity): Identity {
  return { name: `${of.name}-${hex(number, 5)}`, uid: `9d3b7c52-1f4e-4a6b-8c0d-${hex(number, 12)}` };
}

/** A running pod on a node, Ready or not. */
export function podObject(number: number, of: Identity, resourceVersion: string, ready = true): object {
  const { name, uid } = podIdentity(number, of);
  const condition = (type: string, status = "True"): object => ({
    type,
    status,
    observedGeneration: 1,
    lastProbeTime: null,
    lastTransitionTime: TIME,
  });
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name,
      generateName: `${of.name}-`,
      namespace: NAMESPACE,
      uid,
      resourceVersion,
      generation: 1,
      creationTimestamp: TIME,
      labels: { app: "web-frontend", "pod-template-hash": "7f8fb6d5c9" },
      annotations: { "prometheus.io/scrape": "true", "prometheus.io/port": "9102" },
      ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", ...of, controller: true, blockOwnerDeletion: true }],
      managedFields: managedFields("kubelet"),
    },
    spec: {
      ...template().spec,
      nodeName: `ip-10-0-${number % 250}-17`,
      serviceAccountName: "web-frontend",
      serviceAccount: "web-frontend",
      preemptionPolicy: "PreemptLowerPriority",
      enableServiceLinks: true,
      priority: 0,
      tolerations: ["not-ready", "unreachable"].map((taint) => ({
        key: `node.kubernetes.io/${taint}`,
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      })),
    },
    status: {
      phase: "Running",
      observedGeneration: 1,
      conditions: [
        condition("PodReadyToStartContainers"),
        condition("Initialized"),
        condition("Ready", ready ? "True" : "False"),
        condition("ContainersReady", ready ? "True" : "False"),
        condition("PodScheduled"),
      ],
      hostIP: "10.0.17.4",
      hostIPs: [{ ip: "10.0.17.4" }],
      podIP: `10.64.${number >> 8}.${number & 255}`,
      podIPs: [{ ip: `10.64.${number >> 8}.${number & 255}` }],
      startTime: TIME,
      containerStatuses: ["web", "proxy"].map((container) => ({
        name: container,
        state: { running: { startedAt: TIME } },
        lastState: {},
        ready,
        restartCount: 0,
        image: `registry.example/${container}:1.2.3`,
        imageID: `registry.example/${container}@sha256:${hex(number, 64)}`,
        containerID: `containerd://${hex(number, 64)}`,
        started: true,
        resources: { limits: { memory: "256Mi" }, requests: { cpu: "100m", memory: "256Mi" } },
      })),
      qosClass: "Burstable",
    },
  };
}

export function replicaSetObject(of: Identity, resourceVersion: string, replicas: number): object {
  return {
    kind: "ReplicaSet",
    apiVersion: "apps/v1",
    metadata: {
      ...of,
      namespace: NAMESPACE,
      resourceVersion,
      generation: 1,
      creationTimestamp: TIME,
      labels: { app: "web-frontend", "pod-template-hash": "7f8fb6d5c9" },
      annotations: { "deployment.kubernetes.io/desired-replicas": String(replicas), "deployment.kubernetes.io/revision": "3" },
      managedFields: managedFields("deltaloop-replicaset"),
    },
    spec: { replicas, selector: { matchLabels: { app: "web-frontend", "pod-template-hash": "7f8fb6d5c9" } }, template: template() },
    status: { replicas, fullyLabeledReplicas: replicas, readyReplicas: replicas, availableReplicas: replicas, observedGeneration: 1 },
  };
}

function deploymentObject(number: number, resourceVersion: string): object {
  return {
    kind: "Deployment",
    apiVersion: "apps/v1",
    metadata: {
      name: `web-frontend-${hex(number, 4)}`,
      uid: randomUUID(),
      namespace: NAMESPACE,
      resourceVersion,
      generation: 3,
      creationTimestamp: TIME,
      labels: { app: "web-frontend" },
      annotations: {
        "deployment.kubernetes.io/revision": "3",
        "kubectl.kubernetes.io/last-applied-configuration": JSON.stringify(template()),
      },
      managedFields: managedFields("deltaloop-deployment"),
    },
    spec: {
      replicas: 10,
      selector: { matchLabels: { app: "web-frontend" } },
      template: template(),
      strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "25%", maxSurge: "25%" } },
      revisionHistoryLimit: 10,
      progressDeadlineSeconds: 600,
    },
    status: { observedGeneration: 3, replicas: 10, updatedReplicas: 10, readyReplicas: 10, availableReplicas: 10 },
  };
}

/** A pod template with the API server's defaults. */
export function template(): { readonly metadata: object; readonly spec: object } {
  const container = (name: string): object => ({
    name,
    image: `registry.example/${name}:1.2.3`,
    args: ["--listen=0.0.0.0:8080", "--metrics=0.0.0.0:9102"],
    ports: [{ name: "http", containerPort: 8080, protocol: "TCP" }],
    env: [
      { name: "LOG_LEVEL", value: "info" },
      { name: "POD_IP", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "status.podIP" } } },
      { name: "TOKEN", valueFrom: { secretKeyRef: { name: "web-frontend", key: "token" } } },
    ],
    resources: { limits: { memory: "256Mi" }, requests: { cpu: "100m", memory: "256Mi" } },
    volumeMounts: [{ name: "config", readOnly: true, mountPath: "/etc/web" }],
    readinessProbe: {
      httpGet: { path: "/healthz", port: "http", scheme: "HTTP" },
      timeoutSeconds: 1,
      periodSeconds: 10,
      successThreshold: 1,
      failureThreshold: 3,
    },
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    imagePullPolicy: "IfNotPresent",
    securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
  });
  return {
    metadata: {
      creationTimestamp: null,
      labels: { app: "web-frontend", "pod-template-hash": "7f8fb6d5c9" },
      annotations: { "prometheus.io/scrape": "true" },
    },
    spec: {
      volumes: [{ name: "config", configMap: { name: "web-frontend", defaultMode: 420 } }],
      containers: [container("web"), container("proxy")],
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      securityContext: {},
      schedulerName: "default-scheduler",
    },
  };
}

function managedFields(manager: string): object {
  const fields = (names: readonly string[]): object => Object.fromEntries(names.map((name) => [`f:${name}`, {}]));
  return [
    {
      manager: "deltaloop-replicaset",
      operation: "Update",
      apiVersion: "v1",
      time: TIME,
      fieldsType: "FieldsV1",
      fieldsV1: {
        "f:metadata": { "f:labels": { ".": {}, ...fields(["app", "pod-template-hash"]) } },
        "f:spec": {
          "f:containers": { 'k:{"name":"web"}': fields(["image", "args", "env", "ports", "resources"]) },
          ...fields(["dnsPolicy", "restartPolicy", "schedulerName"]),
        },
      },
    },
    {
      manager,
      operation: "Update",
      apiVersion: "v1",
      time: TIME,
      fieldsType: "FieldsV1",
      fieldsV1: { "f:status": fields(["conditions", "containerStatuses", "hostIP", "phase", "podIP", "startTime"]) },
      subresource: "status",
    },
  ];
}

/** Returns `count` watch lines, each of another changed pod. */
export function watchLines(count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) =>
    JSON.stringify({ type: "MODIFIED", object: podObject(i, owner(Math.floor(i / 100)), String(1_000_000 + i), i % 2 === 0) }),
  );
}

export const KIND_SAMPLES: readonly { readonly resource: CachedResource; readonly object: object }[] = [
  { resource: "pods", object: podObject(1, owner(1), "1000001") },
  { resource: "replicasets", object: replicaSetObject(owner(1), "1000002", 10) },
  { resource: "deployments", object: deploymentObject(1, "1000003") },
];

function hex(number: number, length: number): string {
  return number.toString(16).padStart(length, "0");
}
