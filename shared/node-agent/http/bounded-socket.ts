import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/**
 * Returns the bytes of `socket` as a stream that fails above `bytesMax`. Node's HTTP/2 client handles some frames without emitting an
 * event, so only the connection can count their bytes.
 */
export function boundedSocket(socket: Socket, bytesMax: number): Duplex {
  const bounded = new Duplex({
    read: () => void socket.resume(),
    write: (chunk: Buffer, encoding, done) => void socket.write(chunk, encoding, done),
    final: (done) => void socket.end(done),
    destroy: (error, done) => {
      socket.destroy();
      done(error);
    },
  });
  let received = 0;
  socket.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (received > bytesMax) bounded.destroy(new Error(`the server sent more than ${bytesMax} bytes`));
    else if (!bounded.push(chunk)) socket.pause();
  });
  socket.on("end", () => bounded.push(null));
  socket.on("error", (error) => bounded.destroy(error));
  return bounded;
}
