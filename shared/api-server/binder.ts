/** A minimal scheduler for the in-memory API server: binds each pod to the node with the fewest pods. */
import type { Pod } from "@deltaloop/kube/objects";
import { ListWatch } from "@deltaloop/kube/list-watch";
import type { Listener, Listing } from "@deltaloop/kube/list-watch";
import type { Clock, Random } from "@deltaloop/base";
import { isConflict, isNotFound } from "@deltaloop/kube/client";
import type { Kube } from "@deltaloop/kube/client";

export interface BinderOptions {
  readonly nodes: readonly string[];
  readonly clock: Clock;
  readonly random: Random;
}

const RETRY_MS = 1_000;

/** Runs until `signal` aborts. */
export async function runBinder(kube: Kube, { nodes, clock, random }: BinderOptions, signal: AbortSignal): Promise<void> {
  await new ListWatch({ kube, resource: "pods", clock, random }, new Binder(kube, nodes, clock, signal)).run(signal);
}

class Binder implements Listener {
  readonly #kube: Kube;
  readonly #nodes: readonly string[];
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  /** Node by pod uid, from the moment a binding is sent. */
  readonly #placed = new Map<string, string>();

  constructor(kube: Kube, nodes: readonly string[], clock: Clock, signal: AbortSignal) {
    this.#kube = kube;
    this.#nodes = nodes;
    this.#clock = clock;
    this.#signal = signal;
  }

  list(): Listing {
    const listed = new Map<string, Pod>();
    return {
      page: (items) => items.forEach((item) => void listed.set(uidOf(item), item as Pod)), // the list contains pods
      change: (type, object) => void (type === "D" ? listed.delete(uidOf(object)) : listed.set(uidOf(object), object as Pod)),
      listed: () => {
        for (const uid of this.#placed.keys()) if (!listed.has(uid)) this.#placed.delete(uid);
        for (const pod of listed.values()) this.#observe(pod);
      },
    };
  }

  change(type: "A" | "M" | "D", object: unknown): void {
    if (type === "D") this.#placed.delete(uidOf(object));
    else this.#observe(object as Pod); // the watch delivers pods
  }

  #observe(pod: Pod): void {
    const [uid, node] = [uidOf(pod), pod.spec?.nodeName ?? ""];
    if (node !== "") this.#placed.set(uid, node);
    else if (!this.#placed.has(uid) && pod.metadata?.deletionTimestamp === undefined) void this.#bind(pod);
  }

  async #bind(pod: Pod): Promise<void> {
    const { namespace = "", name = "" } = pod.metadata ?? {};
    const uid = uidOf(pod);
    const target = { apiVersion: "v1", kind: "Node", name: this.#leastLoaded() };
    this.#placed.set(uid, target.name);
    const body = { apiVersion: "v1", kind: "Binding", metadata: { name, namespace, uid }, target };
    while (!this.#signal.aborted) {
      try {
        return void (await this.#kube.create({ resource: "pods", namespace, of: { name, subresource: "binding" }, body }));
      } catch (error) {
        if (isNotFound(error) || isConflict(error)) return; // the pod was deleted, or bound by another client
        await this.#clock.after(RETRY_MS, this.#signal).catch(() => undefined);
      }
    }
  }

  #leastLoaded(): string {
    const load = (node: string): number => [...this.#placed.values()].filter((one) => one === node).length;
    return this.#nodes.reduce((best, node) => (load(node) < load(best) ? node : best), this.#nodes[0] ?? "");
  }
}

function uidOf(object: unknown): string {
  return (object as Pod).metadata?.uid ?? ""; // the object is from the server
}
