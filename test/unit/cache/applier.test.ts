// The applier: order, redelivery, lists, fences and invalid items.
import { describe, expect, it as base } from "vitest";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { CachedPod, CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import type { AffectedKeys, Delta } from "../../../shared/controllers/cache/affected-keys.ts";
import { createSigner } from "../../../shared/store/signer.ts";
import { signBody } from "../../../shared/controllers/cache/messages/signed-body.ts";
import { asOwner, cachedPod, cachedReplicaSet, listed, ownedBy } from "../../support/builders.ts";
import { payloadOf, signedBody } from "../../support/signer.ts";
import { ApplierHarness, item } from "../../harness/store/applier.ts";
import type { EnvelopeItem } from "../../../shared/controllers/cache/messages/envelope.ts";

const it = base.extend("harness", async () => await scene());

const rs = cachedReplicaSet({ name: "web", replicas: 3 });
const owner = ownedBy("ReplicaSet", rs);
const POD = "shop/web-1";
const pod = (rv: number, overrides: Partial<CachedPod> = {}): CachedPod => cachedPod({ resourceVersion: String(rv), owner, ...overrides });

/** The ReplicaSet is cached, and no key is queued. */
async function scene(): Promise<ApplierHarness> {
  const harness = await ApplierHarness.synced();
  await harness.apply(harness.pack([item(rs, "A")], { resource: "replicasets" }));
  await harness.drain("replicaset");
  harness.rung.length = 0;
  return harness;
}

describe("order", () => {
  it("[informer T31] add, update and delete in order each enqueue the owner, and delete the row at the end", async ({ harness }) => {
    const runs: number[] = [];
    for (const each of [item(pod(1), "A"), item(pod(2, { labels: { app: "web", extra: "1" } }), "M"), item(pod(3), "D")]) {
      expect(await harness.apply(harness.pack([each]))).toEqual({ kind: "ack" });
      runs.push(await harness.drain("replicaset"));
    }
    expect(runs).toEqual([1, 1, 1]);
    expect(harness.rung.map(({ key }) => key)).toEqual(["shop/web", "shop/web", "shop/web"]);
    expect(await harness.row(POD)).toBeUndefined();
    expect(await harness.watermarkOf()).toBe("3");
  });

  it("[replicaset P2] [informer T32] add, update and delete in reverse order leave no row; the watermark advances after the third message", async ({
    harness,
  }) => {
    const first = 2; // the empty manifest had sequence 1
    const bodies = [item(pod(1), "A"), item(pod(2), "M"), item(pod(3), "D")].map((each, i) => harness.pack([each], { sq: first + i }));
    for (const body of bodies.toReversed()) {
      expect(await harness.watermarkOf()).toBe("0");
      expect(await harness.apply(body)).toEqual({ kind: "ack" });
      expect(await harness.row(POD)).toBeUndefined();
    }
    expect(await harness.watermarkOf()).toBe("3");
  });

  it("[informer T33] messages delivered five times in any order lead to the same state, and enqueue the owner at most once per change", async () => {
    for (let seed = 1; seed <= 30; seed++) {
      const random = createSeededRandom(seed);
      const harness = await scene();
      const messages = [
        [item(pod(1), "A")],
        [item(pod(2, { labels: { app: "web", v: "2" } }), "M")],
        [item(pod(5, { name: "b" }), "A")],
        [item(pod(7), "D")],
      ];
      const bodies = messages.map((items, i) => harness.pack(items, { sq: 2 + i }));
      const storm = bodies.flatMap((body) => Array.from({ length: 5 }, () => ({ body, at: random.next() }))).sort((a, b) => a.at - b.at);
      let runs = 0;
      for (const { body } of storm) {
        await harness.apply(body);
        runs += await harness.drain("replicaset");
      }
      expect(await harness.keys(), `seed ${seed}`).toEqual(["shop/b"]);
      expect(await harness.watermarkOf(), `seed ${seed}`).toBe("7");
      expect(runs, `seed ${seed}`).toBeLessThanOrEqual(messages.length);
      expect(runs, `seed ${seed}`).toBeGreaterThanOrEqual(2);
    }
  });

  it("[informer T34] a late update does not restore a deleted object, neither above the watermark (A5) nor below it (A6)", async ({
    harness,
  }) => {
    await harness.apply(harness.pack([item(pod(30), "D")], { sq: 4 }));
    await harness.apply(harness.pack([item(pod(20), "M")], { sq: 3 }));
    expect(await harness.keys()).toEqual([]);
    expect(await harness.watermarkOf()).toBe("0");
    await harness.apply(harness.watermark("30", { sq: 2 }));
    expect(await harness.watermarkOf()).toBe("30");
    await harness.apply(harness.pack([item(pod(20), "M")], { sq: 5 }));
    expect(await harness.keys()).toEqual([]);
  });

  it("a delete of an uncached object enqueues the owner in the message (A9)", async ({ harness }) => {
    await harness.apply(harness.pack([item(pod(9), "D")]));
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
  });

  it("[informer T36] enqueues the old and the new owner when an object is recreated with another uid, in two items or one", async () => {
    const other = cachedReplicaSet({ name: "other", resourceVersion: "2" });
    const again = cachedPod({ uid: "second", resourceVersion: "6", owner: ownedBy("ReplicaSet", other) });
    const packs = [[item(pod(5), "D"), item(again, "A")], [item(again, "M")]];
    for (const items of packs) {
      const harness = await scene();
      await harness.apply(harness.pack([item(other, "A")], { resource: "replicasets" }));
      await harness.apply(harness.pack([item(pod(4), "A")]));
      await harness.drain("replicaset");
      expect(await harness.apply(harness.pack(items))).toEqual({ kind: "ack" });
      expect(await harness.dirty("replicaset")).toEqual(["shop/other", "shop/web"]);
      expect(await harness.row(POD)).toMatchObject({ uid: "second", rv: "6", owner: asOwner("replicaset", other) });
      expect(await harness.watermarkOf()).toBe("6");
    }
  });
});

describe("IX10 calls to the Store", () => {
  const cases: readonly { what: string; before: readonly EnvelopeItem[]; comes: readonly EnvelopeItem[]; asked: readonly string[] }[] = [
    { what: "only new objects", before: [], comes: [item(pod(1), "A")], asked: ["applyPack"] },
    {
      what: "adds of objects that are cached at the same version",
      before: [item(pod(1), "A")],
      comes: [item(pod(1), "A")],
      asked: ["applyPack"],
    },
    {
      what: "changes of objects that are cached at the same version",
      before: [item(pod(2), "A")],
      comes: [item(pod(2), "M")],
      asked: ["applyPack"],
    },
    { what: "changed objects", before: [item(pod(1), "A")], comes: [item(pod(2), "M")], asked: ["applyPack", "applyPack"] },
    { what: "older versions", before: [item(pod(2), "A")], comes: [item(pod(1), "A")], asked: ["applyPack", "applyPack"] },
    {
      what: "a changed owner, with a lookup of the previous one",
      before: [item(pod(1, { owner: { kind: "ReplicaSet", name: "other", uid: "other" } }), "A")],
      comes: [item(pod(2), "M")],
      asked: ["applyPack", "readIndex", "readIndex", "applyPack"],
    },
    {
      what: "a new object after a known one",
      before: [item(pod(1), "A")],
      comes: [item(pod(1), "M"), item(pod(2, { name: "b" }), "A"), item(pod(3, { name: "c" }), "A")],
      asked: ["applyPack"],
    },
    {
      what: "a change among new objects",
      before: [item(pod(1), "A")],
      comes: [item(pod(2, { name: "b" }), "A"), item(pod(3), "M"), item(pod(4, { name: "c" }), "A")],
      asked: ["applyPack", "applyPack"],
    },
  ];
  it.each(cases)("calls $asked for $what", async ({ before, comes, asked }) => {
    const harness = await scene();
    if (before.length > 0) await harness.apply(harness.pack(before));
    const { store } = harness;
    const calls: string[] = [];
    harness.store = {
      ...store,
      applyPack: (...given) => (calls.push("applyPack"), store.applyPack(...given)),
      readIndex: (...given) => (calls.push("readIndex"), store.readIndex(...given)),
    };
    expect(await harness.apply(harness.pack(comes))).toEqual({ kind: "ack" });
    expect(calls).toEqual(asked);
    harness.store = store;
    const highest = Math.max(...[...before, ...comes].map(({ rv }) => Number(rv)));
    expect(await harness.watermarkOf()).toBe(String(highest));
    const newest = [...before, ...comes].filter(({ key }) => key === POD).reduce((a, b) => (Number(b.rv) > Number(a.rv) ? b : a));
    if (newest.key === POD) expect(await harness.row(POD)).toMatchObject({ rv: newest.rv });
  });

  it("[informer A3] the redelivery of a delete sends the lost wake-up message (doorbell) of its owner again", async ({ harness }) => {
    await harness.apply(harness.pack([item(pod(1), "A")]));
    await harness.drain("replicaset");
    const body = harness.pack([item(pod(2), "D")]);
    await harness.apply(body);
    harness.rung.length = 0;
    await harness.apply(body);
    expect(harness.rung.map(({ key }) => key)).toEqual(["shop/web"]);
  });
});

describe("partly applied messages", () => {
  it("[informer T25b] after a crash at item 2 the redelivery applies items 3 to 5; each effect occurs once", async ({ harness }) => {
    const names = ["a", "b", "c", "d", "e"];
    const body = harness.pack(names.map((name, i) => item(pod(10 + i, { name }), "A")));
    const { store } = harness;
    let calls = 0;
    harness.store = {
      ...store,
      applyPack: async (pack, items, options) => {
        if (++calls === 2) throw new Error("the process died");
        // Another writer changes item 3 after it was read, so the call ends before it.
        if (calls === 1)
          return store.applyPack(
            pack,
            items.map((each) => (each.key === "shop/c" ? { ...each, expected: { rv: "1", uid: "x" } } : each)),
            options,
          );
        return store.applyPack(pack, items, options);
      },
    };
    await expect(harness.apply(body)).rejects.toThrow("the process died");
    expect(await harness.keys()).toEqual(["shop/a", "shop/b"]);
    expect(await harness.watermarkOf()).toBe("0");
    expect(await harness.drain("replicaset")).toBe(1);
    expect(await harness.apply(body)).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual(names.map((name) => `shop/${name}`));
    expect(await harness.drain("replicaset")).toBe(1);
    expect(await harness.watermarkOf()).toBe("14");
    expect(await harness.apply(harness.pack([item(pod(15, { name: "f" }), "A")]))).toEqual({ kind: "ack" });
    expect(await harness.watermarkOf()).toBe("15");
  });

  it("applies a delete and a recreate of one object in two Store calls, even when other objects follow", async ({ harness }) => {
    await harness.apply(harness.pack([item(pod(4), "A")]));
    const items = [item(pod(5), "D"), item(pod(6, { uid: "second" }), "A"), item(pod(7, { name: "b" }), "A")];
    expect(await harness.apply(harness.pack(items))).toEqual({ kind: "ack" });
    expect(await harness.row(POD)).toMatchObject({ uid: "second" });
    expect(await harness.keys()).toEqual(["shop/b", POD]);
  });

  it("[informer T25b] applies 250 items of one message in calls of at most 100, and the last call commits", async ({ harness }) => {
    const { store } = harness;
    const sizes: string[] = [];
    harness.store = {
      ...store,
      applyPack: (pack, items, options) => {
        sizes.push(`${items.length}${options.commit ? " and commit" : ""}`);
        return store.applyPack(pack, items, options);
      },
    };
    await harness.apply(harness.pack(Array.from({ length: 250 }, (_, i) => item(pod(100 + i, { name: `p${i}` }), "A"))));
    expect(sizes).toEqual(["100", "100", "50 and commit"]);
    expect(await harness.watermarkOf()).toBe("349");
  });

  it("returns the message to the queue when rows change during every attempt, and still sends the doorbells of queued keys", async ({
    harness,
  }) => {
    const { store } = harness;
    harness.store = {
      ...store,
      applyPack: async () => ({
        kind: "retry",
        index: 0,
        bells: [{ controller: "replicaset", key: "shop/web", epoch: "e1", delayMs: 0 }],
        outcomes: [],
      }),
    };
    expect(await harness.apply(harness.pack([item(pod(5), "A")]))).toMatchObject({ kind: "retry", afterSeconds: 5 });
    expect(harness.rung).toHaveLength(1);
  });
});

describe("AP5 a redelivered message", () => {
  const many = (count: number, fields: (i: number) => Partial<CachedPod> = () => ({})): readonly EnvelopeItem[] =>
    Array.from({ length: count }, (_, i) => item(pod(100 + i, { name: `p${i}`, uid: `p${i}`, ...fields(i) }), "A"));

  it.each([
    { comes: "for the first time", receiveCount: 1, callMs: 5_000, sizes: [100, 50] },
    { comes: "a second time", receiveCount: 2, callMs: 10, sizes: [10, 20, 40, 80] },
    { comes: "a second time, and for which calls take long,", receiveCount: 2, callMs: 1_000, sizes: Array.from({ length: 15 }, () => 10) },
    { comes: "a third time", receiveCount: 3, callMs: 10, sizes: [1, 2, 4, 8, 16, 32, 64, 23] },
    { comes: "for the thousandth time", receiveCount: 1_000, callMs: 10, sizes: [1, 2, 4, 8, 16, 32, 64, 23] },
  ])(
    "splits a message that is delivered $comes into Store calls, and doubles their size while they are fast",
    async ({ receiveCount, callMs, sizes }) => {
      const harness = await scene();
      const { store } = harness;
      const seen: { readonly size: number; readonly isLast: boolean }[] = [];
      harness.store = {
        ...store,
        applyPack: async (pack, items, options) => {
          seen.push({ size: items.length, isLast: options.commit !== undefined });
          await harness.clock.advance(callMs);
          return store.applyPack(pack, items, options);
        },
      };
      expect(await harness.apply(harness.pack(many(150)), receiveCount)).toEqual({ kind: "ack" });
      expect(seen).toEqual(sizes.map((size, i) => ({ size, isLast: i === sizes.length - 1 })));
      expect(await harness.keys()).toHaveLength(150);
      expect(await harness.watermarkOf()).toBe("249");
    },
  );

  it("AP6 sends items of a message that is already committed again, because the Store may have been rolled back, until the Store reports a duplicate", async ({
    harness,
  }) => {
    const { store } = harness;
    const body = harness.pack(many(3));
    await harness.apply(body);
    const sizes: number[] = [];
    harness.store = {
      ...store,
      applyPack: (pack, items, options) => {
        sizes.push(items.length);
        return store.applyPack(pack, items, options);
      },
    };
    expect(await harness.apply(body, 3)).toEqual({ kind: "ack" });
    expect(sizes).toEqual([0, 1]); // the second call reports that the message is a duplicate
  });

  it("AP6 applies again the rows that another client wrote after the first call and that a rollback of the Store has lost", async ({
    harness,
  }) => {
    const { store } = harness;
    const [x, y] = [pod(10, { name: "x" }), pod(11, { name: "y" })];
    await harness.apply(harness.pack([item(y, "A")], { sq: 3 }));
    let [isBegun, isLost] = [false, false];
    harness.store = {
      ...store,
      applyPack: (pack, items, options) => {
        isBegun = true;
        return store.applyPack(pack, items, options);
      },
      readIndex: async (request) => {
        const view = await store.readIndex(request);
        if (!isBegun || isLost) return view;
        isLost = true;
        const row = { key: "shop/x", uid: x.uid, rv: "10", gone: false, object: x } as const;
        return { ...view, current: [...(view.current ?? []), { resource: "pods", row }] };
      },
    };
    expect(await harness.apply(harness.pack([item(x, "A"), item(y, "A")], { sq: 2 }), 3)).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual(["shop/x", "shop/y"]);
  });

  it("[informer T25c] each delivery of a message applies more of its items, however slow they are", async ({ harness }) => {
    const { store } = harness;
    const [ITEM_MS, FUNCTION_MS] = [900, 5_000];
    const decided = new Map<string, number>();
    let [spentMs, toldMs] = [0, 0];
    harness.affectedKeys = [
      ...harness.affectedKeys,
      ({ resource, new: now }) => {
        if (resource === "pods" && now !== undefined) decided.set(now.name, (decided.get(now.name) ?? 0) + 1);
        spentMs += ITEM_MS;
        return [];
      },
    ];
    harness.store = {
      ...store,
      applyPack: async (pack, items, options) => {
        await harness.clock.advance(spentMs - toldMs);
        toldMs = spentMs;
        if (spentMs > FUNCTION_MS) throw new Error("the function ended");
        return store.applyPack(pack, items, options);
      },
    };
    const body = harness.pack(many(20));
    let deliveries = 0;
    for (let isDone = false; !isDone; [spentMs, toldMs] = [0, 0]) {
      expect(++deliveries, "deliveries").toBeLessThan(12);
      isDone = await harness.apply(body, deliveries).then(
        ({ kind }) => kind === "ack",
        () => false,
      );
    }
    expect(await harness.keys()).toHaveLength(20);
    expect(await harness.watermarkOf()).toBe("119");
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
    // Four deliveries: two of a message that was too large, one whose function ended before the message was applied, and one that applied
    // it.
    expect(Math.max(...decided.values())).toBeLessThanOrEqual(4);
  });

  it("[informer T25c] reads few large objects at a time, and does not read an applied object again after a redelivery", async ({
    harness,
  }) => {
    const { store } = harness;
    const names = Array.from({ length: 9 }, (_, i) => `p${i}`);
    for (const name of names) {
      const metadata = { namespace: "shop", name, uid: name, resourceVersion: "50", labels: { app: "web" } };
      harness.live.set(`shop/${name}`, { metadata });
    }
    let asked: string[] = [];
    const calls: number[] = [];
    const get = harness.live.get.bind(harness.live);
    harness.live.get = (key) => (asked.push(key), get(key));
    harness.store = {
      ...store,
      applyPack: async (pack, items, options) => {
        calls.push(items.length);
        if (calls.length === 3) throw new Error("the function ended");
        return store.applyPack(pack, items, options);
      },
    };
    const body = harness.pack(names.map((name, i) => ({ t: "M", key: `shop/${name}`, uid: name, rv: String(10 + i), tooBig: true })));
    await expect(harness.apply(body)).rejects.toThrow("the function ended");
    // The first four items are read twice: unchanged ones only after the Store has compared them.
    expect(calls).toEqual([4, 4, 4]);
    asked = [];
    expect(await harness.apply(body, 2)).toEqual({ kind: "ack" });
    expect(asked).toEqual(names.slice(4).map((name) => `shop/${name}`));
    expect(calls.slice(3)).toEqual([0, 4, 4, 1, 1]); // AP6: the first write is between two reads
    expect(await harness.keys()).toEqual(names.map((name) => `shop/${name}`));
    expect(await harness.watermarkOf()).toBe("18");
  });
});

describe("lists", () => {
  it("[informer T37] deletes an object that is missing from the list at the list's version, and enqueues its owner", async ({
    harness,
  }) => {
    const [a, b, c] = ["a", "b", "c"].map((name, i) => pod(10 + i, { name })) as [CachedPod, CachedPod, CachedPod];
    await harness.apply(harness.pack([a, b, c].map((each) => item(each, "A"))));
    await harness.drain("replicaset");
    await harness.openGeneration("pods");
    expect(await harness.apply(harness.manifest([listed(a), listed(b)], "40"))).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual(["shop/a", "shop/b"]);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
    expect(await harness.watermarkOf()).toBe("40");
  });

  it("[informer T38] [informer T39] drops an add that is older than the list, and keeps an add that is newer", async ({ harness }) => {
    const late = harness.pack([item(pod(10, { name: "x" }), "A")], { sq: 3 });
    const young = harness.pack([item(pod(41, { name: "y" }), "A")], { sq: 4 });
    await harness.openGeneration("pods");
    await harness.apply(young);
    expect(await harness.apply(harness.manifest([], "40", { sq: 2 }))).toEqual({ kind: "ack" });
    await harness.apply(late);
    expect(await harness.keys()).toEqual(["shop/y"]);
    expect(await harness.watermarkOf()).toBe("41");
  });

  it("[informer T40] [informer T41] returns a manifest to the queue, and the gate reports a gap, until the missing message arrives", async ({
    harness,
  }) => {
    await harness.openGeneration("pods");
    const payload = harness.list([item(pod(10), "A")], "20", { sq: 2 });
    const manifest = harness.manifest([listed(pod(10))], "20", { sq: 3 });
    expect(await harness.apply(manifest)).toMatchObject({ kind: "retry", afterSeconds: 2 });
    await harness.clock.advance(61_000);
    expect((await harness.health())?.holeForMs).toBe(61_000);
    expect(await harness.apply(payload)).toEqual({ kind: "ack" });
    expect(await harness.apply(manifest)).toEqual({ kind: "ack" });
    expect(await harness.health()).toMatchObject({ syncedGeneration: 2, frozenLanes: [], watermarks: ["20"] });
    expect((await harness.health())?.holeForMs).toBeUndefined();
  });

  it("[informer T05] acknowledges a manifest whose object never arrived, freezes the watermark and requests the object, until the next manifest unfreezes it", async ({
    harness,
  }) => {
    await harness.openGeneration("pods");
    expect(await harness.apply(harness.manifest([listed(pod(10))], "20"))).toEqual({ kind: "ack" });
    await harness.apply(harness.pack([item(pod(25, { name: "b" }), "A")]));
    expect(await harness.health()).toMatchObject({ frozenLanes: [0], needed: [POD], watermarks: ["0"] });
    expect(harness.complaints.some((line) => line.includes("did not reach the cache"))).toBe(true);
    await harness.relist("pods", [pod(10), pod(25, { name: "b" })], "30");
    expect(await harness.health()).toMatchObject({ frozenLanes: [], needed: [], watermarks: ["30"] });
  });

  it("[informer A4] after a restore of etcd the cache returns to the listed state, and the previous and current owners are enqueued", async ({
    harness,
  }) => {
    await harness.apply(harness.pack([item(pod(460, { labels: { lost: "1" } }), "M"), item(pod(461, { name: "never" }), "A")]));
    await harness.drain("replicaset");
    await harness.relist("pods", [pod(449), pod(440, { name: "deleted" })], "1000000405");
    expect(await harness.keys()).toEqual(["shop/deleted", POD]);
    expect(await harness.row(POD)).toMatchObject({ rv: "449", object: { labels: pod(449).labels } });
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
    expect(await harness.health()).toMatchObject({ syncedGeneration: 2, frozenLanes: [], watermarks: ["1000000405"] });
    expect(await harness.health("deployments")).toMatchObject({ state: "SUSPECT" });
  });

  it("[informer A4] a restored object whose owner was never recorded enqueues its current owner", async ({ harness }) => {
    await harness.apply(harness.pack([item(cachedPod({ resourceVersion: "460", labels: {} }), "M")]));
    await harness.drain("replicaset");
    await harness.openGeneration("pods");
    await harness.apply(harness.list([item(pod(449), "A")], "1000000405"));
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
  });

  it("combines the parts of a manifest, and applies the manifest with its last part", async ({ harness }) => {
    const [a, b] = [pod(10, { name: "a" }), pod(11, { name: "b" })];
    await harness.apply(harness.pack([a, b, pod(12, { name: "zombie" })].map((each) => item(each, "A"))));
    await harness.openGeneration("pods");
    expect(await harness.apply(harness.manifest([listed(a)], "40", { part: 1, parts: 2 }))).toEqual({ kind: "ack" });
    expect(await harness.keys()).toHaveLength(3);
    expect(await harness.apply(harness.manifest([listed(b)], "40", { part: 2, parts: 2 }))).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual(["shop/a", "shop/b"]);
  });
});

describe("fences and epochs", () => {
  it("[informer T54] [informer A2] drops messages of an older fence or another epoch, and returns those of a newer fence to the queue", async ({
    harness,
  }) => {
    const before = harness.pack([item(pod(10), "A")], { sq: 2 });
    await harness.openFence("101");
    expect(await harness.apply(before)).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual([]);
    expect(harness.log.lines.at(-1)).toMatchObject({ message: "message dropped", fields: { why: "fence", sequence: 2 } });
    expect(await harness.apply(harness.pack([item(pod(10), "A")], { sq: 1, fence: "102" }))).toMatchObject({
      kind: "retry",
      afterSeconds: 1,
    });
    expect(await harness.apply(signedBody("c1", payloadOf(before).replace('"e":"e1"', '"e":"e0"')))).toEqual({ kind: "ack" });
    expect(harness.log.lines.at(-1)).toMatchObject({ message: "message dropped", fields: { why: "epoch" } });
    expect(await harness.keys()).toEqual([]);
  });
});

describe("items without their object", () => {
  const big = (uid: string) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: "shop",
      name: "web-1",
      uid,
      resourceVersion: "15",
      labels: { app: "web" },
      ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: rs.metadata.uid, controller: true }],
    },
  });

  it("[informer T24] items without their object are read from the API server: the row gets the version read, and the watermark the item's version", async ({
    harness,
  }) => {
    harness.live.set(POD, big("uid-web-1"));
    expect(await harness.apply(harness.pack([{ t: "M", key: POD, uid: "uid-web-1", rv: "12", tooBig: true }]))).toEqual({ kind: "ack" });
    expect(await harness.row(POD)).toMatchObject({ rv: "15", uid: "uid-web-1", owner: asOwner("replicaset", rs), gone: false });
    expect(await harness.watermarkOf()).toBe("12");
    await harness.apply(harness.pack([item(pod(14), "M")]));
    expect(await harness.row(POD)).toMatchObject({ rv: "15" });
  });

  it("[informer T24] items whose object the API server no longer has are flagged as deleted and enqueue their owner; their DELETED event removes them", async ({
    harness,
  }) => {
    await harness.apply(harness.pack([item(pod(10), "A")]));
    await harness.drain("replicaset");
    expect(await harness.apply(harness.pack([{ t: "M", key: POD, uid: "uid-web-1", rv: "12", tooBig: true }]))).toEqual({ kind: "ack" });
    expect(await harness.row(POD)).toMatchObject({ rv: "10", gone: true });
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
    expect(await harness.watermarkOf()).toBe("12");
    await harness.apply(harness.pack([item(pod(13), "D")]));
    expect(await harness.keys()).toEqual([]);
  });

  it("[informer T108] items whose object cannot be cached are quarantined, and their lane continues", async ({ harness }) => {
    harness.live.set(POD, { ...big("uid-web-1"), metadata: { ...big("uid-web-1").metadata, resourceVersion: "soon" } });
    expect(await harness.apply(harness.pack([{ t: "M", key: POD, uid: "uid-web-1", rv: "12", tooBig: true }]))).toEqual({ kind: "ack" });
    expect(await harness.store.quarantined()).toMatchObject([{ what: `pods ${POD}` }]);
    expect(await harness.watermarkOf()).toBe("12");
  });

  it("items without their object have no effect if neither the API server nor the cache has the object", async ({ harness }) => {
    expect(
      await harness.apply(
        harness.pack([{ t: "A", key: POD, uid: "uid-web-1", rv: "12", tooBig: true }, item(pod(13, { name: "b" }), "A")]),
      ),
    ).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual(["shop/b"]);
  });
});

describe("invalid input", () => {
  const neighbours = [item(pod(10, { name: "a" }), "A"), item(pod(12, { name: "b" }), "A")] as const;

  it.each([
    { name: "no uid", bad: { t: "A", key: "shop/bad", rv: "11", o: {} }, what: "pods shop/bad", why: "no uid" },
    { name: "no key", bad: { t: "A", uid: "u", rv: "11", o: {} }, what: "pods without a key", why: "key undefined is not namespace/name" },
    {
      name: "a key with two slashes",
      bad: { t: "A", key: "a/b/c", uid: "u", rv: "11", o: {} },
      what: "pods a/b/c",
      why: 'key "a/b/c" is not namespace/name',
    },
    {
      name: "[informer T87] a version that is not an integer",
      bad: { t: "A", key: "shop/bad", uid: "u", rv: "abc", o: {} },
      what: "pods shop/bad",
      why: 'resourceVersion "abc" is not a decimal integer',
    },
    { name: "an unknown event type", bad: { t: "X", key: "shop/bad", uid: "u", rv: "11", o: {} }, what: "pods shop/bad", why: 'type "X"' },
    { name: "no object", bad: { t: "A", key: "shop/bad", uid: "u", rv: "11" }, what: "pods shop/bad", why: "not an object" },
    {
      name: "an object without uid",
      bad: { t: "A", key: "shop/bad", uid: "u", rv: "11", o: { namespace: "shop", name: "bad", resourceVersion: "11" } },
      what: "pods shop/bad",
      why: "uid",
    },
    {
      name: "an object whose name differs from the item's key",
      bad: item(pod(11, { name: "other" }), "A", { key: "shop/bad" }),
      what: "pods shop/bad",
      why: "its object has another key or uid than the item",
    },
    { name: "the value null", bad: null, what: "pods without a key", why: "not an item" },
  ])("logs and quarantines an item with $name, and applies its neighbours and the sequence", async ({ bad, what, why }) => {
    const harness = await scene();
    expect(await harness.apply(harness.pack([neighbours[0], bad, neighbours[1]]))).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual(["shop/a", "shop/b"]);
    expect(await harness.watermarkOf()).toBe("12");
    const [entry, ...rest] = await harness.store.quarantined();
    expect(rest).toEqual([]);
    expect(entry).toMatchObject({ what, where: "lane 0, sequence 2" });
    expect(entry?.why).toContain(why);
    expect(harness.complaints).toEqual([expect.stringContaining(what)]);
    expect(harness.complaints[0]).toContain("lane 0, sequence 2");
  });

  it("advances sequence and watermark even if the only item of a message is invalid", async ({ harness }) => {
    await harness.apply(harness.pack([{ t: "M", key: "shop/bad", rv: "11", o: {} }]));
    expect(await harness.watermarkOf()).toBe("11");
    await harness.apply(harness.pack([item(pod(12), "A")]));
    expect(await harness.watermarkOf()).toBe("12");
  });

  it("logs the id of a message without an envelope, acknowledges the message, and applies the next one", async ({ harness }) => {
    expect(await harness.apply(signedBody("c1", "{broken"))).toEqual({ kind: "ack" });
    expect(harness.complaints).toEqual([expect.stringMatching(/^quarantined .*"what":"message-\d+".*not JSON/)]);
    expect(await harness.apply(signedBody("c1", { v: 2, c: "c1", r: "secrets" }))).toEqual({ kind: "ack" });
    expect(await harness.store.quarantined()).toMatchObject([
      { what: expect.stringMatching(/^message-/), where: "delta message", why: "not JSON" },
      { what: expect.stringMatching(/^message-/), where: "delta message", why: expect.stringContaining("e is not a string") },
    ]);
    expect(await harness.apply(harness.pack([item(pod(10), "A")]))).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual([POD]);
  });

  it.each([
    { name: "from a cluster that is not configured", forge: (body: string) => body.replace(/^c1/, "c9"), why: "not configured here" },
    {
      name: "whose content was changed after signing",
      forge: (body: string) => body.replace("shop/web-1", "shop/web-2"),
      why: "its MAC is wrong",
    },
    { name: "without a signature", forge: payloadOf, why: "not a signed message" },
    {
      name: "signed with an unknown key",
      forge: (body: string) => signBody(createSigner(["a key that comes too early"], "c1"), "c1", payloadOf(body)),
      why: "signed with a key that this build does not know",
    },
  ])("acknowledges a message $name, logs and stores its id as a forgery, and changes nothing else", async ({ forge, why }) => {
    const harness = await scene();
    const body = harness.pack([item(pod(10), "A")]);
    expect(await harness.apply(forge(body))).toEqual({ kind: "ack" });
    expect(harness.complaints).toEqual([expect.stringMatching(/^forged message .*"messageId":"message-\d+"/)]);
    expect(await harness.store.forgeries()).toMatchObject([
      {
        messageId: expect.stringMatching(/^message-/),
        where: "delta queue",
        why: expect.stringContaining(why),
        bytes: Buffer.byteLength(forge(body)),
      },
    ]);
    expect(await harness.store.quarantined()).toEqual([]);
    expect(await harness.keys()).toEqual([]);
    expect(await harness.apply(body)).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual([POD]);
  });

  it.each([
    { what: "a newer envelope", from: '"v":2', to: '"v":3', why: "envelope version 3, this build reads up to 2" },
    { what: "an unknown view", from: '"r":"pods"', to: '"r":"pods~janitor~k3"', why: "view pods~janitor~k3 is unknown to this build" },
  ])("$what is returned to the queue for a newer applier and logged, and later messages are applied", async ({ from, to, why }) => {
    const harness = await scene();
    const body = harness.pack([item(pod(10), "A")]);
    const newer = signedBody("c1", payloadOf(body).replace(from, to));
    expect(await harness.apply(newer)).toEqual({ kind: "retry", afterSeconds: 5, why });
    expect(harness.complaints).toEqual([expect.stringMatching(/message of another build.*"messageId":"message-\d+"/)]);
    expect(harness.complaints[0]).toContain(why);
    expect(await harness.store.quarantined()).toEqual([]);
    expect(await harness.apply(body)).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual([POD]);
  });
});

it("[informer A16] a message for an epoch with another projection is returned to the queue and logged", async () => {
  const harness = await scene();
  const { applyPack } = harness.store;
  harness.store = { ...harness.store, applyPack: async () => ({ kind: "otherProjection" }) };
  const body = harness.pack([item(pod(10), "A")]);
  expect(await harness.apply(body)).toEqual({ kind: "retry", afterSeconds: 5, why: "the epoch has another projection" });
  expect(harness.complaints).toEqual([expect.stringMatching(/message of another build stays in the queue.*"resource":"pods"/)]);
  harness.store = { ...harness.store, applyPack };
  expect(await harness.apply(body)).toEqual({ kind: "ack" });
  expect(await harness.keys()).toEqual([POD]);
});

it.each([{}, { metadata: {} }, "x", 1, null])("AP1 a deletion whose object is %j removes its row, and the lane continues", async (o) => {
  const harness = await scene();
  const gone = { ...item(rs, "D", { rv: "900" }), o } as EnvelopeItem; // an item of a message
  expect(await harness.apply(harness.pack([gone], { resource: "replicasets" }))).toEqual({ kind: "ack" });
  expect(await harness.watermarkOf("replicasets")).toBe("900");
});

describe("AP1 an affected-keys table that", () => {
  const BAD = "shop/bad";
  const isBad = ({ resource, old, new: now }: Delta): boolean => resource === "pods" && (now ?? old)?.name === "bad";
  const faulty =
    (fault: AffectedKeys): AffectedKeys =>
    (delta, lookups) =>
      isBad(delta) ? fault(delta, lookups) : [];
  const three = (t: "A" | "D"): readonly EnvelopeItem[] =>
    ["a", "bad", "c"].map((name, i) => item(pod((t === "A" ? 10 : 20) + i, { name, uid: name }), t));

  it.each<{ name: string; fault: AffectedKeys }>([
    {
      name: "throws",
      fault: () => {
        throw new TypeError("a programming error");
      },
    },
    { name: "looks up an invalid key", fault: (_, lookups) => (lookups.get("replicasets", "shop/a/b"), []) },
    { name: "returns an invalid key", fault: () => [{ controller: "replicaset", key: "shop/a/b", uid: "u", urgency: "status" }] },
  ])(
    "[informer T88] $name for one item: the applier logs and caches that item, and the other items enqueue their keys",
    async ({ fault }) => {
      const harness = await scene();
      // Comes before all other tables: their results for the item are dropped, too.
      harness.affectedKeys = [faulty(fault), ...harness.affectedKeys];
      for (const [t, rows, watermark] of [
        ["A", ["shop/a", BAD, "shop/c"], "12"],
        ["D", [], "22"],
      ] as const) {
        expect(await harness.apply(harness.pack(three(t)))).toEqual({ kind: "ack" });
        expect(await harness.keys()).toEqual(rows);
        expect(await harness.watermarkOf()).toBe(watermark);
        expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
        await harness.drain("replicaset");
      }
      const said = { what: `pods ${BAD}`, why: expect.stringContaining("failed to compute the affected keys: ") as unknown };
      expect(await harness.store.quarantined()).toEqual([expect.objectContaining(said), expect.objectContaining(said)]);
      expect(harness.complaints).toHaveLength(2);
      expect(await harness.store.tallies()).toContainEqual(
        expect.objectContaining({
          resource: "pods",
          received: 6,
          fates: expect.objectContaining({ applied: 6, quarantined: 0 }) as unknown,
        }),
      );
      await harness.apply(harness.pack([item(pod(30, { name: "bad", uid: "bad" }), "A")]));
      expect(await harness.dirty("replicaset")).toEqual([]);
    },
  );

  it("[informer T88] throws for an object missing from a list: the other missing objects are deleted", async ({ harness }) => {
    await harness.apply(harness.pack(three("A")));
    await harness.drain("replicaset");
    harness.affectedKeys = [
      faulty(() => {
        throw new TypeError("a programming error");
      }),
      ...harness.affectedKeys,
    ];
    await harness.openGeneration("pods");
    expect(await harness.apply(harness.manifest([], "40"))).toEqual({ kind: "ack" });
    expect(await harness.keys()).toEqual([]);
    expect(await harness.dirty("replicaset")).toEqual(["shop/web"]);
    expect(await harness.store.quarantined()).toEqual([expect.objectContaining({ what: `pods ${BAD}` })]);
  });
});

it.each(["x", [null], ["x"]])(
  "AP1 logs invalid owner references (%j), even in objects read from the API server",
  async (ownerReferences) => {
    const harness = await scene();
    // an item of a message
    const whole = { ...rs, metadata: { ...rs.metadata, name: "odd", ownerReferences } } as unknown as CachedReplicaSet;
    expect(await harness.apply(harness.pack([item(whole, "A", { rv: "900" })], { resource: "replicasets" }))).toEqual({ kind: "ack" });
    harness.live.set("shop/odd", whole as unknown as KubeObject);
    expect(await harness.apply(harness.pack([item(whole, "M", { rv: "901", tooBig: true })], { resource: "replicasets" }))).toEqual({
      kind: "ack",
    });
    expect(await harness.keys("replicasets")).toEqual(["shop/web"]);
    expect(await harness.watermarkOf("replicasets")).toBe("901");
    const said = { what: "replicasets shop/odd", why: expect.stringContaining("ownerReferences") as unknown };
    expect(await harness.store.quarantined()).toEqual([expect.objectContaining(said), expect.objectContaining(said)]);
  },
);

it("TY1 counts the items of a redelivered message as duplicates, and sends doorbells for keys that are still due", async ({ harness }) => {
  const body = harness.pack([item(pod(1), "A"), item(pod(2, { name: "b" }), "A")]);
  await harness.apply(body);
  harness.rung.length = 0;
  expect(await harness.apply(body)).toEqual({ kind: "ack" });
  expect(await harness.store.tallies()).toContainEqual(
    expect.objectContaining({ resource: "pods", received: 4, fates: expect.objectContaining({ applied: 2, duplicate: 2 }) }),
  );
  expect(harness.rung.map(({ key }) => key)).toEqual(["shop/web"]);
});
