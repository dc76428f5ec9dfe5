/** User controllers on Redis. */
import { describe } from "vitest";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { ensureRedisServer } from "../support/redis.ts";
import { testSigner } from "../support/signer.ts";
import { outsideConformance } from "./own-outside.ts";
import { ownViewsConformance, type MakeStore } from "./own-views.ts";
import { suiteRedis } from "./redis/fixtures.ts";

const reason = ensureRedisServer();

describe.skipIf(reason)(`Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const redis = suiteRedis();

  const make = (options: Parameters<MakeStore>[0]) => createRedisStore(redis.client, { ...options, signer: testSigner(options.cluster) });
  ownViewsConformance("on Redis", make);
  outsideConformance("on Redis", make);
});
