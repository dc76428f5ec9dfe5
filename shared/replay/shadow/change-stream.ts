/**
 * The changes of a capture while it is read, in the order of versions: watches tell of one resource in that order, and of different ones about
 * at the same time.
 *
 * CQ1 what is held are changes that were told in the last `SETTLED_MS`, at most `HELD_MAX` of them, and of what stands there the version.
 * CQ2 all that was told until `toldMs` has come. A change that comes behind a later version in spite of that is put in its place by who
 *    keeps the changes (History).
 */
import { CACHED_RESOURCES, tableOf, compareResourceVersions } from "@deltaloop/kube/objects";
import type { CaptureRecord } from "../capture-format/capture.ts";
import type { Capture } from "../capture-format/capture-stream.ts";
import { changeOf, inOrder, placeOf } from "./states.ts";
import type { Change, ChangeOptions } from "./states.ts";

export interface ChangeBatch {
  /** In the order of versions. */
  readonly changes: readonly Change[];
  /** CQ2 */
  readonly toldMs: number;
}

const SETTLED_MS = 5_000;
const HELD_MAX = 2_000;

/** @throws {CaptureError} when its objects are stripped */
export async function* changesIn(capture: Pick<Capture, "batches" | "firstLists">, options: ChangeOptions): AsyncGenerator<ChangeBatch> {
  const told = new ToldOnce(capture.firstLists, options);
  let held: Change[] = [];
  let newestMs = -Infinity;
  for await (const records of capture.batches()) {
    for (const record of records) {
      newestMs = Math.max(newestMs, record.atMs);
      const change = told.of(record);
      if (change !== undefined) held.push(change);
    }
    const isFull = held.length > HELD_MAX;
    const untilMs = isFull ? (held[held.length >> 1]?.atMs ?? newestMs) - 1 : newestMs - SETTLED_MS;
    if (!isFull && (held[0]?.atMs ?? Infinity) > untilMs) continue;
    held = [...inOrder(held)];
    const end = isFull
      ? Math.max(held.length >> 1, held.findLastIndex(({ atMs }) => atMs <= untilMs) + 1)
      : held.findLastIndex(({ atMs }) => atMs <= untilMs) + 1;
    const changes = held.slice(0, end);
    held = held.slice(end);
    yield { changes, toldMs: untilMs };
  }
  yield { changes: inOrder(held), toldMs: Infinity };
}

/** What was told twice is there once. */
class ToldOnce {
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

/** Of which a capture holds nothing, not even that there was none: found while it is read for the first time. */
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
