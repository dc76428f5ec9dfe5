/** Additional controllers on Redis. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe } from "vitest";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";
import { testSigner } from "../support/signer.ts";
import { ownViewsConformance } from "./own-views.ts";

const reason = ensureRedisServer();

describe.skipIf(reason)(`Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  let server: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.url);
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  ownViewsConformance("on Redis", (options) => createRedisStore(client, { ...options, signer: testSigner(options.cluster) }));
});
