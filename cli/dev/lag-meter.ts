/** Measures the time from an event's commit in the API server to the commit of the write that responds to it. */
import { objectKey } from "@deltaloop/kube/objects";
import type { RequestRecord } from "@deltaloop/api-server";
import type { ItemChange } from "@deltaloop/store/ports";
import { REGISTRY } from "@deltaloop/controllers/registry";
import type { ControllerEntry, Registry } from "@deltaloop/controllers/registry";

/** Number of commit times kept; far more than the number that wait for a write at any time. */
const COMMITS_MAX = 10_000;

export class LagMeter {
  readonly #registry: Registry;
  readonly #committedMs = new Map<string, number>();
  /** The oldest unanswered event of each controller's key. */
  readonly #waiting = new Map<string, number>();
  readonly lagsMs: number[] = [];
  writes = 0;

  constructor(registry: Registry = REGISTRY) {
    this.#registry = registry;
  }

  /** Records a mutating request that the API server has answered. */
  request(record: RequestRecord): void {
    const metadata = record.response?.["metadata"] as Metadata | undefined;
    if (record.verb === "get" || record.verb === "list" || record.verb === "watch" || record.status >= 400 || !metadata) return;
    if (typeof metadata.resourceVersion === "string") this.#commit(metadata.resourceVersion, record.atMs);
    const controller = this.#controllerOf(record.userAgent);
    if (!controller || record.resource === "events") return;
    this.writes++;
    const id = `${controller.name} ${objectKey(record.namespace, this.#ownerName(controller, record, metadata))}`;
    const since = this.#waiting.get(id);
    if (since === undefined) return;
    this.#waiting.delete(id);
    this.lagsMs.push(record.atMs - since);
  }

  /** Records the affected keys of events, from the applier. */
  changes(items: readonly ItemChange[]): void {
    for (const item of items) {
      const at = this.#committedMs.get(item.rv);
      if (at === undefined) continue;
      for (const { controller, key, urgency } of item.effects) {
        const id = `${controller} ${key}`;
        // A status effect waits on purpose, to merge several into one write.
        if (urgency === "act" && !this.#waiting.has(id)) this.#waiting.set(id, at);
      }
    }
  }

  percentile(p: number): number | undefined {
    const sorted = this.lagsMs.toSorted((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))];
  }

  #commit(rv: string, atMs: number): void {
    this.#committedMs.set(rv, atMs);
    if (this.#committedMs.size > COMMITS_MAX) this.#committedMs.delete(this.#committedMs.keys().next().value ?? "");
  }

  #controllerOf(userAgent: string): ControllerEntry | undefined {
    const component = /^deltaloop\/\S+ \(([\w-]+)\)$/.exec(userAgent)?.[1];
    return this.#registry.controllers.find(({ name }) => name === component);
  }

  /** The key that a write was made for: the primary itself, or the controller owner of the written object. */
  #ownerName({ primary }: ControllerEntry, record: RequestRecord, metadata: Metadata): string {
    if (record.resource === primary && this.#registry.resources[primary]?.group === record.group) return record.name;
    return metadata.ownerReferences?.find((reference) => reference.controller === true)?.name ?? record.name;
  }
}

interface Metadata {
  readonly name?: string;
  readonly resourceVersion?: string;
  readonly ownerReferences?: readonly { readonly controller?: boolean; readonly name: string }[];
}
