/**
 * A TCP proxy with one address in front of changing servers, as a managed Redis has it: clients keep the address, and
 * their connections end when the server changes or a test cuts them.
 */
import { createServer, connect } from "node:net";
import type { Socket } from "node:net";

export interface TcpFront {
  readonly port: number;
  /** Sends new connections to this port and cuts existing ones. */
  to(port: number): void;
  /** Cuts every open connection. */
  cut(): void;
  stop(): Promise<void>;
}

/**
 * If the server does not answer, connections end immediately.
 * @param rewrite changes the server's responses
 * @param address where it listens: loopback, or the bridge of a test's own containerd, which has no route to other networks
 */
export async function startTcpFront(
  port: number,
  address = "127.0.0.1",
  rewrite: (answer: string) => string = (answer) => answer,
): Promise<TcpFront> {
  let target = port;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const behind = connect(target, "127.0.0.1");
    for (const [socket, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      open.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => undefined); // `close` follows
      socket.on("close", () => {
        open.delete(socket);
        other.destroy();
      });
    }
    client.pipe(behind);
    behind.on("data", (chunk: Buffer) => client.write(rewrite(chunk.toString("latin1")), "latin1"));
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const bound = server.address();
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : 0,
    to(next) {
      target = next;
      cut();
    },
    cut,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      cut();
      await closed;
    },
  };
}
