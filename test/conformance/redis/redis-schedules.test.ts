/** Random schedules over the product's own scripts on a real Redis (test/simulation/schedules). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runMany } from "../../simulation/schedules/many.ts";
import { BREAKAGES } from "../../simulation/schedules/rules.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";

const reason = ensureRedisServer();
/** Number of schedules; `npm run schedules` runs more. */
const SCHEDULES = 100;

describe.skipIf(reason)(`schedules on Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, { timeout: 180_000 }, () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  it(`[informer T60] ${SCHEDULES} random schedules violate no bound and no watermark, and end idle with an exact cache`, async () => {
    const { ran, failed } = await runMany({ url: server.url, first: 1, last: SCHEDULES });
    expect(failed).toEqual([]);
    expect(ran).toBe(SCHEDULES);
  });

  it.each(BREAKAGES.filter(({ seed }) => seed !== undefined))(
    "[informer T60] schedule $seed detects that rule $rule is disabled: $off",
    async (off) => {
      const { seed = 0 } = off;
      const { failed } = await runMany({ url: server.url, first: seed, last: seed, off });
      expect(failed).not.toEqual([]);
    },
  );
});
