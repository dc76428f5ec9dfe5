/** Growing lanes beside other work on a real Redis (LG2 of shared/store/lane.ts). */
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";

import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { deploymentKeys } from "../../../shared/store/redis/keys.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { createSigner } from "../../../shared/store/signer.ts";
import type { Signer } from "../../../shared/store/signer.ts";
import { EPOCH, HOLE_LIMIT_MS, IDENTITY, ONE_LANE, StoreHarness } from "../../harness/store/store.ts";
import { cachedPod, put, remove } from "../../support/builders.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import { testSigner } from "../../support/signer.ts";
import { redisFixture, suiteRedis } from "./fixtures.ts";

const reason = ensureRedisServer();
const CLUSTER = "0123456789ab";
const OPTIONS = { deployment: "growth", cluster: CLUSTER, identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS };
const pod = (number: number) => cachedPod({ name: `web-${number}`, resourceVersion: `${10 + number}` });
const keyOf = (number: number) => `shop/web-${number}`;
const NUMBERS = Array.from({ length: 12 }, (_, number) => number);

describe.skipIf(reason)(`growing lanes${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const redis = suiteRedis();

  const open = async (): Promise<StoreHarness> => {
    const fixture = await redisFixture(() => new Redis(redis.server.url))(OPTIONS);
    onTestFinished(() => fixture.close());
    return await new StoreHarness(fixture).synced();
  };

  /** Pods grow to four lanes under fence 101. */
  const grow = async ({ fixture, epoch }: StoreHarness): Promise<StoreHarness> => {
    const after = Object.assign(new StoreHarness(fixture, { ...ONE_LANE, pods: 4 }), { epoch, fence: "101" });
    const opened = await fixture.store.openFence({ epoch, fence: "101", resource: "pods", lanes: 1, lanesMax: 4, grows: true });
    expect(opened).toMatchObject({ kind: "open", lanes: { length: 4 } });
    for (const resource of CACHED_RESOURCES) if (resource !== "pods") await after.openFence(resource, "101");
    return after;
  };

  /** A Store on the same data, before whose first read of slices `does` runs. */
  const beside = ({ fixture }: StoreHarness, signer: Signer, does: () => Promise<void>) => {
    const client = new Redis(redis.server.url);
    onTestFinished(() => client.disconnect());
    let isDone = false;
    const send = client.sendCommand.bind(client);
    client.sendCommand = (command, stream) => {
      if (isDone || !command.args.some((each) => String(each).includes(":s:pods:"))) return send(command, stream);
      isDone = true;
      return does().then(() => send(command, stream));
    };
    return createRedisStore(client, { ...OPTIONS, signer, clock: fixture.clock });
  };

  it("LG2 `deltaloop keys --resign` keeps the index entries of pods that arrive while the lanes grow", async () => {
    const harness = await open();
    await harness.seed("pods", [put(pod(0))]);
    const store = beside(harness, testSigner(CLUSTER), async () => {
      const after = await grow(harness);
      for (const number of NUMBERS.slice(1)) await after.seed("pods", [put(pod(number))]);
    });
    await store.keyUse("pods", true);
    const [orphans] = await harness.store.readSlices([{ resource: "pods", orphansOf: "shop" }]);
    expect(orphans?.map(({ key }) => key).toSorted()).toEqual(NUMBERS.map(keyOf).toSorted());
    expect(await store.keyUse("pods", false)).toMatchObject({ current: 24, ghosts: 0, hidden: 0 });
  });

  it("LG2 `deltaloop keys --resign` signs rows and tombstones that move to other lanes meanwhile", async () => {
    const harness = await open();
    for (const number of NUMBERS) await harness.seed("pods", [put(pod(number))]);
    // Applied out of order, so that the watermark stays and the tombstones remain.
    const deletes = NUMBERS.slice(8).map((number) => remove(pod(number), "30"));
    await harness.deliver("pods", deletes, { sequence: harness.nextSequence("pods") + 1 });
    const signer = createSigner(["another MAC key of the tests", "the MAC key of the tests"], CLUSTER);
    const store = beside(harness, signer, async () => void (await grow(harness)));
    expect(await store.keyUse("pods", true)).toMatchObject({ current: 0, former: 20 });
    expect(await store.keyUse("pods", false)).toMatchObject({ current: 20, former: 0, foreign: 0, ghosts: 0, hidden: 0 });
  });

  it.each(["v", "t"])("LG2 moves all rows or none if key `%s` of the lane has another type", async (part) => {
    const harness = await open();
    for (const number of NUMBERS) await harness.seed("pods", [put(pod(number))]);
    const [, v, t] = deploymentKeys(OPTIONS.deployment, CLUSTER).of(EPOCH.epoch).lane("pods", 0);
    const broken = part === "v" ? v : t;
    await redis.client.copy(broken, "kept");
    await redis.client.set(broken, "a text");
    const before = await redis.client.dumpBuffer(v);
    await expect(grow(harness)).rejects.toThrow("WRONGTYPE");
    expect((await redis.client.dumpBuffer(v))?.equals(before ?? Buffer.of())).toBe(true);
    await redis.client.del(broken);
    await redis.client.rename("kept", broken).catch(() => undefined); // there were no tombstones
    const { store } = await grow(harness);
    const lanes = await Promise.all([0, 1, 2, 3].map(async (lane) => (await store.readLane("pods", lane)).rows.map(({ key }) => key)));
    expect(lanes.flat().toSorted()).toEqual(NUMBERS.map(keyOf).toSorted());
  });
});
