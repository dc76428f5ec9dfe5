/**
 * The desired pods of all sources, in host memory (node-agent §2, §3).
 *
 * PM1 a mirror pod is never a desired pod. A mirror pod and its static pod are matched by full name.
 * PM2 a removed pod can be looked up by UID, with its last spec, until `forget` is called, because its worker needs the spec to terminate
 *     it.
 * PM3 if several desired pods have the same full name, the name refers to the latest of them; when that pod is removed, it refers to the
 *     previous one again.
 */
import { CONFIG_ANNOTATIONS, isMirrorPod, isStaticPod } from "../types/labels.ts";
import { fullName, type NodePod } from "../types/pod.ts";

/**
 * The pod manager. Source: pkg/kubelet/pod/pod_manager.go basicManager. Differs from upstream in PM2: upstream's worker keeps the pod
 * itself.
 */
export class PodManager {
  readonly #pods = new Map<string, NodePod>();
  readonly #mirrors = new Map<string, NodePod>();
  readonly #lastKnown = new Map<string, NodePod>();

  /** Adds or updates a pod or a mirror pod. */
  set(pod: NodePod): void {
    (isMirrorPod(pod) ? this.#mirrors : this.#pods).set(pod.metadata.uid, pod);
  }

  /** Removes a pod that is no longer in its source. */
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

  /** Returns a regular or static pod: the desired pod, or else the last known one (PM2). */
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

  /** Returns the mirror pod of a static pod. Also works for a removed static pod, whose last status is still sent to its mirror pod. */
  mirrorOf(pod: NodePod): NodePod | undefined {
    return lastOf(this.#mirrors, fullName(pod));
  }

  /** Returns the static pod of `mirror`. */
  staticOf(mirror: NodePod): NodePod | undefined {
    return lastOf(this.#pods, fullName(mirror));
  }

  /** Number of stored pods of any kind. */
  get size(): number {
    return this.#pods.size + this.#mirrors.size + this.#lastKnown.size;
  }

  /** Returns the full names of mirror pods without a static pod, which housekeeping deletes. */
  orphanMirrors(): readonly string[] {
    const names = new Set(this.desired().map(fullName));
    return this.mirrors()
      .map(fullName)
      .filter((name) => !names.has(name));
  }
}

/** A linear search suffices, because a node has about a hundred pods. */
function lastOf(pods: ReadonlyMap<string, NodePod>, name: string): NodePod | undefined {
  return [...pods.values()].findLast((pod) => fullName(pod) === name);
}

/**
 * Returns the pod's API object: the pod itself, or the mirror pod of a static pod. Ignores a mirror pod with another manifest hash,
 * because its status and its deletion belong to another pod.
 */
export function apiPodOf(pods: PodManager, pod: NodePod): NodePod | undefined {
  if (!isStaticPod(pod)) return pod;
  const mirror = pods.mirrorOf(pod);
  const isOwn = mirror?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === pod.metadata.annotations?.[CONFIG_ANNOTATIONS.hash];
  return isOwn ? mirror : undefined;
}
