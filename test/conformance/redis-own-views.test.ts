/** Additional controllers on Redis. */
import { describe } from "vitest";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { ensureRedisServer } from "../support/redis.ts";
import { testSigner } from "../support/signer.ts";
import { ownViewsConformance } from "./own-views.ts";
import { suiteRedis } from "./redis/fixtures.ts";

const reason = ensureRedisServer();

describe.skipIf(reason)(`Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const redis = suiteRedis();

  ownViewsConformance("on Redis", (options) => createRedisStore(redis.client, { ...options, signer: testSigner(options.cluster) }));
});
