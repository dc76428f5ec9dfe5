/**
 * The desired pods of all sources, in host memory (node-agent §2, §3).
 *
 * PM1 a mirror pod is never desired; it is looked up from its static pod, or the reverse, by full name.
 * PM2 a removed pod stays known by UID, with its last spec, until `forget`: its worker terminates it by that spec.
 * PM3 of several desired pods with one full name, the latest applies; when it is removed, the previous one applies again.
 */
import { CONFIG_ANNOTATIONS, isMirrorPod, isStaticPod } from "../types/labels.ts";
import { fullName, type NodePod } from "../types/pod.ts";

/**
 * The pod manager. Source: pkg/kubelet/pod/pod_manager.go basicManager. Differs from upstream: PM2, where upstream's worker keeps the pod.
 */
export class PodManager {
  readonly #pods = new Map<string, NodePod>();
  readonly #mirrors = new Map<string, NodePod>();
  readonly #lastKnown = new Map<string, NodePod>();

  /** Adds or updates a pod or a mirror pod. */
  set(pod: NodePod): void {
    (isMirrorPod(pod) ? this.#mirrors : this.#pods).set(pod.metadata.uid, pod);
  }

  /** Removes a pod that its source no longer has. */
  remove(uid: string): void {
    const pod = this.#pods.get(uid);
    if (pod !== undefined) this.#lastKnown.set(uid, pod);
    this.#pods.delete(uid);
    this.#mirrors.delete(uid);
  }

  /** Drops the last known spec of a removed pod. */
  forget(uid: string): void {
    this.#lastKnown.delete(uid);
  }

  /** Returns a regular or static pod: the desired pod, or else the last known pod (PM2). */
  get(uid: string): NodePod | undefined {
    return this.#pods.get(uid) ?? this.#lastKnown.get(uid);
  }

  isDesired(uid: string): boolean {
    return this.#pods.has(uid);
  }

  /** Desired regular and static pods. */
  desired(): readonly NodePod[] {
    return [...this.#pods.values()];
  }

  mirrors(): readonly NodePod[] {
    return [...this.#mirrors.values()];
  }

  /** Returns the mirror of a pod, even of a removed pod, whose last status the mirror still receives. */
  mirrorOf(pod: NodePod): NodePod | undefined {
    return lastOf(this.#mirrors, fullName(pod));
  }

  /** The static pod of `mirror`. */
  staticOf(mirror: NodePod): NodePod | undefined {
    return lastOf(this.#pods, fullName(mirror));
  }

  /** Number of stored pods of any kind. */
  get size(): number {
    return this.#pods.size + this.#mirrors.size + this.#lastKnown.size;
  }

  /** Full names of mirrors without a static pod; housekeeping deletes them. */
  orphanMirrors(): readonly string[] {
    const names = new Set(this.desired().map(fullName));
    return this.mirrors()
      .map(fullName)
      .filter((name) => !names.has(name));
  }
}

/** Linear search: a node has about a hundred pods. */
function lastOf(pods: ReadonlyMap<string, NodePod>, name: string): NodePod | undefined {
  return [...pods.values()].findLast((pod) => fullName(pod) === name);
}

/**
 * The pod's API object: itself, or the mirror of a static pod. Ignores a mirror of another manifest hash: because its status and deletion
 * belong to another pod.
 */
export function apiPodOf(pods: PodManager, pod: NodePod): NodePod | undefined {
  if (!isStaticPod(pod)) return pod;
  const mirror = pods.mirrorOf(pod);
  const isOwn = mirror?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === pod.metadata.annotations?.[CONFIG_ANNOTATIONS.hash];
  return isOwn ? mirror : undefined;
}
