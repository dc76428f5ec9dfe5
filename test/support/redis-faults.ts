/** Faults of a real Redis behind an address that does not change. */
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Redis } from "ioredis";

import { OP_DEADLINE_MS } from "../../shared/base/times.ts";
import { eventually } from "./eventually.ts";
import { startRedis } from "./redis.ts";
import type { RedisServer } from "./redis.ts";
import { startTcpFront } from "./tcp-front.ts";
import type { TcpFront } from "./tcp-front.ts";

/** The Redis behind the proxy, and a way to replace it. */
export interface Behind {
  current: RedisServer;
  admin: Redis;
  readonly front: TcpFront;
  readonly url: string;
  /** `restart`: kills the old server first; Redis is unavailable while `start` runs. */
  replace(start: () => Promise<RedisServer>): Promise<void>;
}

export interface RedisFault {
  readonly name: string;
  /** Resolves when Redis is usable again. */
  readonly strike: (redis: Behind) => Promise<void>;
  /** The permitted pause of a rollout, if it is longer than usual. */
  readonly pauseMsMax?: number;
}

const DUMP = "dump.rdb";

export const REDIS_FAULTS: readonly RedisFault[] = [
  { name: "FLUSHALL", strike: async ({ admin }) => void (await admin.flushall()) },
  { name: "half the keys deleted", strike: deleteHalf },
  { name: "restarted empty", strike: (redis) => redis.replace(() => startRedis()) },
  { name: "rolled back 2 s", strike: rollBack },
  { name: "failed over to a replica that lacks 500 ms", strike: failOver },
  // If the registration of intents is not answered, the owner stays blocked for OP_DEADLINE_MS, because its creates may still be executed.
  { name: "connections cut 20 times", strike: cutOften, pauseMsMax: OP_DEADLINE_MS + 5_000 },
  { name: "out of memory for 5 s", strike: outOfMemory },
  { name: "paused for 20 s", strike: pause },
];

async function deleteHalf({ admin }: Behind): Promise<void> {
  const keys = (await admin.keys("dl:*")).toSorted();
  // The key `ep` keeps its name in every epoch; it is kept, so that components do not notice the loss of the cache immediately.
  await admin.del(...keys.filter((key, index) => index % 2 === 0 && !key.endsWith(":ep")));
}

export async function rollBack(redis: Behind): Promise<void> {
  const directory = await saveDump(redis);
  await sleep(2_000);
  await restoreDump(redis, directory);
  await rm(directory, { recursive: true, force: true });
}

/** Saves the Store's RDB file. @returns a temporary directory that contains it, which the caller removes */
export async function saveDump({ admin }: Behind): Promise<string> {
  await admin.save();
  const [, source = ""] = (await admin.config("GET", "dir")) as string[]; // an option and its value
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-dump-"));
  await copyFile(join(source, DUMP), join(directory, DUMP));
  return directory;
}

/** Replaces Redis by a new one with that RDB file. The file stays as it is. */
export async function restoreDump({ replace }: Behind, directory: string): Promise<void> {
  const copy = await mkdtemp(join(tmpdir(), "deltaloop-dump-"));
  await copyFile(join(directory, DUMP), join(copy, DUMP));
  await replace(() => startRedis("--dir", copy));
  await rm(copy, { recursive: true, force: true });
}

async function failOver({ current, replace }: Behind): Promise<void> {
  const replica = await startRedis("--replicaof", "127.0.0.1", String(current.port));
  const admin = new Redis({ port: replica.port, host: "127.0.0.1" });
  await eventually("the replica follows", async () => (await admin.info("replication")).includes("master_link_status:up"));
  await admin.call("REPLICAOF", "NO", "ONE");
  await sleep(500);
  admin.disconnect();
  await replace(() => Promise.resolve(replica));
}

async function cutOften({ front }: Behind): Promise<void> {
  for (let i = 0; i < 20; i++) {
    front.cut();
    await sleep(150);
  }
}

async function outOfMemory({ admin }: Behind): Promise<void> {
  await admin.config("SET", "maxmemory", "1");
  await sleep(5_000);
  await admin.config("SET", "maxmemory", "0");
}

async function pause({ current }: Behind): Promise<void> {
  current.pause();
  await sleep(20_000);
  current.resume();
}

export async function startBehind(): Promise<Behind & { stop(): Promise<void> }> {
  const connect = ({ port }: RedisServer): Redis =>
    new Redis({ port, host: "127.0.0.1", maxRetriesPerRequest: null }).on("error", () => undefined);
  const current = await startRedis();
  const front = await startTcpFront(current.port);
  const behind: Behind = {
    current,
    admin: connect(current),
    front,
    url: `redis://127.0.0.1:${front.port}`,
    async replace(start) {
      behind.admin.disconnect();
      await behind.current.stop();
      behind.current = await start();
      behind.admin = connect(behind.current);
      front.to(behind.current.port);
    },
  };
  return Object.assign(behind, {
    async stop() {
      behind.admin.disconnect();
      await front.stop();
      await behind.current.stop();
    },
  });
}
