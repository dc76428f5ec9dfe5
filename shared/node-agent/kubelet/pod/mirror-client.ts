/** Maintains mirror pods (node-agent §2.7). */
import { describeError, isAlreadyExists, isNotFound, isUnanswered, type KubeReader, type KubeWriter } from "@deltaloop/kube/client";
import type { Log } from "@deltaloop/base";
import { fullName, parseNodePod, type NodePod } from "../types/pod.ts";
import type { PodManager } from "./pod-manager.ts";
import { CONFIG_ANNOTATIONS } from "../types/labels.ts";

export interface MirrorPorts {
  readonly kube: KubeReader & KubeWriter;
  readonly pods: Pick<PodManager, "mirrorOf">;
  readonly options: { readonly nodeName: string };
  readonly condition: { readonly nodeUid?: string };
  readonly log: Log;
}

/** A failure is only logged, because a static pod also runs without the API server. */
export async function reconcileMirror(ports: MirrorPorts, pod: NodePod): Promise<void> {
  const { kube, log, condition, options } = ports;
  const { namespace, name } = pod.metadata;
  const mirror = ports.pods.mirrorOf(pod);
  try {
    const step = mirrorStep(pod, mirror);
    if (step === "none" || condition.nodeUid === undefined) return;
    if (step === "deleteThenCreate" && mirror !== undefined) await deleteMirror(ports, mirror);
    const body = mirrorPod(pod, { name: options.nodeName, uid: condition.nodeUid });
    await kube.create({ resource: "pods", namespace, body }).catch(async (error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
      // The watch may not have delivered a mirror pod that an earlier agent run created.
      const existing = await kube.get("pods", namespace, name);
      if (existing === undefined || mirrorStep(pod, parseNodePod(existing)) !== "none") throw error;
    });
  } catch (error) {
    const level = isUnanswered(error) ? "debug" : "warn";
    log[level]("failed to reconcile the mirror pod", { pod: `${namespace}/${name}`, error: describeError(error) });
  }
}

/** Deletes the mirror pod with exactly this UID, without a grace period. */
export async function deleteMirror({ kube }: Pick<MirrorPorts, "kube">, mirror: NodePod): Promise<void> {
  const { namespace, name, uid } = mirror.metadata;
  await kube.delete({ resource: "pods", namespace, name, preconditions: { uid }, gracePeriodSeconds: 0 }).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
}

/**
 * The body of the create request. The owner reference to the Node is required for a node to create the pod. Source:
 * pkg/kubelet/pod/mirror_client.go CreateMirrorPod.
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
 * Returns the next action for the mirror pod of a static pod. Deletes use grace 0 and the mirror's UID; creates need the Node. A create
 * that conflicts with an equal mirror pod counts as done. Source: pkg/kubelet/kubelet.go tryReconcileMirrorPods,
 * pkg/kubelet/pod/pod_manager.go IsMirrorPodOf.
 */
export function mirrorStep(pod: NodePod, mirror: NodePod | undefined): MirrorStep {
  if (mirror === undefined) return "create";
  if (mirror.metadata.deletionTimestamp !== undefined || fullName(mirror) !== fullName(pod)) return "deleteThenCreate";
  return mirror.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === hashOf(pod) ? "none" : "deleteThenCreate";
}

/** Returns the config hash of a static pod: from its manifest, or else its UID. */
function hashOf(pod: NodePod): string {
  return pod.metadata.annotations?.[CONFIG_ANNOTATIONS.hash] ?? "";
}
