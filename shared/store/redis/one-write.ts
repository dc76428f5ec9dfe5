import { Cluster } from "ioredis";
import type { Redis } from "ioredis";

/** What of a client this needs. */
export type Corkable = Pick<Redis, "status" | "stream">;

/**
 * To be called before each command: those of one turn of the event loop leave in one write. The records of a batch are
 * handled side by side, so their commands come together, and a write to a socket costs more than making the command.
 *
 * A cluster's client has a connection to each node, chosen inside; its commands leave one by one.
 */
export function oneWritePerTurn(client: Redis | Cluster): () => void {
  return client instanceof Cluster ? () => undefined : corkPerTurn(client);
}

/** The same for one connection. Order and answers are as without: the socket keeps what is written until the turn is over. */
export function corkPerTurn(client: Corkable): () => void {
  let corked = false;
  return () => {
    // Before that commands wait inside the client, and the handshake must not.
    if (corked || client.status !== "ready") return;
    corked = true;
    const { stream } = client; // another one after a reconnect
    stream.cork();
    // Ticks run once no continuation is left: these are where the commands come from.
    process.nextTick(() => {
      corked = false;
      stream.uncork();
    });
  };
}
