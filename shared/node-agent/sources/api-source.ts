/**
 * The pods that the API server has bound to this node (node-agent §2.4): a list and a watch with `spec.nodeName=<node>`, which resume and
 * relist as in a Reflector. The host starts this source after it has read its own Node.
 *
 * SA1 `emit` is called with the complete list at one resourceVersion: after each list, and after each group of events that arrived
 *     together and changed a pod.
 * SA2 nothing is emitted before the first list is complete, and nothing is emitted because a connection was lost.
 * SA3 an invalid pod is logged, and its last valid version is kept; other pods are not affected.
 */
import { ListWatch } from "@deltaloop/kube/list-watch";
import type { Listener, Listing } from "@deltaloop/kube/list-watch";
import type { Resource } from "@deltaloop/kube/objects";
import { objectKey } from "@deltaloop/kube/objects";
import { parseNodePod } from "../kubelet/types/pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import { describeError } from "@deltaloop/kube/client";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";

export interface ApiSourceOptions {
  readonly kube: KubeWatch<Resource>;
  readonly nodeName: string;
  readonly emit: (pods: readonly NodePod[]) => void;
  readonly log: Log;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics?: Metrics | undefined;
}

/** Runs until `signal` aborts. Source: pkg/kubelet/config/apiserver.go NewSourceApiserver, client-go tools/cache/undelta_store.go. */
export async function runApiSource(options: ApiSourceOptions, signal: AbortSignal): Promise<void> {
  const followed = { ...options, resource: "pods", fieldSelector: `spec.nodeName=${options.nodeName}` } as const;
  await new ListWatch(followed, new BoundPods(options)).run(signal);
}

class BoundPods implements Listener {
  readonly #options: Pick<ApiSourceOptions, "emit" | "log">;
  /** Pods by `namespace/name`. */
  #pods = new Map<string, NodePod>();
  #changed = false;

  constructor(options: Pick<ApiSourceOptions, "emit" | "log">) {
    this.#options = options;
  }

  list(): Listing {
    const pods = new Map<string, NodePod>();
    return {
      page: (items) => {
        for (const item of items) this.#keep(pods, item);
      },
      change: (type, object) => void (type === "D" ? this.#drop(pods, object) : this.#keep(pods, object)),
      listed: () => {
        this.#pods = pods;
        this.#emit();
      },
    };
  }

  change(type: "A" | "M" | "D", object: unknown): void {
    this.#changed = (type === "D" ? this.#drop(this.#pods, object) : this.#keep(this.#pods, object)) || this.#changed;
  }

  batchDone(): void {
    if (this.#changed) this.#emit();
  }

  /** @returns whether the pod is valid */
  #keep(pods: Map<string, NodePod>, object: unknown): boolean {
    const { namespace, name } = nameOf(object);
    try {
      const pod = parseNodePod(object);
      pods.set(objectKey(pod.metadata.namespace, pod.metadata.name), pod);
      return true;
    } catch (error) {
      this.#options.log.error("invalid pod from the API server; keeping its last valid version", {
        pod: `${namespace}/${name}`,
        error: describeError(error),
      });
      const known = this.#pods.get(objectKey(namespace, name));
      if (known !== undefined) pods.set(objectKey(namespace, name), known);
      return false;
    }
  }

  #drop(pods: Map<string, NodePod>, object: unknown): boolean {
    const { namespace, name } = nameOf(object);
    return pods.delete(objectKey(namespace, name));
  }

  #emit(): void {
    this.#changed = false;
    this.#options.emit([...this.#pods.values()]);
  }
}

function nameOf(object: unknown): { readonly namespace: string; readonly name: string } {
  // The key of an object without a name contains "undefined".
  const metadata = (object as { readonly metadata?: { readonly namespace?: unknown; readonly name?: unknown } } | null)?.metadata;
  return { namespace: String(metadata?.namespace), name: String(metadata?.name) };
}
