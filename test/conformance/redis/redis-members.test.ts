/** The watchers of a deployment on the memory Store and on a real redis-server. */
import { expect, it } from "vitest";

import { createMemoryMembers } from "../../support/memory-members.ts";
import { createRedisMembers } from "../../../shared/store/redis/members.ts";
import { testSigner } from "../../support/signer.ts";
import { membersConformance } from "../members.ts";
import { suiteRedis } from "./fixtures.ts";

const NONE = { leads: [], waits: [] };
const KEY = "dl:members:watchers";

function movableClock(): { now: () => number; elapse: (ms: number) => void } {
  let nowMs = 1_772_359_200_000;
  return { now: () => nowMs, elapse: (ms) => void (nowMs += ms) };
}

membersConformance("memory", async () => {
  const clock = movableClock();
  return await Promise.resolve({ members: createMemoryMembers(clock), elapse: clock.elapse, close: async () => {} });
});

const redis = suiteRedis();
const options = { deployment: "members", signer: testSigner("none") };

membersConformance("Redis", async () => {
  await redis.client.flushall();
  const clock = movableClock();
  return { members: createRedisMembers(redis.client, { ...options, clock }), elapse: clock.elapse, close: async () => {} };
});

it("MR4 ignores a record that another client has changed, or copied under another id", async () => {
  await redis.client.flushall();
  const members = createRedisMembers(redis.client, options);
  await members.beat("a", { leads: ["c1"], waits: [] }, []);
  const record = (await redis.client.hget(KEY, "a")) ?? "";
  await redis.client.hset(KEY, "b", record, "c", "nonsense");
  expect((await members.beat("d", NONE, [])).others).toMatchObject([{ id: "a", leads: ["c1"] }]);
  await redis.client.hset(KEY, "a", record.replace("c1", "c2"));
  expect((await members.beat("d", NONE, [])).others).toEqual([]);
});

it("uses the server's time and one key, which belongs to no cluster", async () => {
  await redis.client.flushall();
  const { nowMs } = await createRedisMembers(redis.client, options).beat("a", NONE, []);
  const [seconds] = await redis.client.time();
  expect(Math.abs(nowMs / 1_000 - Number(seconds))).toBeLessThan(5);
  expect(await redis.client.keys("*")).toEqual([KEY]);
});
