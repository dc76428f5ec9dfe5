/**
 * The laws for large objects on a real Redis: also commands, bytes, and arguments and replies of the commands inside its scripts.
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
