import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/** Returns two free ports on loopback. Both are held until both are known, so that they differ. */
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
  const { port } = server.address() as AddressInfo; // the address of a listening TCP server is an object
  await once(server.close(), "close");
  return port;
}
