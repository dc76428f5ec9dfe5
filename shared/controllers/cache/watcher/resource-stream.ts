/**
 * The stream of one resource from the API server to the sinks of its views. It keeps no state per object except during a list, when it
 * keeps key, uid and version of each object (the manifest).
 */
import type { Cached, Resource, View } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { maxResourceVersion, objectKey, messageOf } from "@deltaloop/kube/objects";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { KubeWatch } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import { cachedAs, needsMetadataOnly } from "../cache-registry.ts";
import type { CacheRegistry } from "../cache-registry.ts";
import type { DeltaSink, SinkItem } from "./delta-sink.ts";
import { ListWatch } from "@deltaloop/kube/list-watch";
import { POD_FIELDS } from "@deltaloop/kube/strip";
import type { Listener, Listing } from "@deltaloop/kube/list-watch";
import { ListedRows } from "./listed-rows.ts";
import type { CachedVersions } from "./listed-rows.ts";
import { isOwnWrite } from "./own-write.ts";

/** A view that the stream feeds. */
export interface Feed {
  readonly view: View;
  readonly sink: DeltaSink;
  /**
   * Announces a list to the Store, which numbers the lists of a resource (`generation`). `floor`: the greatest watermark; the list must not
   * be older. Rejects once a newer leader has raised the fence.
   */
  readonly openGeneration: () => Promise<{ readonly generation: number; readonly floor: string }>;
  /** Versions in the cache: listed objects at these versions are sent without payload. */
  readonly cachedVersions?: () => Promise<CachedVersions>;
}

export interface ResourceStreamPorts {
  readonly kube: KubeWatch<Resource>;
  /** The feeds of the resource; at least one. */
  readonly feeds: readonly Feed[];
  /** By default, the feeds are views of the built-in controllers. */
  readonly registry?: Pick<CacheRegistry, "views">;
  readonly clock: Clock;
  readonly random: Random;
  readonly digester: Digester;
  readonly log: Log;
  readonly metrics?: Metrics | undefined;
  readonly quarantine: (what: string, where: string, why: string) => Promise<void>;
  /** Called with each received object before it is stripped. The guard's canary is not cached (informer §11.9). */
  readonly look?: ((object: unknown) => "canary" | undefined) | undefined;
}

/** One list for one view. */
interface FeedList {
  readonly feed: Feed;
  readonly generation: number;
  readonly floor: string;
  readonly rows: ListedRows;
  cached?: CachedVersions | undefined;
}

const NO_VIEWS = { views: new Map() };

export class ResourceStream implements Listener {
  readonly #ports: ResourceStreamPorts;
  readonly #loop: ListWatch<Resource>;
  /** The greatest version received: of an event, a bookmark or a complete list. */
  accepted: string | undefined;

  /**
   * `resumeFrom`: the version up to which the cache is complete; absent: list first. `known`: the greatest version up to which any lane is
   * complete.
   */
  constructor(ports: ResourceStreamPorts, resource: Resource, resumeFrom: string | undefined, known?: string) {
    this.#ports = ports;
    this.accepted = known;
    const { feeds, registry = NO_VIEWS } = ports;
    const kube = feeds.every(({ view }) => needsMetadataOnly(registry, view)) ? metadataOf(ports.kube) : ports.kube;
    // Only pods as protobuf. Workloads are cached whole, and a digest includes fields of templates that no table knows yet.
    const fields = feeds.every(({ view }) => view === "pods") ? POD_FIELDS : undefined;
    this.#loop = new ListWatch({ ...ports, kube, resource, fields, resumeFrom, known }, this);
  }

  /** Aborts the current request and lists again. */
  relist(why: string): void {
    this.#loop.relist(why);
  }

  /** Runs until `signal` aborts. @throws {HistoryRegressedError}, and what `openGeneration` throws. */
  run(signal: AbortSignal): Promise<void> {
    return this.#loop.run(signal);
  }

  async list(): Promise<Listing> {
    const lists: FeedList[] = [];
    for (const feed of this.#ports.feeds) lists.push({ feed, ...(await feed.openGeneration()), rows: new ListedRows() });
    return {
      floor: lists.map(({ floor }) => floor).reduce(maxResourceVersion),
      begin: async () => {
        for (const list of lists) list.cached = await list.feed.cachedVersions?.();
      },
      page: async (items, listRV) => {
        for (const item of items) {
          if (this.#isCanary(item)) continue;
          for (const { feed, generation, rows, cached } of lists) {
            const listed = await this.#read(feed, "A", item, "list");
            if (!listed) continue;
            rows.add(listed);
            if (cached?.has(listed.key, listed.uid, listed.rv) !== true) feed.sink.listed(listed, listRV, generation);
          }
        }
      },
      change: async (type, object, listRV) => {
        if (this.#isCanary(object)) return;
        for (const { feed, generation, rows } of lists) {
          const changed = await this.#read(feed, type, object, "list");
          if (!changed) continue;
          rows.change(changed.key, type === "D" ? undefined : changed);
          // Deletes are not sent while listing, because the manifest does not contain the object.
          if (type === "M") feed.sink.listed(changed, listRV, generation);
        }
      },
      listed: (listRV) => {
        this.#accept(listRV);
        for (const { feed, rows, generation } of lists) feed.sink.manifest(listRV, rows, generation);
      },
    };
  }

  async change(type: SinkItem["type"], object: unknown, rv: string): Promise<void> {
    this.#accept(rv);
    if (this.#isCanary(object)) return;
    for (const feed of this.#ports.feeds) {
      const item = await this.#read(feed, type, object, `watch at ${rv}`);
      if (item) feed.sink.live(isOwnWrite(feed.view, type, object) ? { ...item, isOwn: true } : item);
    }
  }

  batchDone(): void {
    for (const { sink } of this.#ports.feeds) sink.readDone?.();
  }

  #isCanary(object: unknown): boolean {
    return this.#ports.look?.(object) === "canary";
  }

  #accept(rv: string): void {
    this.accepted = maxResourceVersion(this.accepted ?? "0", rv);
  }

  bookmark(rv: string): void {
    this.#accept(rv);
    for (const { sink } of this.#ports.feeds) sink.watermark(rv);
  }

  async room(signal: AbortSignal): Promise<void> {
    for (const { sink } of this.#ports.feeds) await sink.room(signal);
  }

  /** An object that cannot be stripped is logged and omitted; others continue. */
  async #read({ view }: Feed, type: SinkItem["type"], object: unknown, where: string): Promise<SinkItem | undefined> {
    const { digester, quarantine, registry = NO_VIEWS } = this.#ports;
    try {
      const stripped = cachedAs(registry, view, object, digester);
      return { type, ...identityOf(stripped), object: stripped };
    } catch (error) {
      const name = (object as { readonly metadata?: { readonly namespace?: unknown; readonly name?: unknown } } | null)?.metadata;
      await quarantine(`${view} ${String(name?.namespace)}/${String(name?.name)}`, where, messageOf(error));
      return undefined;
    }
  }
}

/** Lists and watches PartialObjectMetadata, so that no value leaves the API server. */
function metadataOf(kube: KubeWatch<Resource>): KubeWatch<Resource> {
  return {
    ...kube,
    listPage: (resource, query, signal) => kube.listPage(resource, { ...query, metadataOnly: true }, signal),
    watch: (resource, query, signal) => kube.watch(resource, { ...query, metadataOnly: true }, signal),
  };
}

function identityOf(object: Cached<View>): Pick<SinkItem, "key" | "uid" | "rv"> {
  const { namespace, name, uid, resourceVersion } = "metadata" in object ? object.metadata : object;
  return { key: objectKey(namespace, name), uid, rv: resourceVersion };
}
