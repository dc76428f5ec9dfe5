/**
 * What the runtime lists, of which most is what it was a second ago. What it says of one sandbox or container is read when it says it
 * in other bytes than before, and is handed out once more while it does not: an agent at rest reads, and throws away, nothing.
 *
 * LU1 an item is as new as the answer it stands in: its bytes are compared, all of them.
 * LU2 what a list of everything does not have is forgotten, so that no more is kept than that list and what lists of some have shown since.
 * LU3 items are frozen, since others have them as well.
 */
import protobuf from "protobufjs";

import { deepFreeze } from "@deltaloop/base";

interface Read<T> {
  readonly bytes: Buffer;
  readonly item: T;
  /** As `fieldsOf` has them, once they were asked for. */
  fields?: Fields;
}

/** Where each field begins, and where the last one ends; empty where there are more than `FIELDS_MAX`. */
type Fields = Uint32Array;

/** Of an answer that is field 1, repeated, and of items whose field 1 is their id, as all lists of CRI are. */
export class ListReader<T> {
  readonly #read: (bytes: Buffer) => T;
  /** By how their ids begin. Of two that begin alike one is read each time. */
  #known = new Map<number, Read<T>>();

  constructor(read: (bytes: Buffer) => T) {
    this.#read = read;
  }

  /** Items that are kept. */
  get size(): number {
    return this.#known.size;
  }

  /** @param isOfAll what is not in it is not there */
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
    // A copy of its own: a part of the answer would keep all of it. A Buffer, as protobufjs reads texts of other bytes character by character.
    const bytes = Buffer.allocUnsafeSlow(length);
    answer.copy(bytes, 0, start, start + length);
    return { bytes, item: deepFreeze(this.#read(bytes)) };
  }
}

/** As protobuf writes a field 1 of any length. */
const FIRST_FIELD = (1 << 3) | 2;
/** Of an id, which is 64 digits of chance. */
const BEGINNING_BYTES = 6;

/** The tag of field 1, a length of one byte, the id. Of an item that begins with anything else it is as good, while that does not change. */
function beginningOfId(answer: Buffer, start: number, length: number): number {
  return length < 2 + BEGINNING_BYTES ? 0 : answer.readUIntBE(start + 2, BEGINNING_BYTES);
}

/** An item with more is read anew: comparing them in any order could take longer. */
const FIELDS_MAX = 64;
/** Of the item that is looked at; nothing is made anew for a list each second that says what it said before. */
const itsFields: Fields = new Uint32Array(FIELDS_MAX + 1);
const isTaken = new Uint8Array(FIELDS_MAX);

function isSame(known: Read<unknown>, answer: Buffer, start: number, length: number): boolean {
  if (known.bytes.length !== length) return false;
  if (answer.compare(known.bytes, 0, length, start, start + length) === 0) return true;
  const count = findFields(answer, start, start + length, itsFields);
  known.fields ??= fieldsOf(known.bytes);
  return count > 0 && count === known.fields.length - 1 && isReordered(known.bytes, known.fields, answer, itsFields);
}

/** Whether both have the same fields, each as often, of which there are as many. `ofRight` is longer than that. */
function isReordered(left: Buffer, ofLeft: Fields, right: Buffer, ofRight: Fields): boolean {
  const count = ofLeft.length - 1;
  isTaken.fill(0, 0, count);
  /** Entries of a map come in turn, from another one on. */
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

/** From their ends: fields of the same length begin alike, with the same key often. */
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

/** @returns how many there are, 0 where they are more than `FIELDS_MAX` @throws {Error} as protobufjs does for what is no message */
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
