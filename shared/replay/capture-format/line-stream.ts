/** The lines of a capture file, plain or compressed, as a stream that can be begun again. */
import { closeSync, fstatSync, openSync, read as readFrom, readSync } from "node:fs";
import { pipeline, Readable } from "node:stream";
import { promisify } from "node:util";
import { constants, createGunzip } from "node:zlib";
import { messageOf } from "@deltaloop/kube/objects";
import { CaptureError, isGzip, LINE_BYTES_MAX, readUnpacked } from "./capture.ts";
import type { CaptureNote } from "./capture.ts";

/** Read as often as it is asked for. */
export interface ByteSource {
  /** The first bytes, as they lie there. */
  readonly head: Buffer;
  /**
   * Unpacked, and as it was when it was opened: what is written behind its end meanwhile is left out.
   *
   * @throws {CutOffError} where gzip data has no end, once; from then on they are read until there
   */
  chunks(): AsyncIterable<Buffer>;
  close(): void;
}

/** Whoever packed it was killed. Whatever was made of it until then is to be begun again. */
export class CutOffError extends Error {
  override readonly name = "CutOffError";
}

export interface Line {
  readonly text: string;
  readonly number: number;
  readonly bytes: number;
  /** No line feed stands behind it. */
  readonly isOpen: boolean;
}

const READ_BYTES = 2 ** 16;
const HEAD_BYTES = 4;
const LINE_FEED = 0x0a;
/** A byte order mark, which Windows' PowerShell puts before what it redirects. */
const MARK = "\ufeff";
const MIB = 2 ** 20;

/** A pipe cannot be begun again: it is read whole, within what `readUnpacked` takes. @throws {Error} when it cannot be read */
export function openBytes(path: string, note: CaptureNote): ByteSource {
  const fd = openSync(path, "r");
  const stats = fstatSync(fd);
  if (!stats.isFile() || stats.size === 0) {
    closeSync(fd);
    return bytesHeld(readUnpacked(path, note));
  }
  const head = Buffer.alloc(HEAD_BYTES);
  const raw = (): AsyncGenerator<Buffer> => piecesOf(fd, stats.size);
  let isCutOff = false;
  const source = {
    head: head.subarray(0, readSync(fd, head, 0, HEAD_BYTES, 0)),
    close: () => closeSync(fd),
    async *chunks(): AsyncGenerator<Buffer> {
      if (!isGzip(source.head)) return yield* raw();
      // Asked to be lenient at the end, zlib hands out all that was flushed, but does not say that an end is missing.
      const flush = isCutOff ? { finishFlush: constants.Z_SYNC_FLUSH } : {};
      try {
        yield* unpacked(Readable.from(raw(), { objectMode: false }), flush);
      } catch (error) {
        const { code = "" } = error as NodeJS.ErrnoException;
        if (code !== "Z_BUF_ERROR")
          throw code.startsWith("Z_") ? new CaptureError(`${path}: the gzip data is broken (${messageOf(error)})`) : error;
        isCutOff = true;
        throw new CutOffError(`${path}: the gzip data is cut off; what it holds until there is read`);
      }
    },
  };
  return source;
}

/** A stream of Node's closes its file when somebody stops half-way; this one is read again. */
async function* piecesOf(fd: number, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < size;) {
    const piece = Buffer.allocUnsafe(Math.min(READ_BYTES, size - at));
    const { bytesRead } = await read(fd, piece, 0, piece.length, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield piece.subarray(0, bytesRead);
  }
}

const read = promisify(readFrom);

export function bytesHeld(bytes: Buffer): ByteSource {
  return { head: bytes.subarray(0, HEAD_BYTES), chunks: () => once(bytes), close: () => undefined };
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield await Promise.resolve(bytes);
}

/** Whoever stops reading stops both. */
async function* unpacked(packed: Readable, flush: { readonly finishFlush?: number }): AsyncGenerator<Buffer> {
  const gunzip = pipeline(packed, createGunzip({ chunkSize: READ_BYTES, ...flush }), () => undefined);
  for await (const chunk of gunzip) yield chunk as Buffer; // no encoding is set
}

/** Of each chunk the lines that end in it, and at last what no line feed ends; without a byte order mark before the first. @throws {CaptureError} for a line beyond LINE_BYTES_MAX */
export async function* linesOf(chunks: AsyncIterable<Buffer>, name: string): AsyncGenerator<readonly Line[]> {
  let pieces: Buffer[] = [];
  let [bytes, number] = [0, 1];
  const add = (piece: Buffer): void => {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > LINE_BYTES_MAX) throw new CaptureError(`${name}:${number}: is longer than ${LINE_BYTES_MAX / MIB} MiB`);
  };
  const end = (isOpen: boolean): Line => {
    const [first = Buffer.alloc(0)] = pieces;
    const text = (pieces.length > 1 ? Buffer.concat(pieces) : first).toString("utf8");
    const line = { text: number === 1 && text.startsWith(MARK) ? text.slice(MARK.length) : text, number: number++, bytes, isOpen };
    [pieces, bytes] = [[], 0];
    return line;
  };
  for await (const chunk of chunks) {
    const lines: Line[] = [];
    let start = 0;
    for (let feed = chunk.indexOf(LINE_FEED); feed !== -1; feed = chunk.indexOf(LINE_FEED, start)) {
      add(chunk.subarray(start, feed));
      lines.push(end(false));
      start = feed + 1;
    }
    if (start < chunk.length) add(chunk.subarray(start));
    if (lines.length > 0) yield lines;
  }
  if (bytes > 0) yield [end(true)];
}
