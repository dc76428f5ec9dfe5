const MANIFEST_ROWS_MAX = 6000;
/** Limit before compression: random names do not compress, and base64 turns this size into 961 KiB. */
const MANIFEST_BYTES_MAX = 720 * 1024;

/** Splits a manifest (one row with key, uid and version for each listed object) into parts that fit a message. */
export class ManifestPart {
  number = 1;
  #rows = 0;
  #bytes = 0;

  /** Adds a row. @returns whether the row starts a new part */
  add(row: string): boolean {
    const bytes = Buffer.byteLength(row) + 1;
    const begins = this.#rows === MANIFEST_ROWS_MAX || (this.#rows > 0 && this.#bytes + bytes > MANIFEST_BYTES_MAX);
    if (begins) {
      this.number++;
      this.#rows = 0;
      this.#bytes = 0;
    }
    this.#rows++;
    this.#bytes += bytes;
    return begins;
  }
}
