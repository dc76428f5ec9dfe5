/** The pod that stands for a static pod in the API server (node-agent §2.7); it starts nothing. */
import { CONFIG_ANNOTATIONS } from "../labels.ts";
import { fullName } from "../pod.ts";
import type { NodePod } from "../pod.ts";

/**
 * The body of the POST. The API server gives it a UID of its own and drops the status; the node is its owner, which is what
 * lets a node's identity create it.
 *
 * Source: pkg/kubelet/pod/mirror_client.go CreateMirrorPod.
 */
export function mirrorPod(pod: NodePod, node: { readonly name: string; readonly uid: string }): object {
  const { name, namespace, labels, annotations } = pod.metadata;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      ...(labels !== undefined && { labels }),
      annotations: { ...annotations, [CONFIG_ANNOTATIONS.mirror]: hashOf(pod) },
      ownerReferences: [{ apiVersion: "v1", kind: "Node", name: node.name, uid: node.uid, controller: true }],
    },
    spec: pod.spec,
  };
}

export type MirrorStep = "none" | "create" | "deleteThenCreate";

/**
 * What a sync of a static pod does about its mirror. A delete is at once (grace 0) and names the mirror's UID; a create needs
 * the Node to exist and to stay; a create that is refused because a mirror of this hash is there already (mirrorStep of that one
 * says `none`) has done its work.
 *
 * Source: pkg/kubelet/kubelet.go tryReconcileMirrorPods, pkg/kubelet/pod/pod_manager.go IsMirrorPodOf.
 */
export function mirrorStep(pod: NodePod, mirror: NodePod | undefined): MirrorStep {
  if (mirror === undefined) return "create";
  if (mirror.metadata.deletionTimestamp !== undefined || fullName(mirror) !== fullName(pod)) return "deleteThenCreate";
  return mirror.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === hashOf(pod) ? "none" : "deleteThenCreate";
}

/** Every static pod has one: its manifest's, or the UID that the manifest names. */
function hashOf(pod: NodePod): string {
  return pod.metadata.annotations?.[CONFIG_ANNOTATIONS.hash] ?? "";
}
