/**
 * The changes of a capture in the order of versions, while it is read. Watches deliver each resource in that order, but different resources
 * only at about the same time.
 *
 * CQ1 at most `HELD_MAX` changes of the last `SETTLED_MS` are buffered, and the versions of the current objects.
 * CQ2 all records up to `completeMs` have been delivered. If a change arrives after one with a later version, the consumer (History)
 *     inserts it at its position.
 */
import { CACHED_RESOURCES, tableOf, compareResourceVersions } from "@deltaloop/kube/objects";
import type { CaptureRecord } from "../capture-format/capture.ts";
import type { Capture } from "../capture-format/capture-stream.ts";
import { changeOf, inOrder, placeOf } from "./states.ts";
import type { Change, ChangeOptions } from "./states.ts";

export interface ChangeBatch {
  /** Changes in the order of versions. */
  readonly changes: readonly Change[];
  /** CQ2 */
  readonly completeMs: number;
}

const SETTLED_MS = 5_000;
const HELD_MAX = 2_000;

/** @throws {CaptureError} when its objects are stripped */
export async function* changesIn(capture: Pick<Capture, "batches" | "firstLists">, options: ChangeOptions): AsyncGenerator<ChangeBatch> {
  const unique = new Deduplicator(capture.firstLists, options);
  let buffer: Change[] = [];
  let newestMs = -Infinity;
  for await (const records of capture.batches()) {
    for (const record of records) {
      newestMs = Math.max(newestMs, record.atMs);
      const change = unique.of(record);
      if (change !== undefined) buffer.push(change);
    }
    const isFull = buffer.length > HELD_MAX;
    const untilMs = isFull ? (buffer[buffer.length >> 1]?.atMs ?? newestMs) - 1 : newestMs - SETTLED_MS;
    if (!isFull && (buffer[0]?.atMs ?? Infinity) > untilMs) continue;
    buffer = [...inOrder(buffer)];
    const end = isFull
      ? Math.max(buffer.length >> 1, buffer.findLastIndex(({ atMs }) => atMs <= untilMs) + 1)
      : buffer.findLastIndex(({ atMs }) => atMs <= untilMs) + 1;
    const changes = buffer.slice(0, end);
    buffer = buffer.slice(end);
    yield { changes, completeMs: untilMs };
  }
  yield { changes: inOrder(buffer), completeMs: Infinity };
}

/** Drops repeated changes. */
class Deduplicator {
  readonly #options: ChangeOptions;
  readonly #leading: Map<string, number>;
  readonly #known = new Map<string, { readonly uid: string; readonly version: string }>();

  constructor(firstLists: Capture["firstLists"], options: ChangeOptions) {
    this.#options = options;
    this.#leading = new Map(firstLists);
  }

  of(record: CaptureRecord): Change | undefined {
    const leading = this.#leading.get(record.resource) ?? 0;
    this.#leading.set(record.resource, leading - 1);
    const change = changeOf(record, leading > 0, this.#options);
    if (change === undefined) return undefined;
    const place = placeOf(change.object);
    const { uid } = change.object.metadata;
    const known = this.#known.get(place);
    if (known?.uid === uid && compareResourceVersions(change.version, known.version) <= 0) return undefined;
    if (change.deleted) this.#known.delete(place);
    else this.#known.set(place, { uid, version: change.version });
    return change;
  }
}

/** Finds resources without any record in a capture, not even an empty list, during its first read. */
export class MissingCensus {
  #isThere = tableOf(CACHED_RESOURCES, () => false);

  begin(): void {
    this.#isThere = tableOf(CACHED_RESOURCES, () => false);
  }

  see({ resource, object, rv = "0" }: CaptureRecord): void {
    if (object !== undefined || rv !== "0") this.#isThere = { ...this.#isThere, [resource]: true };
  }

  get missing(): readonly (typeof CACHED_RESOURCES)[number][] {
    return CACHED_RESOURCES.filter((resource) => !this.#isThere[resource]);
  }
}
