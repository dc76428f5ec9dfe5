const NEWLINE = 0x0a;

/** A watch line longer than this ends the stream (informer §2.7). */
const LINE_BYTES_MAX = 16 * 1024 * 1024;

export interface LineSplitter {
  /**
   * Returns the lines that `chunk` completes, in order, without empty lines.
   *
   * @throws {RangeError} when a line exceeds the limit. The stream cannot be continued then.
   */
  push(chunk: Buffer): string[];
  /** Bytes of the incomplete last line; dropped at the end of a stream. */
  pendingBytes(): number;
}

/**
 * Splits a byte stream at newlines. A newline byte is never part of a multibyte character, so bytes are split before they are
 * decoded, and a character across two chunks stays intact. [informer T23]
 */
export function createLineSplitter(lineBytesMax: number = LINE_BYTES_MAX): LineSplitter {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  return {
    push(chunk) {
      const last = chunk.lastIndexOf(NEWLINE);
      if (last === -1) {
        keep(chunk);
        return [];
      }
      if (pendingBytes + chunk.indexOf(NEWLINE) > lineBytesMax) tooLong();
      const head = chunk.subarray(0, last);
      const complete = pending.length === 0 ? head : Buffer.concat([...pending, head]);
      pending = [];
      pendingBytes = 0;
      keep(chunk.subarray(last + 1));
      return complete
        .toString("utf8")
        .split("\n")
        .filter((line) => line !== "");
    },
    pendingBytes: () => pendingBytes,
  };

  function keep(tail: Buffer): void {
    if (tail.length === 0) return;
    pending.push(tail);
    pendingBytes += tail.length;
    if (pendingBytes > lineBytesMax) tooLong();
  }

  function tooLong(): never {
    throw new RangeError(`a line is longer than ${lineBytesMax} bytes`);
  }
}
