import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/** Two ports of loopback that are free now, and different because both are held until both are known. */
export async function freePorts(): Promise<readonly [number, number]> {
  const [one, other] = [await hold(), await hold()];
  return [await release(one), await release(other)];
}

async function hold(): Promise<Server> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

async function release(server: Server): Promise<number> {
  const { port } = server.address() as AddressInfo; // a listening TCP server's address is no string and not null
  await once(server.close(), "close");
  return port;
}
