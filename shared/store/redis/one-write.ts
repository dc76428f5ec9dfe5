import { Cluster } from "ioredis";
import type { Redis } from "ioredis";

/** The part of the client that this needs. */
export type Corkable = Pick<Redis, "status" | "stream">;

/**
 * Called before each command, so that the commands of one event-loop turn are sent in one write. Records of a batch are handled
 * concurrently, so their commands coincide, and a socket write costs more than building the command.
 *
 * A cluster client has one connection per node; its commands are sent one by one.
 */
export function oneWritePerTurn(client: Redis | Cluster): () => void {
  return client instanceof Cluster ? () => undefined : corkPerTurn(client);
}

/** Same as oneWritePerTurn, but for one connection. Order and replies do not change: the socket buffers writes until the turn ends. */
export function corkPerTurn(client: Corkable): () => void {
  let corked = false;
  return () => {
    // Until the connection is ready, ioredis queues commands, and corking would delay the handshake.
    if (corked || client.status !== "ready") return;
    corked = true;
    const { stream } = client; // a reconnect creates a new stream
    stream.cork();
    // Ticks run after all pending microtasks, which issue the commands.
    process.nextTick(() => {
      corked = false;
      stream.uncork();
    });
  };
}
