/** A watch frame longer than this ends the stream, as a line of JSON does (informer §2.7). */
const FRAME_BYTES_MAX = 16 * 1024 * 1024;
const PREFIX_BYTES = 4;

export interface FrameSplitter {
  /**
   * Returns the frames that `chunk` completes, in order.
   *
   * @throws {RangeError} when a frame exceeds the limit. The stream cannot be continued then.
   */
  push(chunk: Buffer): Buffer[];
}

/**
 * Splits a byte stream into frames, each with its length before it. An incomplete last frame is dropped at the end of a stream.
 * Source: apimachinery pkg/util/framer/framer.go.
 */
export function createFrameSplitter(frameBytesMax: number = FRAME_BYTES_MAX): FrameSplitter {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  /** Bytes that the next frame, or its prefix, needs. */
  let needed = PREFIX_BYTES;
  return {
    push(chunk) {
      pending.push(chunk);
      pendingBytes += chunk.length;
      if (pendingBytes < needed) return [];
      const all = pending.length === 1 ? chunk : Buffer.concat(pending);
      const frames: Buffer[] = [];
      let at = 0;
      for (;;) {
        needed = PREFIX_BYTES;
        if (all.length - at < needed) break;
        const length = all.readUInt32BE(at);
        if (length > frameBytesMax) throw new RangeError(`a frame is longer than ${frameBytesMax} bytes`);
        needed += length;
        if (all.length - at < needed) break;
        frames.push(all.subarray(at + PREFIX_BYTES, at + needed));
        at += needed;
      }
      pending = at === all.length ? [] : [all.subarray(at)];
      pendingBytes = all.length - at;
      return frames;
    },
  };
}
