// A lagging cache: concurrent workers, lost doorbells, a silent watch, coalesced changes.
import { describe, expect, it } from "vitest";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { pod, replicaSet, type ReplicaOptions } from "../../support/workloads.ts";

const EPOCH = "epoch-1";
const KEY = "shop/web";

async function worldOf(rs: ReplicaOptions): Promise<SyncHarness> {
  const harness = await SyncHarness.create();
  await harness.api.put("replicasets", replicaSet(rs));
  await harness.stream();
  return harness;
}
const creates = (harness: SyncHarness): number => harness.api.writes.filter((write) => write === "create pods").length;
const queue = (harness: SyncHarness): Promise<unknown> => harness.store.add(EPOCH, "replicaset", KEY, 0);

describe("two workers on one key", () => {
  it("[replicaset P4] the second worker sends no request while the first one holds the lease, and the key is requeued", async () => {
    const harness = await worldOf({ replicas: 3 });
    let asked: readonly unknown[] | undefined;
    harness.api.script = {
      "create pods": async (_, nth) => {
        if (nth !== 1) return;
        const before = harness.api.calls.length;
        await queue(harness); // another client has changed the object
        await harness.ring();
        asked = harness.api.calls.slice(before);
      },
    };
    await harness.sync();
    expect(asked).toEqual([]);
    expect(creates(harness)).toBe(3);
    expect(await harness.queuedInMs()).toBe(0);
    await harness.ring();
    expect(creates(harness)).toBe(3);
    expect(await harness.queuedInMs()).toBeUndefined();
  });

  it("[replicaset P9] a change during a sync enqueues another sync, which sees the change", async () => {
    const harness = await worldOf({ replicas: 1 });
    harness.api.script = {
      "create pods": async (_, nth) => {
        if (nth !== 1) return;
        await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 4 } }));
        await harness.stream();
      },
    };
    await harness.sync();
    expect(harness.pods).toHaveLength(1);
    expect(await harness.queuedInMs()).toBe(0);
    await harness.ring();
    expect(harness.pods).toHaveLength(4);
  });
});

describe("a cache whose watch is interrupted", () => {
  it("[replicaset P8] a cache is not used after five minutes without events; syncs continue when events arrive again", async () => {
    const harness = await worldOf({ replicas: 2 });
    await harness.clock.advance(301_000);
    await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 5 } }));
    await harness.sync();
    expect(harness.api.calls).toEqual([]);
    await harness.stream();
    await harness.ring();
    expect(harness.pods).toHaveLength(5);
  });
});

describe("lost messages", () => {
  it("[replicaset P12] do not delay an availability check, because the sweeper finds the key when it is due", async () => {
    const harness = await worldOf({ replicas: 1, minReadySeconds: 3600 });
    const owner = { uid: harness.api.uid("replicasets", "web") };
    await harness.api.put("pods", pod({ name: "web-a", owner, readySince: "2026-03-01T10:00:00Z" }));
    await harness.stream();
    await harness.sync(); // its delayed doorbell is lost, because this harness delivers none
    const available = (): unknown => harness.api.find("replicasets", "web").status?.["availableReplicas"] ?? 0;
    const swept = async (): Promise<readonly string[]> => {
      await harness.stream(); // delivers heartbeats
      return (await harness.store.sweep(EPOCH)).map(({ key }) => key);
    };
    expect(available()).toBe(0);
    await harness.clock.advance(3_599_000);
    expect(await swept()).toEqual([]);
    await harness.clock.advance(10_000);
    expect(await swept()).toEqual([KEY]);
    await harness.ring();
    expect(available()).toBe(1);
  });

  it("[replicaset P16] hundreds of changes of one ReplicaSet's pods cause one status write with the latest counts", async () => {
    const harness = await worldOf({ replicas: 10 });
    await harness.sync();
    await harness.stream();
    await harness.ring();
    const pods = harness.pods.map(({ metadata: { name } }) => name);
    const ready = (status: "True" | "False"): object => ({ phase: "Running", conditions: [{ type: "Ready", status }] });
    for (let time = 0; time < 30; time++) {
      for (const name of pods) await harness.api.change("pods", name, () => ({ status: ready(time % 2 === 0 ? "False" : "True") }));
      await harness.stream();
    }
    const before = harness.api.calls.length;
    await harness.clock.advance(1_000); // a status change is delayed, so that several share one sync
    await harness.stream();
    await harness.ring();
    expect(harness.api.calls.slice(before).map(({ verb, subresource }) => `${verb} ${subresource}`)).toEqual(["patch status"]);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 10, readyReplicas: 10 });
    expect(await harness.queuedInMs()).toBeUndefined();
  });
});
