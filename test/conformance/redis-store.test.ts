/** The Store's suite on Redis, and random histories compared with the memory Store. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe } from "vitest";
import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";
import { functionUsersFixture, memoryFixture, redisFixture } from "./redis/fixtures.ts";
import { storeDifferential } from "./store-differential.ts";
import { storeConformance } from "./store.ts";

const reason = ensureRedisServer();
/** `DIFFERENTIAL=1-500` runs other seeds. */
const [FIRST_SEED = 1, LAST_SEED = 12] = (process.env["DIFFERENTIAL"] ?? "").split("-").filter(Boolean).map(Number);
const SEEDS = Array.from({ length: LAST_SEED - FIRST_SEED + 1 }, (_, i) => FIRST_SEED + i);
const STEPS = 300;

describe.skipIf(reason)(`Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  const fixture = redisFixture(() => new Redis(server.url));
  storeConformance("Redis", (options) => functionUsersFixture(server.url)(options));
  storeDifferential("Redis", memoryFixture, fixture, { seeds: SEEDS, steps: STEPS });
});
