// Write-through of responses: order, changed rows, and doorbells.
import { describe, expect, it } from "vitest";
import { writeThrough, type Answers } from "../../../shared/controllers/cache/write-through.ts";
import type { Doorbell, Doorbells } from "../../../shared/store/ports/doorbells.ts";
import { asOwner, cachedDeployment, cachedPod, cachedReplicaSet, ownedBy } from "../../support/builders.ts";
import { ApplierHarness, item } from "../../harness/store/applier.ts";

const rs = cachedReplicaSet({ name: "web" });
const POD = "shop/web-1";

/** A pod as the API server returns it. */
function answer(rv: number, more: object = {}): object {
  const ownerReferences = [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: rs.metadata.uid, controller: true }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: "shop",
      name: "web-1",
      uid: "uid-web-1",
      resourceVersion: String(rv),
      labels: { app: "web" },
      ownerReferences,
      ...more,
    },
    spec: { containers: [{ name: "c", env: [{ name: "PASSWORD", value: "hunter2" }] }] },
  };
}

async function scene() {
  const harness = await ApplierHarness.synced();
  await harness.apply(harness.pack([item(rs, "A")], { resource: "replicasets" }));
  const run = await harness.take("replicaset", "shop/web");
  harness.rung.length = 0;
  const save = (objects: readonly object[], more: Partial<Answers> = {}) =>
    writeThrough(harness.writeThroughPorts(), run, { resource: "pods", objects, ownerUid: rs.metadata.uid, ...more });
  return { harness, run, save };
}

describe("writeThrough", () => {
  it("[informer T73] caches stripped responses and returns them, and queues the key, whose doorbell is sent at the end of the run", async () => {
    const { harness, run, save } = await scene();
    const {
      objects: [cached],
    } = await save([answer(50)]);
    expect(cached).toMatchObject({ name: "web-1", resourceVersion: "50", owner: { uid: rs.metadata.uid } });
    expect(JSON.stringify(await harness.row(POD))).not.toContain("hunter2");
    expect(await harness.row(POD)).toMatchObject({ rv: "50", object: cached });
    expect(harness.rung).toEqual([]);
    expect(await harness.store.done(run, { kind: "ok" })).toMatchObject({ bell: { controller: "replicaset", key: "shop/web" } });
  });

  it("[informer T78] the watch event of a write with a response changes nothing and enqueues nothing", async () => {
    const { harness, run, save } = await scene();
    const {
      objects: [cached],
    } = await save([answer(50)]);
    await harness.store.done(run, { kind: "ok" });
    await harness.drain("replicaset");
    if (cached) await harness.apply(harness.pack([item(cached, "A")]));
    expect(await harness.dirty("replicaset")).toEqual([]);
  });

  it("[informer T35] drops a response that is older than the watermark and whose object is already deleted, and requeues its key", async () => {
    const { harness, save } = await scene();
    await harness.apply(harness.watermark("50"));
    await save([answer(10)]);
    expect(await harness.keys()).toEqual([]);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
  });

  it("[informer A5] drops a response whose delete has already arrived", async () => {
    const { harness, save } = await scene();
    await harness.apply(harness.pack([item(cachedPod({ resourceVersion: "11", owner: ownedBy("ReplicaSet", rs) }), "D")], { sq: 7 }));
    await harness.drain("replicationcontroller");
    await save([answer(10)]);
    expect(await harness.keys()).toEqual([]);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
  });

  it("reads a row again if it changed after it was read, and fails with a reason after five attempts", async () => {
    const { harness, run, save } = await scene();
    const known = new Map([[POD, { key: POD, uid: "uid-web-1", rv: "3", gone: false, object: cachedPod({ resourceVersion: "3" }) }]]);
    await save([answer(50)], { known });
    expect(await harness.row(POD)).toMatchObject({ rv: "50" });
    const ports = harness.writeThroughPorts();
    let calls = 0;
    const store = { ...ports.store, writeThrough: async () => (calls++, { kind: "retry", index: 0, bells: [], outcomes: [] } as const) };
    const giving = writeThrough({ ...ports, store }, run, { resource: "pods", objects: [answer(51)], ownerUid: rs.metadata.uid });
    await expect(giving).rejects.toThrow("gave up writing shop/web through after 5 attempts: the cache of pods kept changing");
    expect(calls).toBe(5);
  });

  it("does not resend the items before a changed row", async () => {
    const { harness, run } = await scene();
    const ports = harness.writeThroughPorts();
    const sent: string[] = [];
    const store: typeof ports.store = {
      ...ports.store,
      writeThrough: async (_, write) => {
        sent.push(write.items.map(({ key }) => key).join());
        return sent.length === 1 ? { kind: "retry", index: 1, bells: [], outcomes: ["changed"] } : { kind: "ok", bells: [], outcomes: [] };
      },
    };
    const objects = ["a", "b"].map((name) => answer(50, { name, uid: name }));
    expect((await writeThrough({ ...ports, store }, run, { resource: "pods", objects, ownerUid: rs.metadata.uid })).objects).toHaveLength(
      2,
    );
    expect(sent).toEqual(["shop/a,shop/b", "shop/b"]);
  });

  it("fails for a cache of another epoch, so that the sync is retried", async () => {
    const { harness, run } = await scene();
    const elsewhere = { ...run, epoch: "e0" };
    await expect(
      writeThrough(harness.writeThroughPorts(), elsewhere, { resource: "pods", objects: [answer(50)], ownerUid: rs.metadata.uid }),
    ).rejects.toThrow("another epoch");
  });

  it("logs doorbells that cannot be sent, and succeeds, because the sweeper sends them for queued keys", async () => {
    const { harness, run } = await scene();
    await harness.store.done(run, { kind: "ok" }); // a suppressed change sends no doorbell
    const doorbells = { ring: () => Promise.reject(new Error("SQS is unavailable")) };
    await writeThrough({ ...harness.writeThroughPorts(), doorbells }, run, {
      resource: "pods",
      objects: [answer(50)],
      ownerUid: rs.metadata.uid,
    });
    expect(harness.complaints).toEqual([expect.stringContaining("failed to ring doorbells; leaving them to the sweeper")]);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
  });

  it("[informer T76] a delete whose response lacks the object flags the row", async () => {
    const { harness, save } = await scene();
    await save([answer(50)]);
    await save([], { gone: [{ key: POD, uid: "uid-web-1" }] });
    expect(await harness.row(POD)).toMatchObject({ gone: true });
  });

  it("GO6 returns the keys that its writes enqueue: those of created or changed primaries, but not of status writes, nor its own key", async () => {
    const { harness, run } = await scene();
    const did: string[] = [];
    const expected: Doorbell[] = [];
    const ports = harness.writeThroughPorts();
    const store: typeof ports.store = {
      ...ports.store,
      writeThrough: async (...call) => {
        did.push("left");
        const answer = await ports.store.writeThrough(...call);
        did.push("answered");
        return answer;
      },
    };
    const doorbells: Doorbells = {
      ring: (bells) => Promise.resolve(void did.push(...bells.map(({ key }) => `rung ${key}`))),
      expect: (bells) => {
        did.push("expected");
        expected.push(...bells);
        return { ring: (due) => Promise.resolve(void did.push(...due.map(({ key }) => `rung ${key} by the step`))) };
      },
    };
    const d = cachedDeployment();
    const save = (name: string, uid: string, resourceVersion: string, generation = 1) => {
      const ownerReferences = [{ apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: d.metadata.uid, controller: true }];
      const metadata = { namespace: "shop", name, uid, resourceVersion, generation, ownerReferences };
      const object = {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        metadata,
        spec: { replicas: 1, selector: { matchLabels: { app: "x" } } },
      };
      return writeThrough({ ...ports, store, doorbells }, run, {
        resource: "replicasets",
        objects: [object],
        ownerUid: rs.metadata.uid,
      });
    };
    await save("web-2", "rs-2", "60");
    expect(did).toEqual(["left", "expected", "answered", "rung shop/web-2 by the step"]);
    const shared = { controller: "replicaset", key: "shop/web-2", uid: "rs-2", owner: asOwner("deployment", d), epoch: run.epoch };
    expect(expected.splice(0)).toEqual([{ ...shared, delayMs: 0 }]);
    await save("web-2", "rs-2", "61", 2);
    expect(expected.splice(0)).toEqual([{ ...shared, delayMs: 0 }]);
    await save("web-2", "rs-2", "62", 2);
    await save("web", rs.metadata.uid, "63", 9);
    expect(expected).toEqual([]);
  });
});
