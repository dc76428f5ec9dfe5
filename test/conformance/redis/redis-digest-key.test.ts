/** `deltaloop rotate digest-key` on a real Redis if no watcher opens the new epoch; the drill covers the successful case. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { rotateDigestKey } from "../../../cli/rotate/digest-key.ts";
import { CONTROLLERS, tableOf } from "../../../shared/kube/objects/resources.ts";
import { environmentOf } from "../../../shared/controllers/lambda/configuration.ts";
import { openCache, redisStore } from "../../../shared/controllers/lambda/connect.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";

const NOBODY = "http://127.0.0.1:9/q";
const OLD = "the former key of the tests";
const WAIT_MS = 20_000;
const CONFIGURATION = {
  deployment: "test",
  cluster: "0123456789ab",
  mode: "act",
  digestKey: OLD,
  macKeys: ["a mac key of the tests"],
  kube: { server: "https://127.0.0.1:9" },
  queues: { deltas: NOBODY, doorbells: tableOf(CONTROLLERS, () => NOBODY) },
  logLevel: "error",
  metrics: "none",
} as const;

const missing = ensureRedisServer();
describe.skipIf(missing !== undefined)(`the digest key${missing === undefined ? "" : ` (${missing})`}`, () => {
  let folder: string;
  let server: RedisServer;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deltaloop-digest-key-"));
    server = await startRedis();
  });
  afterAll(async () => {
    await server.stop();
    await rm(folder, { recursive: true });
  });
  beforeEach(async () => {
    await writeFile(join(folder, "digest"), OLD);
    await begin("former");
  });

  const secret = () => readFile(join(folder, "digest"), "utf8");

  /** Replaces the epoch by one with the new key, as a watcher does after it has read the secret. */
  async function begin(epoch: string): Promise<void> {
    const configuration = { ...CONFIGURATION, digestKey: await secret(), redis: { url: server.url, cluster: false } };
    const { store, identity } = openCache(
      configuration,
      redisStore(configuration.redis, () => undefined),
    );
    await store.openEpoch({ epoch, clusterUid: "a cluster", fence: "1", ...identity }, (await store.epoch())?.epoch);
    await store.close();
  }

  async function rotate(onLook: (looks: number) => Promise<void>) {
    const said: string[] = [];
    let nowMs = 0;
    let looks = 0;
    const { DELTALOOP_DIGEST_KEY: _key, ...rest } = environmentOf({ ...CONFIGURATION, redis: { url: server.url, cluster: false } });
    const done = await rotateDigestKey({
      environment: { ...rest, DELTALOOP_DIGEST_KEY_SECRET: `file:${join(folder, "digest")}` },
      waitMs: WAIT_MS,
      finish: false,
      signal: new AbortController().signal,
      say: (line) => void said.push(line),
      now: () => nowMs,
      async after(ms) {
        nowMs += ms;
        await onLook(++looks);
      },
    });
    return { done, said, tookMs: nowMs };
  }

  it("reports that no epoch was opened, two minutes after every process could have read the new key", async () => {
    const { done, said, tookMs } = await rotate(() => Promise.resolve());
    expect([done, tookMs, said.at(-1)]).toEqual([false, WAIT_MS + 120_000, "no watcher has begun a new epoch: is one running?"]);
    expect(await secret()).toMatch(/^[0-9a-f]{64}$/);
    expect(said.join()).not.toContain(await secret());
  });

  it("reports after ten minutes that an epoch was opened but no list has completed", async () => {
    const { done, said, tookMs } = await rotate(async (looks) => {
      if (looks === 5) await begin("new");
    });
    expect([done, tookMs]).toEqual([false, 1_000 + 600_000]);
    expect(said.slice(1)).toEqual([
      "the new epoch has begun, relisting everything",
      "the gates are still closed: run deltaloop doctor to see why",
    ]);
  });
});
