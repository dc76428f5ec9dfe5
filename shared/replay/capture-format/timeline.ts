/**
 * The records of one resource by time. It is fed record by record, holds the objects at the current time, and delivers each event to the
 * watches.
 *
 * TI1 the records up to the end of the first list are the initial state; later records are events. A later list is compared with the state
 *     and converted to events.
 * TI2 an event is dropped when its time has passed and every watch has received it; without a watch, the newest `UNWATCHED_MAX` are kept. A
 *    watch from an older version gets 410, as from an API server.
 */
import { exactText } from "@deltaloop/base";
import { compareResourceVersions, isResourceVersion, maxResourceVersion } from "@deltaloop/kube/objects";
import type { Clock } from "@deltaloop/base";
import { KubeApiError } from "@deltaloop/kube/client";
import type { ListPage } from "@deltaloop/kube/client";
import { keyOf, versionOf, withVersion } from "./captured-object.ts";
import type { CapturedObject, CaptureRecord } from "./capture.ts";

interface TimedEvent {
  readonly atMs: number;
  readonly type: string;
  readonly object: CapturedObject;
  readonly rv: string;
}

/** TI2 */
export const UNWATCHED_MAX = 500;

export class Timeline {
  readonly #clock: Clock;
  /** Remaining records of the first list. */
  #leading: number;
  readonly #first = new Map<string, CapturedObject>();
  #firstVersion = "0";
  /** Objects in the current later list so far. */
  #again = new Map<string, CapturedObject>();
  /** The objects after all fed records, to compare with a later list. */
  readonly #fed = new Map<string, string>();
  readonly #standing = new Map<string, CapturedObject>();
  #newest = "0";
  /** The events from index `#begin` on. */
  #events: TimedEvent[] = [];
  #begin = 0;
  /** Number of delivered events. */
  #delivered = 0;
  #dropped = "0";
  readonly #watches = new Set<{ next: number }>();
  #wake: (() => void)[] = [];
  #isListed = false;
  #isOver = false;

  /** @param leading number of records in its first list */
  constructor(leading: number, clock: Clock) {
    this.#leading = leading;
    this.#clock = clock;
  }

  /** Number of buffered events: future ones, and those that a watch may still request. */
  get buffered(): number {
    return this.#events.length;
  }

  /** Whether the first list, if any, has ended. */
  get isComplete(): boolean {
    return this.#leading === 0;
  }

  feed(record: CaptureRecord): void {
    const { kind, type, object, atMs } = record;
    if (this.#leading > 0) this.#lead(record, --this.#leading === 0);
    else if (kind === "listed") this.#listedAgain(record);
    else if (kind === "item" && object) this.#again.set(keyOf(object), object);
    else if (kind === "event" && object && type !== undefined && isResourceVersion(versionOf(object)))
      this.#add({ atMs, type, object, rv: versionOf(object) });
    this.#shorten();
  }

  /** Marks the end of the records. */
  end(): void {
    this.#isOver = true;
    this.#wakeAll();
  }

  /** The objects at the current time, by key. */
  standing(): ReadonlyMap<string, CapturedObject> {
    this.#tell();
    return this.#standing;
  }

  newestVersion(): string {
    this.#tell();
    return this.#newest;
  }

  /** Returns the objects at the current time. Waits until the capture's first list is complete. */
  async list(signal: AbortSignal): Promise<ListPage> {
    while (!this.isComplete && !this.#isOver) await this.#change(signal);
    const isFirst = !this.#isListed;
    this.#isListed = true;
    if (isFirst) return { resourceVersion: this.#firstVersion, items: [...this.#first.values()] };
    this.#first.clear();
    return { resourceVersion: this.newestVersion(), items: [...this.standing().values()] };
  }

  /** Yields each event at its time. */
  async *watch(from: string, signal: AbortSignal): AsyncGenerator<readonly string[]> {
    if (compareResourceVersions(this.#dropped, from) > 0)
      throw new KubeApiError({
        code: 410,
        reason: "Expired",
        message: `a replay no longer has events before version ${this.#dropped}`,
      });
    const place = { next: this.#begin };
    this.#watches.add(place);
    this.#first.clear();
    try {
      for (;;) {
        const event = this.#events[place.next - this.#begin];
        if (event === undefined) await this.#change(signal);
        else if (compareResourceVersions(event.rv, from) <= 0) place.next++;
        else {
          if (event.atMs > this.#clock.now()) await this.#clock.after(event.atMs - this.#clock.now(), signal);
          yield [exactText({ type: event.type, object: event.object })];
          place.next++;
        }
      }
    } finally {
      this.#watches.delete(place);
    }
  }

  #lead(record: CaptureRecord, isLast: boolean): void {
    const { kind, type, object, rv } = record;
    if (isLast) this.#firstVersion = kind === "listed" ? (rv ?? "0") : object ? versionOf(object) : "0";
    else if (object && type !== "BOOKMARK" && kind !== "close") this.#first.set(keyOf(object), object);
    if (!isLast) return;
    for (const [key, each] of this.#first) {
      this.#standing.set(key, each);
      this.#fed.set(key, versionOf(each));
    }
    this.#newest = this.#firstVersion;
    this.#wakeAll();
  }

  #add(event: TimedEvent): void {
    const { type, object } = event;
    this.#events.push(event);
    if (type === "DELETED") this.#fed.delete(keyOf(object));
    else if (type === "ADDED" || type === "MODIFIED") this.#fed.set(keyOf(object), event.rv);
    this.#wakeAll();
  }

  /** Converts a later list to events. */
  #listedAgain({ atMs, rv: listRV = "0" }: CaptureRecord): void {
    const listed = this.#again;
    this.#again = new Map();
    const changed = [...listed].flatMap(([key, object]) => {
      const [before, rv] = [this.#fed.get(key), versionOf(object)];
      return before === rv || !isResourceVersion(rv) ? [] : [{ atMs, type: before === undefined ? "ADDED" : "MODIFIED", object, rv }];
    });
    const gone = [...this.#fed].filter(([key]) => !listed.has(key));
    for (const event of changed.toSorted((a, b) => compareResourceVersions(a.rv, b.rv))) this.#add(event);
    for (const [key, rv] of gone) {
      const last = this.#events.findLast((event) => keyOf(event.object) === key && event.rv === rv)?.object ?? this.#standing.get(key);
      if (last !== undefined) this.#add({ atMs, type: "DELETED", object: withVersion(last, listRV), rv: listRV });
    }
  }

  /** Delivers the events up to the current time. */
  #tell(): void {
    for (; ; this.#delivered++) {
      const event = this.#events[this.#delivered - this.#begin];
      if (event === undefined || event.atMs > this.#clock.now()) return;
      const { type, object, rv } = event;
      if (type === "DELETED") this.#standing.delete(keyOf(object));
      else if (type === "ADDED" || type === "MODIFIED") this.#standing.set(keyOf(object), object);
      this.#newest = maxResourceVersion(this.#newest, rv);
    }
  }

  /** TI2 */
  #shorten(): void {
    this.#tell();
    const watched = [...this.#watches].reduce((least, { next }) => Math.min(least, next), Infinity);
    const kept = watched === Infinity ? this.#delivered - UNWATCHED_MAX : Math.min(watched, this.#delivered);
    if (kept <= this.#begin) return;
    for (const { rv } of this.#events.splice(0, kept - this.#begin)) this.#dropped = maxResourceVersion(this.#dropped, rv);
    this.#begin = kept;
  }

  /** Resolves when records were fed. */
  #change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const abort = (): void => reject(signal.reason as Error);
      signal.addEventListener("abort", abort, { once: true });
      this.#wake.push(() => {
        signal.removeEventListener("abort", abort);
        resolve();
      });
    });
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}
