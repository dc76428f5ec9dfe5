/**
 * The pods that this node is to run, as all sources together say it, in the memory of one host (node-agent §2, §3).
 *
 * PM1 a mirror pod is never desired: it is only looked up, from its static pod or by it; what joins the two is the full name.
 * PM2 a pod that is desired no longer is still known by its UID, with its last spec, until `forget`: its worker ends it by that spec.
 * PM3 of several desired pods of one full name the one that came last has it, and the one before once that is gone.
 */
import { CONFIG_ANNOTATIONS, isMirrorPod, isStaticPod } from "../types/labels.ts";
import { fullName } from "../types/pod.ts";
import type { NodePod } from "../types/pod.ts";

/** Source: pkg/kubelet/pod/pod_manager.go basicManager. Differs from upstream: PM2, where a worker keeps its pod itself. */
export class PodManager {
  // By UID.
  readonly #pods = new Map<string, NodePod>();
  readonly #mirrors = new Map<string, NodePod>();
  readonly #lastKnown = new Map<string, NodePod>();

  /** A pod is new or has changed, mirror or not. */
  set(pod: NodePod): void {
    (isMirrorPod(pod) ? this.#mirrors : this.#pods).set(pod.metadata.uid, pod);
  }

  /** Its source has it no longer. */
  remove(uid: string): void {
    const pod = this.#pods.get(uid);
    if (pod !== undefined) this.#lastKnown.set(uid, pod);
    this.#pods.delete(uid);
    this.#mirrors.delete(uid);
  }

  /** The worker of a pod that is desired no longer has ended; a desired pod stays. */
  forget(uid: string): void {
    this.#lastKnown.delete(uid);
  }

  /** Regular or static pod: as desired, else as last known (PM2). */
  get(uid: string): NodePod | undefined {
    return this.#pods.get(uid) ?? this.#lastKnown.get(uid);
  }

  isDesired(uid: string): boolean {
    return this.#pods.has(uid);
  }

  /** Regular and static pods. */
  desired(): readonly NodePod[] {
    return [...this.#pods.values()];
  }

  mirrors(): readonly NodePod[] {
    return [...this.#mirrors.values()];
  }

  /** Also of a pod that is desired no longer: its last status still belongs there. */
  mirrorOf(pod: NodePod): NodePod | undefined {
    return lastOf(this.#mirrors, fullName(pod));
  }

  /** The desired pod that `mirror` stands for. */
  staticOf(mirror: NodePod): NodePod | undefined {
    return lastOf(this.#pods, fullName(mirror));
  }

  /** Pods of any kind that are kept. */
  get size(): number {
    return this.#pods.size + this.#mirrors.size + this.#lastKnown.size;
  }

  /** Full names of mirrors without such a pod; housekeeping deletes them. */
  orphanMirrors(): readonly string[] {
    const names = new Set(this.desired().map(fullName));
    return this.mirrors()
      .map(fullName)
      .filter((name) => !names.has(name));
  }
}

/** A node has a hundred pods; an index by name would cost more care than it saves time. */
function lastOf(pods: ReadonlyMap<string, NodePod>, name: string): NodePod | undefined {
  return [...pods.values()].findLast((pod) => fullName(pod) === name);
}

/**
 * The pod that stands for `pod` in the API server: itself, or the mirror of a static pod. A mirror of its name that was made for an
 * earlier manifest is not its own: what is said there is of another pod, and that one's end must not be taken for this one's.
 */
export function apiPodOf(pods: PodManager, pod: NodePod): NodePod | undefined {
  if (!isStaticPod(pod)) return pod;
  const mirror = pods.mirrorOf(pod);
  const isOwn = mirror?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === pod.metadata.annotations?.[CONFIG_ANNOTATIONS.hash];
  return isOwn ? mirror : undefined;
}
