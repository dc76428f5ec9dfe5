/** Starts a redis-server on a free loopback port, without persistence, and with a password, since all local users can reach loopback. */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { inspectRedis, redisClient } from "@deltaloop/store/redis";
import { startProgram } from "./child-process.ts";
import type { Child } from "./child-process.ts";
import { createOwnFolder } from "./own-folder.ts";

export interface LocalRedis {
  readonly url: string;
  readonly child: Child;
  stop(): Promise<void>;
}

const START_POLL_MS = 10;
const STOP_GRACE_MS = 500;

/**
 * Starts redis-server. Returns undefined if it is not on the PATH or does not start.
 *
 * @throws {UnfitRedisError} if redis-server is too old
 * @param password contained in the URL, and in a configuration file with mode 0600; empty for no password
 */
export async function startLocalRedis(password = randomBytes(32).toString("hex")): Promise<LocalRedis | undefined> {
  const folder = createOwnFolder("redis");
  const port = await freePort();
  const url = `redis://${password === "" ? "" : `:${password}@`}127.0.0.1:${port}`;
  const settings = {
    port: String(port),
    bind: "127.0.0.1",
    save: "",
    appendonly: "no",
    dir: folder.path,
    loglevel: "warning",
    "maxmemory-policy": "noeviction",
    ...(password !== "" && { requirepass: password }),
  };
  // The password is not on the command line, which all local users can read.
  const file = join(folder.path, "redis.conf");
  const lines = Object.entries(settings).map(([name, value]) => `${name} ${JSON.stringify(value)}\n`);
  writeFileSync(file, lines.join(""), { mode: 0o600 });
  const child = startProgram("redis-server", [file]);
  const stop = async (): Promise<void> => {
    await child.end(STOP_GRACE_MS);
    folder.remove();
  };
  const decided = new AbortController();
  const ready = await Promise.race([child.exited.then(() => false), reachable(url, decided.signal)]);
  decided.abort();
  try {
    if (ready) await inspectRedis({ url, cluster: false });
  } catch (error) {
    await stop();
    throw error;
  }
  if (ready) return { url, child, stop };
  await stop();
  return undefined;
}

async function reachable(url: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    const client = redisClient({ url, cluster: false });
    client.on("error", () => undefined); // the server does not listen yet
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

/** Ports that this process has chosen: the system may offer a port again before its first user listens. */
const chosen = new Set<number>();

/** Returns a free loopback port, each one once. Another process may take it before the caller does. */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    await new Promise((resolve) => server.close(resolve));
    const port = typeof address === "object" && address !== null ? address.port : 0;
    if (chosen.has(port)) continue;
    chosen.add(port);
    return port;
  }
}
