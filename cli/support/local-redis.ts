/** A redis-server of our own: loopback, a free port, nothing on disk. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { redisClient } from "../../shared/adapters/redis/client.ts";
import { startProgram } from "./child-process.ts";
import type { Child } from "./child-process.ts";

export interface LocalRedis {
  readonly url: string;
  readonly child: Child;
  stop(): Promise<void>;
}

const START_POLL_MS = 50;
const STOP_GRACE_MS = 500;

/** Undefined when there is no redis-server on the PATH, or it does not start. */
export async function startLocalRedis(): Promise<LocalRedis | undefined> {
  const directory = mkdtempSync(join(tmpdir(), "deltaloop-redis-"));
  const port = await freePort();
  const settings = {
    port: String(port),
    bind: "127.0.0.1",
    save: "",
    appendonly: "no",
    dir: directory,
    loglevel: "warning",
    "maxmemory-policy": "noeviction",
  };
  const child = startProgram(
    "redis-server",
    Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
  );
  const stop = async (): Promise<void> => {
    await child.end(STOP_GRACE_MS);
    rmSync(directory, { recursive: true, force: true });
  };
  const gaveUp = new AbortController();
  const ready = await Promise.race([child.exited.then(() => false), reachable(port, gaveUp.signal)]);
  gaveUp.abort();
  if (ready) return { url: `redis://127.0.0.1:${port}`, child, stop };
  await stop();
  return undefined;
}

async function reachable(port: number, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    const client = redisClient({ url: `redis://127.0.0.1:${port}`, cluster: false });
    client.on("error", () => undefined); // it is not there yet
    const answered = await client.ping().then(
      () => true,
      () => false,
    );
    client.disconnect();
    if (answered) return true;
    await new Promise((resolve) => setTimeout(resolve, START_POLL_MS));
  }
  return false;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}
