/**
 * Decodes lists of the runtime incrementally: an item is decoded only when its bytes differ from those in the last list. An idle
 * agent decodes and allocates nothing.
 *
 * LU1 a returned item always equals the one in the response: all of its bytes are compared.
 * LU2 a full list drops missing items, so the cache holds the items of the last full list and of later filtered lists.
 * LU3 items are frozen, because callers share them.
 */
import protobuf from "protobufjs";

import { deepFreeze } from "@deltaloop/base";

interface Read<T> {
  readonly bytes: Buffer;
  readonly item: T;
  /** Offsets of the fields, computed on the first comparison of items whose fields may be in another order. */
  fields?: Fields;
}

/** Start offset of each field, followed by the end offset of the last one; empty if there are more than `FIELDS_MAX` fields. */
type Fields = Uint32Array;

/** Decodes list responses. As in all CRI lists, field 1 of the response repeats the items, and field 1 of an item is its id. */
export class ListReader<T> {
  readonly #read: (bytes: Buffer) => T;
  /** Cached items by the first bytes of their ids. Items that share these bytes are decoded each time. */
  #known = new Map<number, Read<T>>();

  constructor(read: (bytes: Buffer) => T) {
    this.#read = read;
  }

  /** The number of cached items. */
  get size(): number {
    return this.#known.size;
  }

  /** @param isOfAll whether the list is unfiltered, in which case an item that is missing from it no longer exists */
  items(answer: Buffer, { isOfAll }: { readonly isOfAll: boolean }): readonly T[] {
    const items: T[] = [];
    const kept = isOfAll ? new Map<number, Read<T>>() : this.#known;
    const reader = protobuf.Reader.create(answer);
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag === FIRST_FIELD) {
        const length = reader.uint32();
        const start = reader.pos;
        reader.skip(length);
        const beginning = beginningOfId(answer, start, length);
        const known = this.#known.get(beginning);
        const read = known !== undefined && isSame(known, answer, start, length) ? known : this.#readAt(answer, start, length);
        items.push(read.item);
        kept.set(beginning, read);
      } else reader.skipType(tag & 7);
    }
    this.#known = kept;
    return items;
  }

  #readAt(answer: Buffer, start: number, length: number): Read<T> {
    // Makes a copy, because a slice would keep the whole response in memory. A Buffer, because protobufjs decodes its strings faster.
    const bytes = Buffer.allocUnsafeSlow(length);
    answer.copy(bytes, 0, start, start + length);
    return { bytes, item: deepFreeze(this.#read(bytes)) };
  }
}

/** Tag of field 1 with wire type "length-delimited". */
const FIRST_FIELD = (1 << 3) | 2;
/** Number of bytes that distinguish ids, which are 64 random hex digits. */
const BEGINNING_BYTES = 6;

/** Skips the tag and the one-byte length of the id. If an item does not start with its id, the key is made of other bytes of the item. */
function beginningOfId(answer: Buffer, start: number, length: number): number {
  return length < 2 + BEGINNING_BYTES ? 0 : answer.readUIntBE(start + 2, BEGINNING_BYTES);
}

/** An item with more fields is always decoded again, because comparing fields in any order is quadratic. */
const FIELDS_MAX = 64;
/** Scratch buffer for the item under comparison, reused so that an unchanged list allocates nothing. */
const itsFields: Fields = new Uint32Array(FIELDS_MAX + 1);
const isTaken = new Uint8Array(FIELDS_MAX);

function isSame(known: Read<unknown>, answer: Buffer, start: number, length: number): boolean {
  if (known.bytes.length !== length) return false;
  if (answer.compare(known.bytes, 0, length, start, start + length) === 0) return true;
  const count = findFields(answer, start, start + length, itsFields);
  known.fields ??= fieldsOf(known.bytes);
  return count > 0 && count === known.fields.length - 1 && isReordered(known.bytes, known.fields, answer, itsFields);
}

/** Whether both items have the same fields in any order. `ofRight` may have unused entries after the last field. */
function isReordered(left: Buffer, ofLeft: Fields, right: Buffer, ofRight: Fields): boolean {
  const count = ofLeft.length - 1;
  isTaken.fill(0, 0, count);
  /** Go serializes map entries in order from a random start, so the search continues after the last match. */
  let next = 0;
  for (let i = 0; i < count; i++) {
    const from = at(ofRight, i);
    const size = at(ofRight, i + 1) - from;
    let tries = 0;
    for (; tries < count; tries++, next = next + 1 === count ? 0 : next + 1) {
      const start = at(ofLeft, next);
      if (at(isTaken, next) === 0 && at(ofLeft, next + 1) - start === size && areSame(left, start, right, from, size)) break;
    }
    if (tries === count) return false;
    isTaken[next] = 1;
  }
  return true;
}

/** Compares from the end, because map entries of equal length often start with the same key. */
function areSame(left: Buffer, ofLeft: number, right: Buffer, ofRight: number, length: number): boolean {
  for (let i = length - 1; i >= 0; i--) if (left[ofLeft + i] !== right[ofRight + i]) return false;
  return true;
}

function at(numbers: Uint8Array | Uint32Array, index: number): number {
  return numbers[index] ?? 0;
}

function fieldsOf(bytes: Buffer): Fields {
  const fields = new Uint32Array(FIELDS_MAX + 1);
  const count = findFields(bytes, 0, bytes.length, fields);
  return fields.slice(0, count === 0 ? 0 : count + 1);
}

/** @returns the number of fields, or 0 above `FIELDS_MAX` @throws {Error} of protobufjs for an invalid message */
function findFields(bytes: Buffer, start: number, end: number, fields: Fields): number {
  const reader = protobuf.Reader.create(bytes);
  reader.pos = start;
  let count = 0;
  fields[0] = start;
  while (reader.pos < end) {
    if (count === FIELDS_MAX) return 0;
    reader.skipType(reader.uint32() & 7);
    fields[++count] = reader.pos;
  }
  return count;
}
