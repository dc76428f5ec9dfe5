/** The lines of a capture file, plain or compressed, as a repeatable stream. */
import { closeSync, fstatSync, openSync, read as readFrom, readSync } from "node:fs";
import { pipeline, Readable } from "node:stream";
import { promisify } from "node:util";
import { constants, createGunzip } from "node:zlib";
import { messageOf } from "@deltaloop/kube/objects";
import { CaptureError, isGzip, LINE_BYTES_MAX, readUnpacked } from "./capture.ts";
import type { CaptureNote } from "./capture.ts";

/** Bytes that can be read repeatedly. */
export interface ByteSource {
  /** The first bytes, still compressed. */
  readonly head: Buffer;
  /**
   * The decompressed content up to the size at opening time; later appends are ignored.
   *
   * @throws {CutOffError} once for truncated gzip data; later calls read up to the truncation
   */
  chunks(): AsyncIterable<Buffer>;
  close(): void;
}

/** The gzip data is truncated. The caller must restart with a new read. */
export class CutOffError extends Error {
  override readonly name = "CutOffError";
}

export interface Line {
  readonly text: string;
  readonly number: number;
  readonly bytes: number;
  /** The line has no final line feed. */
  readonly isOpen: boolean;
}

const READ_BYTES = 2 ** 16;
const HEAD_BYTES = 4;
const LINE_FEED = 0x0a;
/** A byte order mark, which Windows PowerShell writes on redirection. */
const MARK = "\ufeff";
const MIB = 2 ** 20;

/** A pipe cannot be read twice, so it is read completely, up to the limit of `readUnpacked`. @throws {Error} when it cannot be read */
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
      // With Z_SYNC_FLUSH zlib returns all data up to a truncation, but does not report the truncation.
      const flush = isCutOff ? { finishFlush: constants.Z_SYNC_FLUSH } : {};
      try {
        yield* unpacked(Readable.from(raw(), { objectMode: false }), flush);
      } catch (error) {
        const { code = "" } = error as NodeJS.ErrnoException;
        if (code !== "Z_BUF_ERROR")
          throw code.startsWith("Z_") ? new CaptureError(`${path}: the gzip data is broken (${messageOf(error)})`) : error;
        isCutOff = true;
        throw new CutOffError(`${path}: the gzip data is truncated; reading ends there`);
      }
    },
  };
  return source;
}

/** Reads by file descriptor, because a Node.js stream closes its file when the consumer stops early. */
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

/** Decompresses. When the consumer stops early, both streams are destroyed. */
async function* unpacked(packed: Readable, flush: { readonly finishFlush?: number }): AsyncGenerator<Buffer> {
  const gunzip = pipeline(packed, createGunzip({ chunkSize: READ_BYTES, ...flush }), () => undefined);
  for await (const chunk of gunzip) yield chunk as Buffer; // no encoding is set
}

/** Lines in one group: a chunk of blank lines has one per byte, and each takes a hundred times its size. */
const GROUP_LINES = 500;

/** The lines that end in each chunk, in groups, and finally an unterminated one; without a byte order mark. @throws {CaptureError} for a line beyond LINE_BYTES_MAX */
export async function* linesOf(chunks: AsyncIterable<Buffer>, name: string): AsyncGenerator<readonly Line[]> {
  let pieces: Buffer[] = [];
  let [bytes, number] = [0, 1];
  const add = (piece: Buffer): void => {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > LINE_BYTES_MAX) throw new CaptureError(`${name}:${number}: line is longer than ${LINE_BYTES_MAX / MIB} MiB`);
  };
  const end = (isOpen: boolean): Line => {
    const [first] = pieces;
    const text = (pieces.length > 1 ? Buffer.concat(pieces) : first)?.toString("utf8") ?? "";
    const line = { text: number === 1 && text.startsWith(MARK) ? text.slice(MARK.length) : text, number: number++, bytes, isOpen };
    [pieces, bytes] = [[], 0];
    return line;
  };
  for await (const chunk of chunks) {
    let lines: Line[] = [];
    let start = 0;
    for (let feed = chunk.indexOf(LINE_FEED); feed !== -1; feed = chunk.indexOf(LINE_FEED, start)) {
      if (feed > start) add(chunk.subarray(start, feed));
      lines.push(end(false));
      start = feed + 1;
      if (lines.length < GROUP_LINES) continue;
      yield lines;
      lines = [];
    }
    if (start < chunk.length) add(chunk.subarray(start));
    if (lines.length > 0) yield lines;
  }
  if (bytes > 0) yield [end(true)];
}
