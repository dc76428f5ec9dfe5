/** Names under which the runtime and the API server keep what is the agent's (node-agent §0, §2, §7.1). Source: kubelet/pkg/types/labels.go, pkg/kubelet/types/pod_update.go. */

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

/** Comes from a manifest: its source is known and is not the API server. */
export function isStaticPod(pod: Annotated): boolean {
  const source = pod.metadata?.annotations?.[CONFIG_ANNOTATIONS.source];
  return source !== undefined && source !== "api";
}

/** The API server's copy of a static pod; it never starts anything. */
export function isMirrorPod(pod: Annotated): boolean {
  return pod.metadata?.annotations?.[CONFIG_ANNOTATIONS.mirror] !== undefined;
}
