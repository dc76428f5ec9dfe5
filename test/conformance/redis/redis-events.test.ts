/** The Store's record of Events in a real Redis. */
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { deploymentKeys } from "../../../shared/store/redis/keys.ts";
import { EVENT_COUNT_MAX, EVENT_MEMORY_MAX, eventNanos } from "../../../shared/kube/events/event-correlator.ts";
import { EVENT_MEMORY_MS } from "../../../shared/store/ports/events.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import type { StoreFixture } from "../store.ts";
import { HOLE_LIMIT_MS, IDENTITY } from "../../harness/store/store.ts";
import { redisFixture, suiteRedis } from "./fixtures.ts";

const reason = ensureRedisServer();
const US = "\x1f";
const NOW_MS = 1_772_359_200_000;
const NANOS = eventNanos(NOW_MS, 7);
const TOLD = { source: "s".repeat(22), group: "g".repeat(22), key: "k".repeat(22), nanos: NANOS };
const NAMES = deploymentKeys("events", "c1").events("replicaset");
const { groups: GROUPS, events: EVENTS, budgets: BUDGETS } = NAMES;
const KEYS = Object.values(NAMES);

describe.skipIf(reason)(`Events in Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const redis = suiteRedis();
  const open = (): Promise<StoreFixture> =>
    redisFixture(() => new Redis(redis.server.url))({
      deployment: "events",
      cluster: "c1",
      identity: IDENTITY,
      holeLimitMs: HOLE_LIMIT_MS,
    });

  it("EV3 the key of a controller's Events expires about two hours after the last Event", async () => {
    const { store, close } = await open();
    await store.correlateEvents("replicaset", [TOLD]);
    expect((await redis.client.keys("*")).toSorted()).toEqual(KEYS.toSorted());
    const left = await Promise.all(KEYS.map((key) => redis.client.pttl(key)));
    expect(left.filter((ms) => ms <= EVENT_MEMORY_MS - 60_000 || ms > EVENT_MEMORY_MS)).toEqual([]);
    await close();
  });

  it("EV3 Events use at most 6 MiB for any number of Events of a controller", { timeout: 60_000 }, async () => {
    const { store, close } = await open();
    const tell = (n: number, messages: number) =>
      Array.from({ length: messages }, (_, i) => {
        const object = String(n).padStart(22, "-");
        return { source: object, group: object, key: `${n} ${i}`.padStart(22, "-"), nanos: NANOS };
      });
    for (let n = 0; n < EVENT_MEMORY_MAX + 200; n++) await store.correlateEvents("replicaset", tell(n, 12));
    const bytes = await Promise.all(KEYS.map((key) => redis.client.memory("USAGE", key, "SAMPLES", 0)));
    expect(await redis.client.hlen(GROUPS)).toBe(EVENT_MEMORY_MAX);
    expect(bytes.reduce<number>((sum, each) => sum + (each ?? 0), 0)).toBeLessThan(6 * 2 ** 20);
    await close();
  });

  it.each([
    { name: "an invalid count", hash: EVENTS, field: TOLD.key, value: "x" },
    { name: "a negative count", hash: EVENTS, field: TOLD.key, value: `-3${US}ff` },
    { name: "a fractional count", hash: EVENTS, field: TOLD.key, value: `1.5${US}ff` },
    { name: "another Event name", hash: EVENTS, field: TOLD.key, value: `3${US}of-another-pod` },
    { name: "a name that is too long", hash: EVENTS, field: TOLD.key, value: `3${US}${"f".repeat(17)}` },
    { name: "invalid tokens", hash: BUDGETS, field: TOLD.source, value: `x${US}1` },
    { name: "negative tokens", hash: BUDGETS, field: TOLD.source, value: `-1e9${US}1` },
    { name: "an invalid time", hash: GROUPS, field: TOLD.group, value: `x${US}y` },
    { name: "no content", hash: GROUPS, field: TOLD.group, value: "" },
  ])("EV5 ignores a stored record with $name", async ({ hash, field, value }) => {
    const { store, close } = await open();
    await redis.client.hset(hash, field, value);
    expect(await store.correlateEvents("replicaset", [TOLD])).toEqual([{ nanos: NANOS, count: 1, isCombined: false, isHeldBack: false }]);
    await close();
  });

  it("EV5 keeps a stored count that exceeds the API server's limit", async () => {
    const { store, close } = await open();
    await redis.client.hset(EVENTS, TOLD.key, `1e300${US}ff`);
    expect(await store.correlateEvents("replicaset", [TOLD])).toMatchObject([{ nanos: "ff", count: EVENT_COUNT_MAX }]);
    await close();
  });

  it("EV5 a stored time in the future delays an object's Events by at most five minutes", async () => {
    const { store, clock, close } = await open();
    await redis.client.hset(BUDGETS, TOLD.source, `0${US}${"9".repeat(15)}`);
    expect(await store.correlateEvents("replicaset", [TOLD])).toMatchObject([{ isHeldBack: true }]);
    await clock.advance(300_000);
    expect(await store.correlateEvents("replicaset", [TOLD])).toMatchObject([{ isHeldBack: false }]);
    await close();
  });

  it("EV5 treats an impossible stored number of similar messages as nine", async () => {
    const { store, close } = await open();
    await redis.client.hset(GROUPS, TOLD.group, [NOW_MS, ...Array.from({ length: 500 }, (_, i) => i)].join(US));
    expect(await store.correlateEvents("replicaset", [TOLD])).toMatchObject([{ isCombined: true }]);
    expect((await redis.client.hget(GROUPS, TOLD.group))?.split(US)).toHaveLength(10);
    await close();
  });
});
