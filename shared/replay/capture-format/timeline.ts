/**
 * What one resource's part of a capture tells, and when: fed record by record, in the order of their times, it knows what stood there at any
 * moment until the last one fed, and hands each event to whoever watches.
 *
 * TI1 the first list is what stands before its end in the capture; records behind it are events, and a later list is what it shows to
 *    have happened, as a watch would have told it.
 * TI2 an event goes when it has been told and every watch has it; of those that nobody watches the newest `UNWATCHED_MAX` stay, and a
 *    watch from before them is told 410, as an API server tells it.
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
  /** Records that are still to come before the first list has ended. */
  #leading: number;
  readonly #first = new Map<string, CapturedObject>();
  #firstVersion = "0";
  /** What a later list has shown so far. */
  #again = new Map<string, CapturedObject>();
  /** What stands there by all that was fed: needed for a later list alone. */
  readonly #fed = new Map<string, string>();
  readonly #standing = new Map<string, CapturedObject>();
  #newest = "0";
  /** Those from `#begin` on, counted from the first of all. */
  #events: TimedEvent[] = [];
  #begin = 0;
  /** So many have been told. */
  #told = 0;
  #dropped = "0";
  readonly #watches = new Set<{ next: number }>();
  #wake: (() => void)[] = [];
  #isListed = false;
  #isOver = false;

  /** @param leading how many records lead to the end of its first list */
  constructor(leading: number, clock: Clock) {
    this.#leading = leading;
    this.#clock = clock;
  }

  /** Events that are held: those to come, and those that somebody may still ask for. */
  get held(): number {
    return this.#events.length;
  }

  /** Whether the first list has ended, if there is one. */
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

  /** Nothing more comes. */
  end(): void {
    this.#isOver = true;
    this.#wakeAll();
  }

  /** By key, at this moment. */
  standing(): ReadonlyMap<string, CapturedObject> {
    this.#tell();
    return this.#standing;
  }

  newestVersion(): string {
    this.#tell();
    return this.#newest;
  }

  /** The first one is the capture's own, as soon as that has ended. */
  async list(signal: AbortSignal): Promise<ListPage> {
    while (!this.isComplete && !this.#isOver) await this.#change(signal);
    const isFirst = !this.#isListed;
    this.#isListed = true;
    if (isFirst) return { resourceVersion: this.#firstVersion, items: [...this.#first.values()] };
    this.#first.clear();
    return { resourceVersion: this.newestVersion(), items: [...this.standing().values()] };
  }

  /** Each event at its time. */
  async *watch(from: string, signal: AbortSignal): AsyncGenerator<readonly string[]> {
    if (compareResourceVersions(this.#dropped, from) > 0)
      throw new KubeApiError({
        code: 410,
        reason: "Expired",
        message: `a replay does not hold what came before version ${this.#dropped} any more`,
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

  /** What a list that is not the first shows to have happened. */
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

  /** What has come by now. */
  #tell(): void {
    for (; ; this.#told++) {
      const event = this.#events[this.#told - this.#begin];
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
    const kept = watched === Infinity ? this.#told - UNWATCHED_MAX : Math.min(watched, this.#told);
    if (kept <= this.#begin) return;
    for (const { rv } of this.#events.splice(0, kept - this.#begin)) this.#dropped = maxResourceVersion(this.#dropped, rv);
    this.#begin = kept;
  }

  /** Until something was fed. */
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
