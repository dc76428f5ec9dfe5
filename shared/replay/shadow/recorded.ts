/**
 * Shadow comparison with a recording while it is read.
 *
 * RS1 a write is classified when later writes of the same sync have been read, too (SH5), and its own version if it has one; an idle
 *    state after its second without changes.
 * RS2 for each namespace only data for later classifications is kept: the current objects, the previous versions of owners, and the
 *    changes from three seconds before the oldest unclassified write.
 */
import { compareResourceVersions } from "@deltaloop/kube/objects";
import { EXCESS_MS, classify, LAG_MS_MAX, REST_MS, restAt } from "./classify.ts";
import type { Verdict } from "./classify.ts";
import type { SyncPlace } from "./one-sync.ts";
import { History } from "./states.ts";
import type { LiveObject } from "./states.ts";
import type { ChangeBatch } from "./change-stream.ts";
import { writesOfChanges } from "./upstream-writes.ts";
import type { UpstreamWrite } from "./upstream-writes.ts";

export type Finding =
  | { readonly kind: "write"; readonly atMs: number; readonly write: UpstreamWrite; readonly verdict: Verdict }
  /** Upstream was idle in a state in which deltaloop's sync would have sent the writes `ours` (SH3). */
  | { readonly kind: "rest"; readonly atMs: number; readonly namespace: string; readonly ours: readonly string[] };

/** Changes kept in all namespaces, besides current objects, before the next cleanup. */
const KEPT_MAX = 2_000;
/** Maximum difference between the API server's clock, which dates audited writes, and the capture's. */
const SKEW_MS = 10_000;

interface Namespace {
  history: History;
  /** Index of the first change whose subsequent idle state is unchecked. */
  next: number;
}

/** Upstream's writes from an audit log, approximately sorted by time. */
export type Audited = AsyncIterator<UpstreamWrite>;

export interface RecordedOptions {
  /** If absent, the writes are derived from the changes. */
  readonly audited?: Audited | undefined;
  readonly keptMax?: number;
}

export class RecordedShadow {
  readonly #place: SyncPlace;
  readonly #audited: Audited | undefined;
  readonly #namespaces = new Map<string, Namespace>();
  readonly #written = new Map<string, LiveObject>();
  #waiting: UpstreamWrite[] = [];
  #auditMs = -Infinity;
  readonly #keptMax: number;
  #keepMax: number;

  constructor(place: SyncPlace, { audited, keptMax = KEPT_MAX }: RecordedOptions = {}) {
    this.#place = place;
    this.#audited = audited;
    [this.#keptMax, this.#keepMax] = [keptMax, keptMax];
  }

  async *take({ changes, completeMs }: ChangeBatch): AsyncGenerator<Finding> {
    for (const [name, own] of Map.groupBy(changes, ({ object }) => object.metadata.namespace)) {
      const namespace = this.#namespaces.get(name) ?? { history: new History([]), next: 0 };
      this.#namespaces.set(name, namespace);
      namespace.history.push(own);
    }
    if (this.#audited === undefined) this.#waiting.push(...writesOfChanges(changes, this.#written));
    else await this.#hear(completeMs);
    const ripe = this.#waiting.filter((write) => this.#isRipe(write, completeMs));
    this.#waiting = this.#waiting.filter((write) => !this.#isRipe(write, completeMs));
    for (const write of ripe) {
      const history = this.#namespaces.get(write.namespace)?.history;
      if (history !== undefined && this.#place.handlers[write.controller] !== undefined)
        yield { kind: "write", atMs: write.atMs, write, verdict: await classify(history, write, this.#place) };
    }
    for (const [name, namespace] of this.#namespaces) yield* this.#rests(name, namespace, completeMs);
    this.#shorten(completeMs);
  }

  /** Reads the audit log up to the time of the changes. */
  async #hear(completeMs: number): Promise<void> {
    while (this.#auditMs <= completeMs + SKEW_MS) {
      const next = await this.#audited?.next();
      if (next === undefined || next.done === true) {
        this.#auditMs = Infinity;
        return;
      }
      this.#auditMs = Math.max(this.#auditMs, next.value.atMs);
      this.#waiting.push(next.value);
    }
  }

  /** RS1 */
  #isRipe({ atMs, version, namespace }: UpstreamWrite, completeMs: number): boolean {
    if (completeMs === Infinity) return true;
    if (completeMs < atMs + EXCESS_MS) return false;
    if (this.#audited === undefined || completeMs >= atMs + EXCESS_MS + SKEW_MS) return true;
    const newest = this.#namespaces.get(namespace)?.history.changes.at(-1)?.version;
    return version !== undefined && newest !== undefined && compareResourceVersions(newest, version) >= 0;
  }

  /** SH3 */
  async *#rests(name: string, namespace: Namespace, completeMs: number): AsyncGenerator<Finding> {
    for (; ; namespace.next++) {
      const { changes } = namespace.history;
      const [change, next] = [changes[namespace.next], changes[namespace.next + 1]];
      if (change === undefined || (next === undefined && completeMs !== Infinity)) return;
      if (next !== undefined && next.atMs - change.atMs < REST_MS) continue;
      const { atMs } = change;
      const ours = await restAt(namespace.history, { count: namespace.next + 1, atMs }, this.#place);
      yield { kind: "rest", atMs, namespace: name, ours };
    }
  }

  /** RS2 */
  #shorten(completeMs: number): void {
    const kept = [...this.#namespaces.values()].reduce((sum, { history }) => sum + history.changes.length, 0);
    if (kept <= this.#keepMax) return;
    const oldestMs = this.#waiting.reduce((least, { atMs }) => Math.min(least, atMs), completeMs);
    const fromMs = oldestMs - (this.#audited === undefined ? 0 : SKEW_MS) - LAG_MS_MAX;
    let left = 0;
    for (const namespace of this.#namespaces.values()) {
      const { changes } = namespace.history;
      const first = changes.findIndex(({ atMs, listed }) => !listed && atMs >= fromMs);
      const from = Math.min(first === -1 ? changes.length : first, namespace.next);
      const count = changes.length - from;
      namespace.history = namespace.history.shortened(count);
      namespace.next += namespace.history.changes.length - changes.length;
      left += namespace.history.changes.length;
    }
    // Current objects do not count towards the limit, because they are always kept.
    this.#keepMax = left + this.#keptMax;
  }
}
