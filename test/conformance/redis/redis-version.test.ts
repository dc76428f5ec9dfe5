/** A Redis before 6.2: a real server behind a proxy that changes the version in its responses. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { environmentOf } from "../../../shared/controllers/lambda/configuration.ts";
import { openCache, redisStore } from "../../../shared/controllers/lambda/connect.ts";
import { CONTROLLERS, tableOf } from "../../../shared/kube/objects/resources.ts";
import { inspectRedis } from "../../../shared/store/redis/server.ts";
import { deltaloop } from "../../support/e2e.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";
import { startTcpFront, type TcpFront } from "../../support/tcp-front.ts";

const TOO_OLD = /Redis 6\.0\.\d+ is too old: use Redis 6\.2 or newer, or Valkey$/;
const reason = ensureRedisServer();

/** Returns the response with an older version of the same length, because Redis sends the length before the text. */
function aged(answer: string): string {
  return answer.replace(/redis_version:\S+/, (line) => "redis_version:6.0.16".padEnd(line.length, "0").slice(0, line.length));
}

describe.skipIf(reason !== undefined)(`an unsupported version of Redis${reason === undefined ? "" : ` (${reason})`}`, () => {
  let [server, front]: [RedisServer?, TcpFront?] = [];
  const configuration = () => ({
    deployment: "test",
    cluster: "0123456789ab",
    mode: "act" as const,
    digestKey: "a digest key of the tests",
    macKeys: ["a mac key of the tests"],
    redis: { url: `redis://127.0.0.1:${front?.port}`, cluster: false },
    kube: { server: "http://127.0.0.1:9" },
    queues: { deltas: "http://127.0.0.1:9/q", doorbells: tableOf(CONTROLLERS, () => "http://127.0.0.1:9/q") },
    logLevel: "error" as const,
    metrics: "none" as const,
  });
  beforeAll(async () => {
    server = await startRedis();
    front = await startTcpFront(server.port, "127.0.0.1", aged);
  });
  afterAll(async () => {
    await front?.stop();
    await server?.stop();
  });

  it("every call of a Store rejects an unsupported version of Redis", async () => {
    const { store } = openCache(configuration(), redisStore(configuration().redis));
    try {
      for (let call = 0; call < 2; call++) await expect(store.epoch()).rejects.toThrow(TOO_OLD);
      await expect(store.gate("replicaset")).rejects.toThrow(TOO_OLD);
    } finally {
      await store.close();
    }
  });

  it("the check at the watcher's start rejects an unsupported version of Redis", async () => {
    await expect(inspectRedis(configuration().redis)).rejects.toThrow(TOO_OLD);
  });

  it("a command reports an unsupported version of Redis in one line, and exits with code 2", async () => {
    const command = deltaloop(["keys"], environmentOf(configuration()));
    expect(await command.exited).toMatchObject({ code: 2 });
    const [line = "", ...more] = command.output().split("\n");
    expect(line).toMatch(/^deltaloop: DELTALOOP_REDIS_URL: the Redis at 127\.0\.0\.1:\d+ cannot be used: /);
    expect(line).toMatch(TOO_OLD);
    expect(more).toEqual([""]);
  });
});
