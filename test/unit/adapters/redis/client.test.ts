// Would catch: a process that, after it was suspended, discards responses that have arrived.
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import "../../../../shared/store/redis/client.ts";

const TIMEOUT_MS = 200;

/** A server that answers all commands except those that contain `hangs`. */
async function respond(afterwards: () => void): Promise<{ readonly client: Redis; stop(): void }> {
  const server = createServer((socket) => {
    socket.on("data", (bytes) => {
      const text = bytes.toString();
      if (!text.includes("hangs")) socket.write("+OK\r\n".repeat(text.match(/^\*\d/gm)?.length ?? 0));
      if (text.includes("key")) afterwards();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = new Redis({ host: "127.0.0.1", port, commandTimeout: TIMEOUT_MS, enableReadyCheck: false });
  await once(client, "ready");
  const stop = (): void => {
    client.disconnect();
    server.close();
  };
  return { client, stop };
}

test("returns a response that arrived while this process was suspended beyond the timeout", async () => {
  const { client, stop } = await respond(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * TIMEOUT_MS));
  expect(await client.get("key")).toBe("OK");
  stop();
});

test("fails a command that gets no response in time", async () => {
  const { client, stop } = await respond(() => undefined);
  await expect(client.get("hangs")).rejects.toThrow("timed out");
  stop();
});
