/** Demultiplexes the output of a container without a terminal: each frame has an 8-byte header with stream and length. Source: moby api, ContainerAttach. */

export interface Piece {
  readonly stream: "stdout" | "stderr";
  readonly data: Buffer;
}

const HEADER_BYTES = 8;
const STDERR = 2;

/** Yields the output in the chunks in which it arrives. With `tty`, the output has no frames and all of it is stdout. */
export async function* demux(source: NodeJS.ReadableStream, tty = false): AsyncGenerator<Piece> {
  let rest: Buffer = Buffer.alloc(0);
  let left = 0;
  let stream: Piece["stream"] = "stdout";
  for await (const chunk of source as AsyncIterable<Buffer>) {
    if (tty) {
      yield { stream, data: chunk };
      continue;
    }
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      if (left > 0 && rest.length > 0) {
        const data = rest.subarray(0, left);
        left -= data.length;
        rest = rest.subarray(data.length);
        yield { stream, data };
      } else if (left === 0 && rest.length >= HEADER_BYTES) {
        stream = rest[0] === STDERR ? "stderr" : "stdout";
        left = rest.readUInt32BE(4);
        rest = rest.subarray(HEADER_BYTES);
      } else break;
    }
  }
}
