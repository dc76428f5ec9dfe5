/**
 * Watch streams.
 *
 * AW1 a stream delivers every event of the selected objects after its start, once, in the order of resourceVersions.
 * AW2 with a selector, an object that stops matching is DELETED (previous state, resourceVersion of the write), one that starts matching is
 *     ADDED.
 * AW3 bookmarks, on request: about each minute, 2 s before the deadline, and at the end of initial events.
 * AW4 a reader that lags by more than `bufferEvents` is dropped, like any slow watcher upstream, and resumes.
 *
 * Source: k8s.io/apiserver/pkg/storage/cacher (cacher.go, cache_watcher.go).
 */
import type { Clock } from "@deltaloop/base";
import { ensureObject, type JsonObject, metaOf, clone } from "@deltaloop/base";
import { inVersion } from "../custom/versions.ts";
import { apiVersionOf, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { ObjectPredicate } from "../storage/selectors.ts";
import type { Storage } from "../storage/storage.ts";
import type { StorageEvent } from "../storage/watch-history.ts";

export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: JsonObject;
}

const BOOKMARK_PERIOD_MS = 60_000;
const BOOKMARK_BEFORE_DEADLINE_MS = 2_000;

/** A finite queue of events for one reader, with `for await` or `batches()`. */
export class WatchStream implements AsyncIterable<WatchEvent> {
  readonly #bufferEvents: number;
  readonly #stopped = new AbortController();
  #events: WatchEvent[] = [];
  #ended = false;
  #wake: (() => void) | undefined;
  /** Applied when events are read; builds Tables. */
  transform: ((event: WatchEvent) => WatchEvent) | undefined;

  constructor(bufferEvents: number) {
    this.#bufferEvents = bufferEvents;
  }

  /** Aborted when the stream has ended, from either side. */
  get ended(): AbortSignal {
    return this.#stopped.signal;
  }

  push(event: WatchEvent): void {
    if (this.#ended) return;
    if (this.#events.length >= this.#bufferEvents) {
      this.#events = [];
      this.end();
      return;
    }
    this.#events.push(event);
    this.#wake?.();
  }

  /** Ends the stream; queued events can still be read. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stopped.abort(new Error("the watch has ended"));
    this.#wake?.();
  }

  /** All queued events, without waiting: for callers that step a virtual clock. */
  take(): WatchEvent[] {
    const events = this.#events;
    this.#events = [];
    return this.transform === undefined ? events : events.map(this.transform);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent, void, undefined> {
    for await (const events of this.batches()) yield* events;
  }

  /** Yields the events that arrived since the last read as one batch. */
  async *batches(): AsyncGenerator<readonly WatchEvent[], void, undefined> {
    try {
      while (true) {
        const events = this.take();
        if (events.length === 0) {
          if (this.#ended) return;
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#wake = undefined;
        }
        if (events.length > 0) yield events;
      }
    } finally {
      this.end();
    }
  }
}

export interface WatchRequest {
  readonly definition: ResourceDefinition;
  readonly namespace: string;
  readonly selects: ObjectPredicate | undefined;
  readonly start:
    | { readonly kind: "events"; readonly history: readonly StorageEvent[]; readonly after: bigint }
    | { readonly kind: "state"; readonly endsWithBookmark: boolean };
  readonly bookmarks: boolean;
  readonly timeoutMs: number;
  readonly bufferEvents: number;
}

export function openWatch(storage: Storage, clock: Clock, request: WatchRequest): WatchStream {
  const { definition, start } = request;
  const stream = new WatchStream(request.bufferEvents);
  // Earlier events are skipped; a watch from a future resourceVersion waits silently, as upstream.
  const after = start.kind === "events" ? start.after : storage.revision;

  const deliver = (event: StorageEvent): void => {
    if (event.resource !== definition.id || event.revision <= after) return;
    const seen = visible(event, request);
    if (seen !== undefined) stream.push(seen);
  };

  if (start.kind === "events") {
    for (const event of start.history) deliver(event);
  } else {
    for (const stored of storage.list(definition.id, request.namespace)) {
      const object = inVersion(definition, stored);
      if (request.selects?.(object) ?? true) stream.push({ type: "ADDED", object });
    }
    if (start.endsWithBookmark) stream.push(bookmark(definition, storage.revision, true));
  }

  const unsubscribe = storage.subscribe(deliver);
  stream.ended.addEventListener("abort", unsubscribe, { once: true });
  void keepTime(storage, clock, request, stream, after);
  return stream;
}

/** Sends periodic bookmarks, and ends the stream at the deadline. Returns when the stream ends. */
async function keepTime(storage: Storage, clock: Clock, request: WatchRequest, stream: WatchStream, after: bigint): Promise<void> {
  const deadline = clock.now() + request.timeoutMs;
  const mark = (): void => {
    if (request.bookmarks && storage.revision >= after) stream.push(bookmark(request.definition, storage.revision, false));
  };
  try {
    let next = clock.now() + BOOKMARK_PERIOD_MS;
    while (request.bookmarks && next < deadline - BOOKMARK_BEFORE_DEADLINE_MS) {
      await clock.after(next - clock.now(), stream.ended);
      mark();
      next += BOOKMARK_PERIOD_MS;
    }
    await clock.after(deadline - BOOKMARK_BEFORE_DEADLINE_MS - clock.now(), stream.ended);
    mark();
    await clock.after(deadline - clock.now(), stream.ended);
    stream.end();
  } catch (error) {
    // The end of the stream aborts the wait; any other error is the clock's.
    if (!stream.ended.aborted) throw error;
  }
}

function visible(event: StorageEvent, { definition, namespace, selects }: WatchRequest): WatchEvent | undefined {
  const { type } = event;
  const object = inVersion(definition, event.object);
  const previous = event.previous && inVersion(definition, event.previous);
  if (namespace !== "" && metaOf(object)["namespace"] !== namespace) return undefined;
  if (selects === undefined) return { type, object };
  const isSelected = type !== "DELETED" && selects(object);
  const wasSelected = previous !== undefined && selects(previous);
  if (isSelected) return { type: wasSelected ? "MODIFIED" : "ADDED", object };
  if (!wasSelected) return undefined;
  if (type === "DELETED") return { type, object };
  const last = clone(previous);
  ensureObject(last, "metadata")["resourceVersion"] = String(event.revision);
  return { type: "DELETED", object: last };
}

function bookmark(definition: ResourceDefinition, revision: bigint, endsInitialEvents: boolean): WatchEvent {
  return {
    type: "BOOKMARK",
    object: {
      kind: definition.kind,
      apiVersion: apiVersionOf(definition),
      metadata: {
        resourceVersion: String(revision),
        ...(endsInitialEvents ? { annotations: { "k8s.io/initial-events-end": "true" } } : {}),
      },
    },
  };
}
