/**
 * The laws of large shapes on the real Redis: also commands, bytes, and what the commands of its scripts are given and answer. What
 * they catch: test/support/large-laws.ts.
 */
import { afterAll, beforeAll, describe } from "vitest";

import { largeLaws } from "../support/large-laws.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";
import { startCountedSync } from "../harness/sync/counted-sync.ts";

const reason = ensureRedisServer();

describe.skipIf(reason !== undefined)(`large shapes on Redis${reason === undefined ? "" : ` (${reason})`}`, () => {
  let redis: RedisServer;
  beforeAll(async () => void (redis = await startRedis()));
  afterAll(() => redis.stop());
  largeLaws(() => startCountedSync(redis.url));
});
