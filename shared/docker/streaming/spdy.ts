/**
 * The part of SPDY/3.1 that an API server uses with a kubelet: it opens streams, and both sides write to and end them.
 *
 * SD1 frames are processed in order; a slow reader delays the other side by TCP flow control.
 * SD2 the header blocks of a direction form one zlib stream, so every block is decompressed, even those of ignored frames.
 * SD3 invalid input ends only its own connection, which has at most `STREAMS_MAX` open streams.
 *
 * Source: SPDY draft 3.1, 2.2 Framing and 2.6.10 Name/Value Header Block; moby/spdystream, which uses no flow control per stream.
 */
import type { Duplex } from "node:stream";
import { PassThrough } from "node:stream";
import { once } from "node:events";
import { constants, createDeflate, createInflate } from "node:zlib";
import type { Deflate, Inflate } from "node:zlib";

import { DICTIONARY } from "./spdy-dictionary.ts";

/** A stream that the client has opened. */
export interface SpdyStream {
  readonly headers: ReadonlyMap<string, string>;
  /** The client's data. */
  readonly input: NodeJS.ReadableStream;
  /** Resolves when the socket can accept more data. */
  write(data: Buffer): Promise<void>;
  /** Half-closes the stream. */
  end(): Promise<void>;
}

const VERSION = 3;
const TYPES = { synStream: 1, synReply: 2, rstStream: 3, ping: 6, goAway: 7, headers: 8 } as const;
const HEADER_BYTES = 8;
const CONTROL = 0x8000_0000;
const FIN = 1;
/** Maximum size of a control frame; the control frames of an exec are much smaller. */
const CONTROL_BYTES_MAX = 64 * 1024;
const DATA_BYTES_MAX = 64 * 1024;
/** Maximum size of a decompressed header block. */
const HEADERS_BYTES_MAX = 64 * 1024;
/** Maximum number of open streams. An exec has up to five streams, and a forwarded connection has two. */
export const STREAMS_MAX = 1_000;
/** Maximum size of unread data that is buffered per stream. */
const INPUT_BYTES_MAX = 256 * 1024;

/**
 * Reads frames until the connection ends; replies to each new stream, then calls `onStream`.
 * @throws {Error} if the input is invalid or the connection breaks
 */
export async function serveSpdy(socket: Duplex, onStream: (stream: SpdyStream) => void): Promise<void> {
  const [inflate, deflate] = [createInflate({ dictionary: DICTIONARY }), createDeflate({ dictionary: DICTIONARY })];
  inflate.on("error", () => undefined); // the code that reads the header block receives the error
  const inputs = new Map<number, PassThrough>();
  const send = async (frame: Buffer): Promise<void> => {
    if (!socket.writable) throw new Error("the client disconnected");
    if (!socket.write(frame)) await Promise.race([once(socket, "drain"), once(socket, "close")]);
  };
  const opened = async (frame: Buffer): Promise<void> => {
    const id = frame.readUInt32BE(0) & ~CONTROL;
    const headers = parseHeaders(await inflated(inflate, frame.subarray(10)));
    if (inputs.size >= STREAMS_MAX) throw new Error("too many streams");
    const input = new PassThrough({ highWaterMark: INPUT_BYTES_MAX });
    inputs.set(id, input);
    await send(control(TYPES.synReply, Buffer.concat([uint32(id), await deflated(deflate, uint32(0))])));
    onStream({
      headers,
      input,
      async write(data) {
        for (let from = 0; from < data.length; from += DATA_BYTES_MAX)
          await send(dataFrame(id, data.subarray(from, from + DATA_BYTES_MAX)));
      },
      end: () => send(dataFrame(id, Buffer.alloc(0), FIN)),
    });
  };
  try {
    for await (const frame of framesOf(socket)) {
      if (frame.kind === "data") {
        const input = inputs.get(frame.stream);
        if (input === undefined || input.destroyed) continue;
        if (frame.payload.length > 0 && !input.write(frame.payload)) await Promise.race([once(input, "drain"), once(input, "close")]);
        if (frame.isLast) {
          input.end();
          inputs.delete(frame.stream);
        }
        continue;
      }
      if (frame.type === TYPES.synStream) await opened(frame.payload);
      else if (frame.type === TYPES.headers) await inflated(inflate, frame.payload.subarray(4));
      else if (frame.type === TYPES.ping) await send(control(TYPES.ping, frame.payload));
      else if (frame.type === TYPES.rstStream) {
        const id = frame.payload.readUInt32BE(0);
        inputs.get(id)?.destroy();
        inputs.delete(id);
      } else if (frame.type === TYPES.goAway) return;
    }
  } finally {
    for (const input of inputs.values()) input.end();
    inflate.close();
    deflate.close();
  }
}

type Frame =
  | { readonly kind: "control"; readonly type: number; readonly payload: Buffer }
  | { readonly kind: "data"; readonly stream: number; readonly isLast: boolean; readonly payload: Buffer };

async function* framesOf(socket: Duplex): AsyncGenerator<Frame> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= HEADER_BYTES) {
      const [first, second] = [rest.readUInt32BE(0), rest.readUInt32BE(4)];
      const [flags, length] = [second >>> 24, second & 0xff_ffff];
      const isControl = first >= CONTROL;
      if (isControl && ((first >>> 16) & 0x7fff) !== VERSION) throw new Error("not SPDY/3");
      if (isControl && length > CONTROL_BYTES_MAX) throw new Error(`control frame of ${length} bytes is too long`);
      if (rest.length < HEADER_BYTES + length) break;
      const payload = rest.subarray(HEADER_BYTES, HEADER_BYTES + length);
      rest = rest.subarray(HEADER_BYTES + length);
      yield isControl
        ? { kind: "control", type: first & 0xffff, payload }
        : { kind: "data", stream: first, isLast: (flags & FIN) !== 0, payload };
    }
  }
}

function control(type: number, payload: Buffer): Buffer {
  return Buffer.concat([uint32(CONTROL + VERSION * 0x1_0000 + type), uint32(payload.length), payload]);
}

function dataFrame(stream: number, payload: Buffer, flags = 0): Buffer {
  return Buffer.concat([uint32(stream), uint32(flags * 0x100_0000 + payload.length), payload]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** SPDY requires lower-case names. */
function parseHeaders(block: Buffer): ReadonlyMap<string, string> {
  let at = 0;
  const word = (): string => {
    const length = block.readUInt32BE(at);
    at += 4 + length;
    return block.toString("latin1", at - length, at);
  };
  const count = block.readUInt32BE(0);
  at = 4;
  return new Map(Array.from({ length: Math.min(count, block.length / HEADER_BYTES) }, () => [word(), word()]));
}

/** Reads while writing, because zlib's buffer is small. Errors arrive only as events, not in the write callback. */
async function inflated(inflate: Inflate, block: Buffer): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  return await new Promise((resolve, reject) => {
    const settle = (settled: () => void): void => {
      inflate.off("readable", take).off("error", fail);
      settled();
    };
    const fail = (error: Error): void => settle(() => reject(error));
    const take = (): void => {
      const part = readAll(inflate);
      parts.push(part);
      bytes += part.length;
      if (bytes > HEADERS_BYTES_MAX) fail(new Error("header block is too long"));
    };
    inflate.on("readable", take).on("error", fail);
    inflate.write(block, () => {
      take();
      settle(() => resolve(Buffer.concat(parts)));
    });
  });
}

async function deflated(deflate: Deflate, block: Buffer): Promise<Buffer> {
  deflate.write(block);
  await new Promise<void>((resolve) => deflate.flush(constants.Z_SYNC_FLUSH, resolve));
  return readAll(deflate);
}

function readAll(stream: Inflate | Deflate): Buffer {
  const parts: Buffer[] = [];
  for (let part = stream.read() as Buffer | null; part !== null; part = stream.read() as Buffer | null) parts.push(part); // no encoding is set
  return Buffer.concat(parts);
}
