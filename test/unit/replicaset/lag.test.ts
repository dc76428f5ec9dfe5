// Would catch: a second worker that writes, a wake-up that is lost or comes before its news, a sync on a cache nobody feeds any more, an
// availability that a lost message leaves unsaid, a sync for every one of many changes.
import { describe, expect, it } from "vitest";
import { World } from "../../support/sync-world.ts";
import { pod, replicaSet } from "../../support/workloads.ts";
import type { ReplicaOptions } from "../../support/workloads.ts";

const EPOCH = "epoch-1";
const KEY = "shop/web";

async function worldOf(rs: ReplicaOptions): Promise<World> {
  const world = await World.create();
  await world.api.put("replicasets", replicaSet(rs));
  await world.stream();
  return world;
}
const creates = (world: World): number => world.api.writes.filter((write) => write === "create pods").length;
const queue = (world: World): Promise<unknown> => world.store.add(EPOCH, "replicaset", KEY, 0);

describe("two workers on one key", () => {
  it("[replicaset P4] the second one writes nothing while the first has the lease; the key runs again after it", async () => {
    const world = await worldOf({ replicas: 3 });
    let asked: readonly unknown[] | undefined;
    world.api.script = {
      "create pods": async (_, nth) => {
        if (nth !== 1) return;
        const before = world.api.calls.length;
        await queue(world); // somebody else has news
        await world.ring();
        asked = world.api.calls.slice(before);
      },
    };
    await world.sync();
    expect(asked).toEqual([]);
    expect(creates(world)).toBe(3);
    expect(await world.queuedInMs()).toBe(0);
    await world.ring();
    expect(creates(world)).toBe(3);
    expect(await world.queuedInMs()).toBeUndefined();
  });

  it("[replicaset P9] what comes while a sync runs leads to another one, which knows it", async () => {
    const world = await worldOf({ replicas: 1 });
    world.api.script = {
      "create pods": async (_, nth) => {
        if (nth !== 1) return;
        await world.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 4 } }));
        await world.stream();
      },
    };
    await world.sync();
    expect(world.pods).toHaveLength(1);
    expect(await world.queuedInMs()).toBe(0);
    await world.ring();
    expect(world.pods).toHaveLength(4);
  });
});

describe("a cache that nobody feeds", () => {
  it("[replicaset P8] for five minutes is no ground to act on, whoever rings; once it is fed, on what it has heard by then", async () => {
    const world = await worldOf({ replicas: 2 });
    await world.clock.advance(301_000);
    await world.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 5 } }));
    await world.sync();
    expect(world.api.calls).toEqual([]);
    await world.stream();
    await world.ring();
    expect(world.pods).toHaveLength(5);
  });
});

describe("messages", () => {
  it("[replicaset P12] that are all lost delay no availability: the sweeper finds the key when it is due", async () => {
    const world = await worldOf({ replicas: 1, minReadySeconds: 3600 });
    const owner = { uid: world.api.uid("replicasets", "web") };
    await world.api.put("pods", pod({ name: "web-a", owner, readySince: "2026-03-01T10:00:00Z" }));
    await world.stream();
    await world.sync(); // whose doorbell for later rings in nobody's ears: this world has none
    const available = (): unknown => world.api.find("replicasets", "web").status?.["availableReplicas"] ?? 0;
    const swept = async (): Promise<readonly string[]> => {
      await world.stream(); // heartbeats
      return (await world.store.sweep(EPOCH)).map(({ key }) => key);
    };
    expect(available()).toBe(0);
    await world.clock.advance(3_599_000);
    expect(await swept()).toEqual([]);
    await world.clock.advance(10_000);
    expect(await swept()).toEqual([KEY]);
    await world.ring();
    expect(available()).toBe(1);
  });

  it("[replicaset P16] hundreds of changes of one ReplicaSet's pods are one sync, of the last of them", async () => {
    const world = await worldOf({ replicas: 10 });
    await world.sync();
    await world.stream();
    await world.ring();
    const pods = world.pods.map(({ metadata: { name } }) => name);
    const ready = (status: "True" | "False"): object => ({ phase: "Running", conditions: [{ type: "Ready", status }] });
    for (let time = 0; time < 30; time++) {
      for (const name of pods) await world.api.change("pods", name, () => ({ status: ready(time % 2 === 0 ? "False" : "True") }));
      await world.stream();
    }
    const before = world.api.calls.length;
    await world.clock.advance(1_000); // a status waits a little for others
    await world.stream();
    await world.ring();
    expect(world.api.calls.slice(before).map(({ verb, subresource }) => `${verb} ${subresource}`)).toEqual(["patch status"]);
    expect(world.api.find("replicasets", "web").status).toMatchObject({ replicas: 10, readyReplicas: 10 });
    expect(await world.queuedInMs()).toBeUndefined();
  });
});
