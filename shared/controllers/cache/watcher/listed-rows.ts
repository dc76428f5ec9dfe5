/**
 * Per-object state of the watcher during a list, as bytes and numbers instead of objects and strings: a manifest row costs its text
 * (key, uid and version, about 85 bytes), a cached version 8 bytes. As objects both took 400.
 */
import { hash } from "node:crypto";
import type { ObjectKey } from "@deltaloop/kube/objects";
import type { ManifestRow } from "@deltaloop/store/ports";

const CHUNK_BYTES = 64 * 1024;
/** A double represents integers of up to 53 bits exactly. */
const HASH_BYTES = 6;

/** The rows of a manifest in insertion order, changed rows last; can be iterated more than once. */
export class ListedRows implements Iterable<ManifestRow> {
  readonly #full: Buffer[] = [];
  /** Changes during the list, which are few and so are kept as objects. Undefined for a deleted object. */
  readonly #changed = new Map<ObjectKey, ManifestRow | undefined>();
  #chunk = Buffer.alloc(CHUNK_BYTES);
  #used = 0;

  /** Call once per key, before any `change` of it. None of the three strings contains a line break. */
  add({ key, uid, rv }: ManifestRow): void {
    if (this.#changed.has(key)) return this.change(key, { key, uid, rv });
    const text = `${key}\n${uid}\n${rv}\n`;
    const bytes = Buffer.byteLength(text);
    if (this.#used + bytes > this.#chunk.length) {
      this.#full.push(this.#chunk.subarray(0, this.#used));
      this.#chunk = Buffer.alloc(Math.max(CHUNK_BYTES, bytes));
      this.#used = 0;
    }
    this.#used += this.#chunk.write(text, this.#used);
  }

  /** Replaces the key's row. `row` is undefined if the object no longer exists. */
  change(key: ObjectKey, row: ManifestRow | undefined): void {
    this.#changed.set(key, row);
  }

  *[Symbol.iterator](): Generator<ManifestRow, void, undefined> {
    for (const chunk of [...this.#full, this.#chunk.subarray(0, this.#used)]) {
      const fields = chunk.toString().split("\n");
      for (let i = 0; i + 2 < fields.length; i += 3) {
        const [key = "", uid = "", rv = ""] = fields.slice(i, i + 3);
        if (!this.#changed.has(key)) yield { key, uid, rv };
      }
    }
    for (const row of this.#changed.values()) if (row !== undefined) yield row;
  }
}

/** The object versions that the cache holds. */
export interface CachedVersions {
  has(key: ObjectKey, uid: string, rv: string): boolean;
}

/**
 * CachedVersions as 48-bit hashes. With 150,000 objects, a collision makes one list in ten thousand omit an object that is not cached. The
 * applier detects this with the list's manifest, and the next list repairs it.
 */
export class VersionSet implements CachedVersions {
  readonly #hashes: Float64Array;

  constructor(hashes: readonly number[]) {
    this.#hashes = Float64Array.from(hashes).sort();
  }

  static hashOf(key: ObjectKey, uid: string, rv: string): number {
    return hash("sha1", `${key} ${uid} ${rv}`, "buffer").readUIntBE(0, HASH_BYTES);
  }

  has(key: ObjectKey, uid: string, rv: string): boolean {
    if (this.#hashes.length === 0) return false; // the first list needs no hashing
    const wanted = VersionSet.hashOf(key, uid, rv);
    let [low, high] = [0, this.#hashes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#hashes[middle] ?? 0) < wanted) low = middle + 1;
      else high = middle;
    }
    return this.#hashes[low] === wanted;
  }
}
