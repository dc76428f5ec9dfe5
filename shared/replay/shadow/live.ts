/**
 * Shadow mode next to live upstream controllers: changes are compared with a delay, when all watches have delivered them.
 *
 * LV1 the position of a change among the others is final one second after its arrival. A write is classified when later writes of the same
 *    sync have arrived, too (SH5), and an idle state after two seconds without a change.
 * LV2 nothing is classified before everything was listed once. Objects found by a relist are attributed to no client, and deletions found
 *     by it have an unknown cause.
 * LV3 of each namespace the newest changes and the state before them are kept.
 */
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { CaptureRecord } from "../capture-format/capture.ts";
import { EXCESS_MS, classify, restAt } from "./classify.ts";
import type { SyncPlace } from "./one-sync.ts";
import type { Finding } from "./recorded.ts";
import { changeOf, History, inOrder, placeOf } from "./states.ts";
import type { Change, ChangeOptions, LiveObject } from "./states.ts";
import { writesOfChanges } from "./upstream-writes.ts";
import type { UpstreamWrite } from "./upstream-writes.ts";

const SETTLED_MS = 1_000;
/** Time without changes after which a state is idle. It is longer than in classify.ts, because watches lag behind each other. */
const QUIET_MS = 2_000;
/** Changes kept per namespace; cleanup starts at twice as many. */
const KEPT = 1_000;

interface Namespace {
  history: History;
  /** Time of the namespace's last change; undefined if already checked. */
  changedMs: number | undefined;
}

interface Listing {
  isDone: boolean;
  /** The known objects, keyed by placeOf. */
  readonly known: Map<string, Change>;
  /** Objects in the current list. */
  readonly shown: Set<string>;
}

export class LiveShadow {
  readonly #place: SyncPlace;
  readonly #options: ChangeOptions;
  readonly #namespaces = new Map<string, Namespace>();
  readonly #written = new Map<string, LiveObject>();
  readonly #listings = new Map<CachedResource, Listing>(
    CACHED_RESOURCES.map((resource) => [resource, { isDone: false, known: new Map(), shown: new Set() }]),
  );
  #waiting: Change[] = [];
  #unclassified: UpstreamWrite[] = [];

  constructor(place: SyncPlace, options: ChangeOptions) {
    this.#place = place;
    this.#options = options;
  }

  /** Processes records of unredacted objects as they arrive. @throws {CaptureError} when an object is stripped */
  hear(record: CaptureRecord): void {
    const listing = this.#listings.get(record.resource);
    if (listing === undefined) return;
    if (record.kind === "listed") return this.#listed(listing, record);
    const change = changeOf(record, false, this.#options);
    if (change === undefined) return;
    const place = placeOf(change.object);
    if (record.kind === "item") listing.shown.add(place);
    if (listing.known.get(place)?.version === change.version) return;
    if (change.deleted) listing.known.delete(place);
    else listing.known.set(place, change);
    this.#waiting.push(change);
  }

  /** LV2 */
  #listed(listing: Listing, { atMs, rv = "0" }: CaptureRecord): void {
    const gone = [...listing.known].filter(([place]) => listing.isDone && !listing.shown.has(place));
    for (const [place, change] of gone) {
      listing.known.delete(place);
      this.#waiting.push({ ...change, version: rv, deleted: true, atMs, listed: true });
    }
    listing.isDone = true;
    listing.shown.clear();
  }

  /** Yields the findings that are due (LV1). */
  async *findings(nowMs: number): AsyncGenerator<Finding> {
    if ([...this.#listings.values()].some(({ isDone }) => !isDone)) return;
    const settled = this.#waiting.filter(({ atMs }) => atMs <= nowMs - SETTLED_MS);
    this.#waiting = this.#waiting.filter(({ atMs }) => atMs > nowMs - SETTLED_MS);
    for (const [name, changes] of Map.groupBy(inOrder(settled), ({ object }) => object.metadata.namespace)) {
      const namespace = this.#namespaces.get(name) ?? { history: new History([]), changedMs: undefined };
      this.#namespaces.set(name, namespace);
      namespace.history.push(changes);
      namespace.changedMs = changes.reduce((latest, { atMs }) => Math.max(latest, atMs), 0);
      this.#unclassified.push(...writesOfChanges(changes, this.#written));
    }
    const isRipe = ({ atMs }: UpstreamWrite): boolean => atMs <= nowMs - SETTLED_MS - EXCESS_MS;
    const ripe = this.#unclassified.filter(isRipe);
    this.#unclassified = this.#unclassified.filter((write) => !isRipe(write));
    for (const write of ripe) {
      const history = this.#namespaces.get(write.namespace)?.history;
      if (history !== undefined) yield { kind: "write", atMs: write.atMs, write, verdict: await classify(history, write, this.#place) };
    }
    for (const namespace of this.#namespaces.values())
      if (namespace.history.changes.length > 2 * KEPT) namespace.history = namespace.history.shortened(KEPT);
    for (const [name, namespace] of this.#namespaces) {
      const { history, changedMs } = namespace;
      if (changedMs === undefined || changedMs > nowMs - QUIET_MS) continue;
      namespace.changedMs = undefined;
      const ours = await restAt(history, { count: history.changes.length, atMs: changedMs }, this.#place);
      yield { kind: "rest", atMs: changedMs, namespace: name, ours };
    }
  }
}
