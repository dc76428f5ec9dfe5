/**
 * The laws for large objects on a real Redis, which also count commands, bytes, and the arguments and replies of commands inside scripts.
 * test/support/large-laws.ts lists what they catch.
 */
import { afterAll, beforeAll, describe } from "vitest";

import { largeLaws } from "../support/large-laws.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";
import { startCountedSync } from "../harness/sync/counted-sync.ts";

const reason = ensureRedisServer();

describe.skipIf(reason !== undefined)(`large workloads on Redis${reason === undefined ? "" : ` (${reason})`}`, () => {
  let redis: RedisServer;
  beforeAll(async () => void (redis = await startRedis()));
  afterAll(() => redis.stop());
  largeLaws(() => startCountedSync(redis.url));
});
