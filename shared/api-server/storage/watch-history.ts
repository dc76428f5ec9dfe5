/** The recent events of one resource, from which watches resume, and exact and paged lists are reconstructed. */
import { type JsonObject, nameOf, namespaceOf } from "@deltaloop/base";

export interface StorageEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly resource: string;
  readonly revision: bigint;
  /** The object. For DELETED its last state, with the revision of the deletion. */
  readonly object: JsonObject;
  readonly previous?: JsonObject;
}

export class WatchHistory {
  readonly #limit: number;
  #events: StorageEvent[] = [];
  /** Everything after this revision is known. */
  #compactedAt: bigint;

  constructor(limit: number, compactedAt: bigint) {
    this.#limit = limit;
    this.#compactedAt = compactedAt;
  }

  get compactedAt(): bigint {
    return this.#compactedAt;
  }

  add(event: StorageEvent): void {
    this.#events.push(event);
    // Halved when full, so that adding stays cheap.
    if (this.#events.length > this.#limit * 2) {
      const dropped = this.#events.splice(0, this.#events.length - this.#limit);
      this.#compactedAt = dropped.at(-1)?.revision ?? this.#compactedAt;
    }
  }

  compact(revision: bigint): void {
    if (revision <= this.#compactedAt) return;
    this.#compactedAt = revision;
    this.#events = this.#events.filter((event) => event.revision > revision);
  }

  /** The events after `revision`, or `undefined` if some of them are gone. */
  since(revision: bigint): readonly StorageEvent[] | undefined {
    if (revision < this.#compactedAt) return undefined;
    let from = this.#events.length;
    while (from > 0 && (this.#events[from - 1]?.revision ?? 0n) > revision) from -= 1;
    return this.#events.slice(from);
  }

  /** The objects at `revision`, computed from the current ones; `undefined` if that is too old. */
  rewind(now: readonly JsonObject[], revision: bigint): JsonObject[] | undefined {
    const events = this.since(revision);
    if (events === undefined) return undefined;
    if (events.length === 0) return [...now];
    const objects = new Map(now.map((object) => [keyOf(object), object]));
    for (const event of events.toReversed()) {
      if (event.previous === undefined) objects.delete(keyOf(event.object));
      else objects.set(keyOf(event.previous), event.previous);
    }
    return [...objects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
  }
}

/** Sorts like (namespace, name): "\0" comes before every character of a name. */
export function keyOf(object: JsonObject): string {
  return `${namespaceOf(object)}\0${nameOf(object)}`;
}
