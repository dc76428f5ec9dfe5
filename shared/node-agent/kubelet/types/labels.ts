/**
 * Labels and annotations of the kubelet (node-agent §0, §2, §7.1). Source: kubelet/pkg/types/labels.go, pkg/kubelet/types/pod_update.go.
 */

export const LABELS = {
  podName: "io.kubernetes.pod.name",
  podNamespace: "io.kubernetes.pod.namespace",
  podUid: "io.kubernetes.pod.uid",
  containerName: "io.kubernetes.container.name",
} as const;

export const ANNOTATIONS = {
  hash: "io.kubernetes.container.hash",
  restartCount: "io.kubernetes.container.restartCount",
  terminationMessagePath: "io.kubernetes.container.terminationMessagePath",
  terminationMessagePolicy: "io.kubernetes.container.terminationMessagePolicy",
  ports: "io.kubernetes.container.ports",
  preStopHandler: "io.kubernetes.container.preStopHandler",
  podDeletionGracePeriod: "io.kubernetes.pod.deletionGracePeriod",
  podTerminationGracePeriod: "io.kubernetes.pod.terminationGracePeriod",
} as const;

export const CONFIG_ANNOTATIONS = {
  source: "kubernetes.io/config.source",
  mirror: "kubernetes.io/config.mirror",
  seen: "kubernetes.io/config.seen",
  hash: "kubernetes.io/config.hash",
} as const;

export const POD_SOURCES = ["file", "http", "api"] as const;
export type PodSource = (typeof POD_SOURCES)[number];

interface Annotated {
  readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
}

/** Whether the pod comes from a manifest instead of the API server. */
export function isStaticPod(pod: Annotated): boolean {
  const source = pod.metadata?.annotations?.[CONFIG_ANNOTATIONS.source];
  return source !== undefined && source !== "api";
}

/** Whether the pod is a mirror pod: the API object that represents a static pod. It is never started. */
export function isMirrorPod(pod: Annotated): boolean {
  return pod.metadata?.annotations?.[CONFIG_ANNOTATIONS.mirror] !== undefined;
}
