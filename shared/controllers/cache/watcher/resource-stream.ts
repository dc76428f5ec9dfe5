/**
 * One resource's stream from the API server to a sink. It keeps nothing per object outside a list; while listing, it keeps key,
 * uid and version of each (the manifest).
 */
import type { Cached, CachedResource } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { maxResourceVersion, objectKey, messageOf } from "@deltaloop/kube/objects";
import { strip } from "@deltaloop/kube/strip";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import type { DeltaSink, SinkItem } from "./delta-sink.ts";
import { ListWatch } from "@deltaloop/kube/list-watch";
import type { Listener, Listing } from "@deltaloop/kube/list-watch";
import { ListedRows } from "./listed-rows.ts";
import type { CachedVersions } from "./listed-rows.ts";
import { isOwnWrite } from "./own-write.ts";

export interface ResourceStreamPorts {
  readonly kube: KubeWatch;
  readonly sink: DeltaSink;
  readonly clock: Clock;
  readonly random: Random;
  readonly digester: Digester;
  readonly log: Log;
  readonly metrics?: Metrics | undefined;
  /** Starts a generation in the Store; its `floor` is the greatest watermark. Rejects once the leader is fenced off. */
  readonly openGeneration: () => Promise<{ readonly generation: number; readonly floor: string }>;
  /** Versions in the cache: listed objects at these versions are sent without payload. */
  readonly cachedVersions?: () => Promise<CachedVersions>;
  readonly quarantine: (what: string, where: string, why: string) => Promise<void>;
  /** Called with each received object before it is stripped. The guard's canary is not cached (informer §11.9). */
  readonly look?: ((resource: CachedResource, object: unknown) => "canary" | undefined) | undefined;
}

export class ResourceStream implements Listener {
  readonly #ports: ResourceStreamPorts;
  readonly #resource: CachedResource;
  readonly #loop: ListWatch;
  /** The greatest version received: of an event, a bookmark or a complete list. */
  accepted: string | undefined;

  /**
   * `resumeFrom`: the version up to which the cache is complete; absent: list first. `known`: the greatest version up to which any lane is
   * complete.
   */
  constructor(ports: ResourceStreamPorts, resource: CachedResource, resumeFrom: string | undefined, known?: string) {
    this.#ports = ports;
    this.#resource = resource;
    this.accepted = known;
    this.#loop = new ListWatch({ ...ports, resource, resumeFrom, known }, this);
  }

  /** Ends the current request and lists again: a lane is frozen or a payload was lost. */
  relist(why: string): void {
    this.#loop.relist(why);
  }

  /** Runs until `signal` aborts. @throws {HistoryRegressedError}, and what `openGeneration` throws. */
  run(signal: AbortSignal): Promise<void> {
    return this.#loop.run(signal);
  }

  async list(): Promise<Listing> {
    const { cachedVersions, openGeneration, sink } = this.#ports;
    const { generation, floor } = await openGeneration();
    const rows = new ListedRows();
    let cached: CachedVersions | undefined;
    return {
      floor,
      begin: async () => {
        cached = await cachedVersions?.();
      },
      page: async (items, listRV) => {
        for (const item of items) {
          const listed = await this.#read("A", item, "list");
          if (!listed) continue;
          rows.add(listed);
          if (cached?.has(listed.key, listed.uid, listed.rv) !== true) sink.listed(listed, listRV, generation);
        }
      },
      change: async (type, object, listRV) => {
        const changed = await this.#read(type, object, "list");
        if (!changed) return;
        rows.change(changed.key, type === "D" ? undefined : changed);
        // Deletions are not sent while listing: the manifest implies them.
        if (type === "M") sink.listed(changed, listRV, generation);
      },
      listed: (listRV) => {
        this.#accept(listRV);
        return sink.manifest(listRV, rows, generation);
      },
    };
  }

  async change(type: SinkItem["type"], object: unknown, rv: string): Promise<void> {
    this.#accept(rv);
    const item = await this.#read(type, object, `watch at ${rv}`);
    if (item) this.#ports.sink.live(isOwnWrite(this.#resource, type, object) ? { ...item, isOwn: true } : item);
  }

  #accept(rv: string): void {
    this.accepted = maxResourceVersion(this.accepted ?? "0", rv);
  }

  bookmark(rv: string): void {
    this.#accept(rv);
    this.#ports.sink.watermark(rv);
  }

  room(signal: AbortSignal): Promise<void> {
    return this.#ports.sink.room(signal);
  }

  /** An object that cannot be stripped is logged and omitted; others continue. */
  async #read(type: SinkItem["type"], object: unknown, where: string): Promise<SinkItem | undefined> {
    if (this.#ports.look?.(this.#resource, object) === "canary") return undefined;
    try {
      const stripped = strip(this.#resource, object, this.#ports.digester);
      return { type, ...identityOf(stripped), object: stripped };
    } catch (error) {
      const name = (object as { readonly metadata?: { readonly namespace?: unknown; readonly name?: unknown } } | null)?.metadata;
      await this.#ports.quarantine(`${this.#resource} ${String(name?.namespace)}/${String(name?.name)}`, where, messageOf(error));
      return undefined;
    }
  }
}

function identityOf(object: Cached): Pick<SinkItem, "key" | "uid" | "rv"> {
  const { namespace, name, uid, resourceVersion } = "metadata" in object ? object.metadata : object;
  return { key: objectKey(namespace, name), uid, rv: resourceVersion };
}
