/**
 * What the runtime lists, of which most is what it was a second ago. What it says of one sandbox or container is read when it says it
 * in other bytes than before, and is handed out once more while it does not: an agent at rest reads, and throws away, nothing.
 *
 * LS1 an item is as new as the answer it stands in: its bytes are compared, all of them.
 * LS2 what the last list of everything did not have is forgotten, so that no more is kept than that list.
 * LS3 items are frozen, since others have them as well.
 */
import protobuf from "protobufjs";

import { deepFreeze } from "../../api/freeze.ts";

interface Read<T> {
  readonly bytes: Uint8Array;
  readonly item: T;
}

/** Of an answer that is field 1, repeated, and of items whose field 1 is their id, as all lists of CRI are. */
export class ListReader<T> {
  readonly #read: (bytes: Uint8Array) => T;
  /** By id, of the last list of everything. */
  #known: ReadonlyMap<string, Read<T>> = new Map();

  constructor(read: (bytes: Uint8Array) => T) {
    this.#read = read;
  }

  /** Items that are kept. */
  get size(): number {
    return this.#known.size;
  }

  /** @param isOfAll what is not in it is not there */
  items(answer: Uint8Array, { isOfAll }: { readonly isOfAll: boolean }): readonly T[] {
    const read = parts(answer).map((bytes): readonly [string | undefined, Read<T>] => {
      const id = idOf(bytes);
      const known = id === undefined ? undefined : this.#known.get(id);
      // A copy of its own: a part of the answer would keep all of it.
      return [
        id,
        known !== undefined && isSame(known.bytes, bytes) ? known : { bytes: new Uint8Array(bytes), item: deepFreeze(this.#read(bytes)) },
      ];
    });
    if (isOfAll) this.#known = new Map(read.flatMap(([id, one]) => (id === undefined ? [] : [[id, one]])));
    return read.map(([, { item }]) => item);
  }
}

/** As protobuf writes a field 1 of any length. */
const FIRST_FIELD = (1 << 3) | 2;

function parts(answer: Uint8Array): readonly Uint8Array[] {
  const reader = protobuf.Reader.create(answer);
  const found: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === FIRST_FIELD) found.push(reader.bytes());
    else reader.skipType(tag & 7);
  }
  return found;
}

/** Fields may come in any order, but every runtime writes them by number; another's items are just not kept. */
function idOf(bytes: Uint8Array): string | undefined {
  const reader = protobuf.Reader.create(bytes);
  return bytes.length > 0 && reader.uint32() === FIRST_FIELD ? reader.string() : undefined;
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && Buffer.compare(one, other) === 0;
}
