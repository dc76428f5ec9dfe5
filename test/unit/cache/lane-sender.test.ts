// The lane sender: packs, batches, sequence numbers, retries, heartbeats and manifests.
import { expect, test } from "vitest";
import type { Cached } from "../../../shared/kube/objects/cached.ts";
import { laneOf } from "../../../shared/store/lane.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { decodeEnvelope } from "../../../shared/controllers/cache/messages/decode.ts";
import { LaneSender, type LaneSenderOptions } from "../../../shared/controllers/cache/watcher/lane-sender.ts";
import type { QueueEntry, SendResult } from "../../../shared/store/ports/delta-queue.ts";
import { envelopeOf, testSigner } from "../../support/signer.ts";

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

function setUp(
  send: (entries: readonly QueueEntry[], call: number) => SendResult | Error = () => ({ failed: [] }),
  lanes = 1,
  cluster = "c1",
  own: Partial<Pick<LaneSenderOptions, "resource" | "batchingWindowMs" | "knowsOwn" | "restsWhenApplied">> = {},
) {
  const clock = createVirtualClock(0);
  const batches: (readonly QueueEntry[])[] = [];
  const queue = {
    send: (entries: readonly QueueEntry[]): Promise<SendResult> => {
      batches.push(entries);
      const answer = send(entries, batches.length);
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
  };
  const ends = new AbortController();
  const options = { cluster, resource: "pods", lanes, epoch: "e1", fence: "7", ...own } as const;
  const sender = new LaneSender(
    { queue, clock, random: { next: () => 0 }, signer: testSigner(cluster), log: silent },
    options,
    ends.signal,
  );
  return { clock, batches, sender, ends, sent: () => batches.flat().map(({ body }) => envelopeOf(body)) };
}

function item(
  name: string,
  rv: number,
  extra: { readonly type?: "A" | "M" | "D"; readonly uid?: string; readonly bytes?: number; readonly pad?: string } = {},
) {
  const uid = extra.uid ?? `uid-${name}`;
  const object = {
    namespace: "shop",
    name,
    uid,
    resourceVersion: String(rv),
    labels: { pad: extra.pad ?? "x".repeat(extra.bytes ?? 1) },
  } as Cached;
  return { type: extra.type ?? "M", key: `shop/${name}`, uid, rv: String(rv), object } as const;
}

/** Random text of three-byte characters: deflate and base64 expand each to more than three bytes. */
function random3(length: number): string {
  const random = createSeededRandom(3);
  return Array.from({ length }, () => String.fromCharCode(0x3400 + Math.floor(random.next() * 0x6000))).join("");
}

/** Names of the maximum length that the API server accepts, which cannot be compressed. */
function randomNames(count: number): readonly string[] {
  const text = incompressible(count * 253);
  return Array.from({ length: count }, (_, i) => text.slice(i * 253, (i + 1) * 253));
}

const largest = (batches: readonly (readonly QueueEntry[])[]): number =>
  Math.max(...batches.flat().map(({ body }) => Buffer.byteLength(body)));
const MIB = 1024 * 1024;

/** Text whose length deflate and base64 hardly change. */
function incompressible(length: number): string {
  const random = createSeededRandom(1);
  return Array.from({ length }, () => Math.floor(random.next() * 36).toString(36)).join("");
}

test("sends concurrent items in one message, in order, and a single item after 1 ms", async () => {
  const { clock, sender, sent } = setUp();
  sender.live(item("a", 1));
  sender.live(item("b", 2));
  expect(sent()).toEqual([]);
  await clock.advance(1);
  expect(sent()).toMatchObject([{ k: "D", sq: 1, ln: 0, e: "e1", f: "7", items: [{ key: "shop/a" }, { key: "shop/b" }] }]);
  sender.live(item("c", 3));
  await clock.advance(1);
  sender.live(item("d", 4));
  await clock.advance(1);
  expect(sent().slice(1)).toMatchObject([
    { sq: 2, items: [{ key: "shop/c" }] },
    { sq: 3, items: [{ key: "shop/d" }] },
  ]);
});

test("after a pause, sends the items of one read in one message at its end, without a timer", async () => {
  const { clock, sender, sent } = setUp(undefined, 1, "c1", { resource: "deployments" });
  sender.live(item("a", 1));
  sender.live(item("b", 2));
  sender.readDone();
  await clock.advance(0);
  expect(sent()).toMatchObject([{ items: [{ key: "shop/a" }, { key: "shop/b" }] }]);
  await clock.advance(99);
  sender.live(item("c", 3));
  sender.readDone();
  await clock.advance(0);
  expect(sent()).toHaveLength(1);
  await clock.advance(1);
  expect(sent()).toHaveLength(2);
  await clock.advance(100);
  sender.live(item("d", 4));
  sender.readDone();
  await clock.advance(0);
  expect(sent()).toHaveLength(3);
});

test("pods wait for others that change at the same time, by separate writes", async () => {
  const { clock, sender, sent } = setUp();
  sender.live(item("a", 1));
  sender.readDone();
  sender.live(item("b", 2));
  sender.readDone();
  await clock.advance(5);
  expect(sent()).toMatchObject([{ items: [{ key: "shop/a" }, { key: "shop/b" }] }]);
});

test("keeps a requested window at the end of a read", async () => {
  const { clock, sender, sent } = setUp(undefined, 1, "c1", { resource: "deployments", batchingWindowMs: 50 });
  sender.live(item("a", 1));
  sender.readDone();
  await clock.advance(40);
  expect(sent()).toEqual([]);
  await clock.advance(20);
  expect(sent()).toHaveLength(1);
});

test("combines the items of a burst into fewer messages, and delays each item by at most 100 ms", async () => {
  const { clock, sender, sent } = setUp(undefined, 16);
  const putMs = new Map<string, number>();
  const waits: number[] = [];
  let seen = 0;
  const look = (): void => {
    const all = sent();
    for (const envelope of all.slice(seen))
      if ("items" in envelope) for (const { rv } of envelope.items) waits.push(clock.now() - (putMs.get(rv) ?? Number.NaN));
    seen = all.length;
  };
  for (let ms = 0; ms < 820; ms++) {
    const i = ms / 2 + 1;
    if (Number.isInteger(i) && i <= 400) {
      putMs.set(String(i), clock.now());
      sender.live(item(`p${i}`, i));
    }
    await clock.advance(1);
    look();
  }
  expect(waits).toHaveLength(400);
  expect(Math.max(...waits)).toBeLessThanOrEqual(100);
  expect(sent().length).toBeLessThanOrEqual(29 + 185); // until a burst is recognized, each event is sent alone
});

test("keeps events in the batching window for the configured time", async () => {
  const { clock, sender, sent } = setUp(undefined, 1, "c1", { batchingWindowMs: 5_000 });
  for (let i = 1; i <= 50; i++) {
    sender.live(item(`p${i}`, i));
    await clock.advance(99);
  }
  expect(sent()).toEqual([]);
  await clock.advance(50);
  expect(sent()).toMatchObject([{ k: "D", items: { length: 50 } }]);
});

test("[informer T96] delays this controller's own writes by 0.2 to 0.4 s, and sends only the last state of an object", async () => {
  const { clock, sender, sent } = setUp(undefined, 2);
  await clock.advance(100); // gives the next event its own message
  const own = (name: string, rv: number): void => sender.live({ ...item(name, rv), isOwn: true });
  own("a", 1);
  await clock.advance(100);
  own("a", 2);
  own("b", 3);
  await clock.advance(199);
  expect(sent()).toEqual([]);
  await clock.advance(1);
  expect(sent().flatMap((envelope) => ("items" in envelope ? envelope.items.map(({ key, rv }) => `${key} ${rv}`) : []))).toEqual([
    "shop/a 2",
    "shop/b 3",
  ]);
  own("a", 4);
  await clock.advance(199);
  expect(sent()).toHaveLength(laneOf("shop/a", 2) === laneOf("shop/b", 2) ? 1 : 2);
});

test("[informer T96] sends this controller's own write with the next watermark or event of another client in its lane, without delay", async () => {
  const { clock, sender, sent } = setUp(undefined, 1);
  sender.live({ ...item("a", 1), isOwn: true });
  await clock.advance(10);
  sender.live(item("b", 2));
  sender.live({ ...item("c", 3), isOwn: true });
  await clock.advance(1);
  expect(sent()).toMatchObject([{ items: [{ rv: "1" }, { rv: "2" }, { rv: "3" }] }]);
  sender.live({ ...item("a", 4), isOwn: true });
  sender.live(item("a", 5));
  await clock.advance(1);
  expect(sent()[1]).toMatchObject({ items: [{ key: "shop/a", rv: "5" }] });
  sender.live({ ...item("a", 6), isOwn: true });
  sender.watermark("6");
  await clock.advance(0);
  expect(sent().slice(2)).toMatchObject([
    { k: "D", items: [{ rv: "6" }] },
    { k: "W", rv: "6" },
  ]);
});

test("sends this controller's own writes immediately when there is no write-through", async () => {
  const { clock, sender, sent } = setUp(undefined, 1, "c1", { batchingWindowMs: 0, knowsOwn: false });
  sender.live({ ...item("a", 1), isOwn: true });
  await clock.advance(0);
  expect(sent()).toMatchObject([{ items: [{ rv: "1" }] }]);
});

test("[informer T96] items of one lane do not flush delayed own writes of another lane", async () => {
  const { clock, sender, sent } = setUp(undefined, 2);
  const [first = "", second = ""] = [0, 1].map((lane) => ["a", "b", "c", "d", "e"].find((name) => laneOf(`shop/${name}`, 2) === lane));
  sender.live({ ...item(first, 1), isOwn: true });
  sender.live(item(second, 2));
  await clock.advance(1);
  expect(sent()).toMatchObject([{ items: [{ rv: "2" }] }]);
  await clock.advance(299);
  expect(sent()).toMatchObject([{ items: [{ rv: "2" }] }, { items: [{ rv: "1" }] }]);
});

test("sends messages of listed objects when they are full or with the manifest; a watch event does not flush them", async () => {
  const { clock, sender, sent } = setUp(undefined, 2);
  const keys = Array.from({ length: 250 }, (_, i) => `p${i}`).filter((name) => laneOf(`shop/${name}`, 2) === 0);
  for (const [i, name] of keys.slice(0, 110).entries()) {
    sender.listed(item(name, i + 1), "500", 1);
    await clock.advance(20);
  }
  const other = Array.from({ length: 250 }, (_, i) => `p${i}`).find((name) => laneOf(`shop/${name}`, 2) === 1) ?? "";
  sender.live(item(other, 501));
  await clock.advance(1_000);
  const sizes = (): readonly string[] => sent().map((envelope) => `${envelope.k}${"items" in envelope ? envelope.items.length : ""}`);
  expect(sizes()).toEqual(["L100", "D1"]);
  sender.manifest("500", [], 1);
  await clock.runUntilIdle();
  expect(sizes()).toEqual(["L100", "D1", "L10", "M", "M"]);
});

test("sends single events that arrive with pauses after 5 ms", async () => {
  const { clock, sender, sent } = setUp(undefined, 16);
  for (let event = 1; event <= 5; event++) {
    sender.live(item(`p${event}`, event));
    await clock.advance(5);
    expect(sent()).toHaveLength(event);
    await clock.advance(40);
  }
});

test("[informer T25] keeps messages and batches within SQS's limits, in order", async () => {
  const { clock, sender, batches, sent } = setUp();
  const bytesOf = (entries: readonly QueueEntry[]): number => entries.reduce((bytes, { body }) => bytes + Buffer.byteLength(body), 0);
  const pad = incompressible(150 * 1024);
  for (let i = 0; i < 10; i++) sender.live(item(`p${i}`, i + 1, { pad }));
  for (let i = 0; i < 25; i++) sender.watermark("10");
  await clock.runUntilIdle();
  for (const batch of batches) {
    expect(batch.length).toBeLessThanOrEqual(10);
    expect(bytesOf(batch)).toBeLessThanOrEqual(1024 * 1024);
  }
  expect(bytesOf(batches.flat())).toBeGreaterThan(1024 * 1024);
  expect(sent().flatMap((envelope) => ("items" in envelope ? envelope.items.map(({ rv }) => rv) : []))).toEqual(
    Array.from({ length: 10 }, (_, i) => String(i + 1)),
  );
  expect(sent().map(({ sq }) => sq)).toEqual(sent().map((_, index) => index + 1));
});

test("[informer T26] resends the failed entries 2 and 5 of 10 under the same ids, before anything later", async () => {
  const { clock, sender, batches } = setUp((entries, call) => ({
    failed: call === 1 ? entries.filter((_, i) => i === 1 || i === 4).map(({ id }) => ({ id, reason: "throttled", permanent: false })) : [],
  }));
  for (let rv = 1; rv <= 11; rv++) sender.watermark(String(rv));
  await clock.runUntilIdle();
  const id = (sequence: number): string => `c1.pods.0-e1-7-${sequence}`;
  expect(batches.map((batch) => batch.map((entry) => entry.id))).toEqual([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(id), [2, 5, 11].map(id)]);
});

test("sends messages of several lanes in one call, and a failed lane does not block another", async () => {
  const { clock, sender, batches } = setUp(
    (entries, call) => ({ failed: call === 1 ? entries.slice(0, 1).map(({ id }) => ({ id, reason: "throttled", permanent: false })) : [] }),
    4,
  );
  sender.watermark("5");
  await clock.advance(0);
  expect(batches.map((batch) => batch.map(({ group }) => group))).toEqual([["c1.pods.0", "c1.pods.1", "c1.pods.2", "c1.pods.3"]]);
  sender.watermark("6");
  await clock.advance(0);
  expect(batches[1]?.map(({ id }) => id)).toEqual(["c1.pods.1-e1-7-2", "c1.pods.2-e1-7-2", "c1.pods.3-e1-7-2"]);
  await clock.runUntilIdle();
  expect(batches[2]?.map(({ id }) => id)).toEqual(["c1.pods.0-e1-7-1", "c1.pods.0-e1-7-2"]);
});

test("[informer T28] repeats an unanswered send with the same id and body", async () => {
  const { clock, sender, batches } = setUp((_, call) => (call < 3 ? new Error("time-out") : { failed: [] }));
  sender.live(item("a", 1));
  await clock.runUntilIdle();
  expect(batches).toHaveLength(3);
  expect(batches[2]).toEqual(batches[0]);
});

test("[informer T27] uses another deduplication id when it sends the same object and version again", async () => {
  const { clock, sender, batches } = setUp();
  sender.listed(item("a", 1), "20", 1);
  await clock.runUntilIdle();
  sender.listed(item("a", 1), "20", 2);
  sender.manifest("20", [], 2);
  await clock.runUntilIdle();
  const ids = batches.flat().map(({ id }) => id);
  expect(new Set(ids).size).toBe(3); // and the id of the manifest
});

test("sends listed objects in separate messages with their list's version, and watch events without a list version", async () => {
  const { clock, sender, sent } = setUp();
  sender.listed(item("a", 1), "20", 1);
  sender.listed(item("b", 1), "1000000405", 2);
  sender.live(item("c", 30));
  await clock.runUntilIdle();
  expect(sent().map((envelope) => ("L" in envelope ? envelope.L : undefined))).toEqual(["20", "1000000405", undefined]);
});

test("[informer T59] composes message group and deduplication id from resource and lane, so that the longest key fits", async () => {
  const { clock, sender, batches } = setUp();
  sender.live({ ...item("n".repeat(253), 1), key: `${"s".repeat(63)}/${"n".repeat(253)}` });
  await clock.runUntilIdle();
  expect(batches.flat()).toMatchObject([{ group: "c1.pods.0", id: "c1.pods.0-e1-7-1" }]);
});

test("[informer T83] uses different groups and ids for the same objects in two clusters", async () => {
  const namesOf = async (cluster: string): Promise<readonly string[]> => {
    const { clock, sender, batches } = setUp(undefined, 2, cluster);
    sender.live(item("a", 1));
    sender.watermark("1");
    await clock.runUntilIdle();
    return batches.flat().flatMap(({ group, id }) => [group, id]);
  };
  const [one, two] = [await namesOf("c1"), await namesOf("c2")];
  expect(one).toHaveLength(6);
  expect(two.filter((name) => one.includes(name))).toEqual([]);
});

test("a newer state of an object replaces the older one in the unsent message", async () => {
  expect(await packed(["A", 1], ["M", 2])).toEqual([["M2"]]);
  expect(await packed(["M", 1], ["M", 2])).toEqual([["M2"]]);
});

test("a delete replaces the last state of an object that existed before the unsent message", async () => {
  expect(await packed(["M", 1], ["M", 2], ["D", 3])).toEqual([["D3"]]);
});

test("an object that was created and deleted at once travels as both, and nothing replaces a delete", async () => {
  expect(await packed(["A", 1], ["M", 2], ["D", 3], ["A", 4, "other"])).toEqual([["M2"], ["D3"], ["A4"]]);
  expect(await packed(["M", 1], ["D", 2], ["M", 1])).toEqual([["D2"], ["M1"]]);
  expect(await packed(["M", 1], ["D", 2], ["A", 3, "other"])).toEqual([["D2"], ["A3"]]);
});

/** The messages of these events of one object: each item as its type and version. */
async function packed(...events: readonly (readonly ["A" | "M" | "D", number, string?])[]): Promise<readonly (readonly string[])[]> {
  const { clock, sender, sent } = setUp();
  for (const [type, rv, uid] of events) sender.live(item("a", rv, { type, ...(uid !== undefined && { uid }) }));
  await clock.runUntilIdle();
  return sent().map((envelope) => ("items" in envelope ? envelope.items.map(({ t, rv }) => t + rv) : []));
}

test("[informer T14] sends the watermark of a bookmark to every lane, after earlier items", async () => {
  const { clock, sender, sent } = setUp(undefined, 2);
  sender.live(item("a", 9));
  sender.watermark("50");
  await clock.runUntilIdle();
  const lane = laneOf("shop/a", 2);
  expect(sent().filter(({ ln }) => ln === lane)).toMatchObject([
    { k: "D", sq: 1 },
    { k: "W", sq: 2, rv: "50" },
  ]);
  expect(sent().filter(({ ln }) => ln !== lane)).toMatchObject([{ k: "W", sq: 1, rv: "50" }]);
});

test("sends a heartbeat to a silent lane after 15 s", async () => {
  const { clock, sender, sent } = setUp();
  await clock.advance(14_999);
  sender.heartbeat();
  expect(sent()).toEqual([]);
  await clock.advance(1);
  sender.heartbeat();
  await clock.runUntilIdle();
  expect(sent()).toMatchObject([{ k: "W", rv: "0" }]);
});

test("LS9 a cluster among others has no room while 500 of its messages are not applied", async () => {
  const { clock, sender, ends } = setUp(undefined, 1, "c1", { restsWhenApplied: true, batchingWindowMs: 0 });
  const alone = setUp(undefined, 1, "c1", { batchingWindowMs: 0 });
  for (let rv = 1; rv <= 500; rv++)
    for (const each of [{ clock, sender }, alone]) {
      each.sender.live(item(`pod-${rv}`, rv));
      await each.clock.runUntilIdle();
    }
  let waited = false;
  const room = sender.room(ends.signal).then(() => (waited = true));
  await clock.advance(60_000);
  expect(waited).toBe(false);
  await alone.sender.room(alone.ends.signal);
  sender.confirm([1]);
  await room;
});

test("LS8 a lane whose messages are confirmed sends no heartbeat or watermark, and is reported as quiet", async () => {
  const { clock, sender, sent } = setUp(undefined, 2, "c1", { restsWhenApplied: true });
  expect(sender.quietLanes()).toEqual([
    { resource: "pods", lane: 0, sequence: 0, rv: "0" },
    { resource: "pods", lane: 1, sequence: 0, rv: "0" },
  ]);
  const lane = laneOf("shop/a", 2);
  sender.live(item("a", 5));
  expect(sender.quietLanes().map((each) => each.lane)).toEqual([1 - lane]);
  expect(sender.quietSinceMs).toBeUndefined();
  await clock.runUntilIdle();
  expect(
    sender.quietLanes().map((each) => each.lane),
    "sent but not confirmed",
  ).toEqual([1 - lane]);
  sender.watermark("9");
  await clock.advance(15_000);
  sender.heartbeat();
  await clock.runUntilIdle();
  expect(sent().map(({ k, ln }) => [k, ln])).toEqual([
    ["D", lane],
    ["W", lane],
    ["W", lane],
  ]);
  sender.confirm(lane === 0 ? [2, 0] : [0, 2]);
  expect(sender.quietLanes().map((each) => each.lane)).toEqual([1 - lane]);
  sender.confirm(lane === 0 ? [3, 0] : [0, 3]);
  expect(sender.quietLanes()).toContainEqual({ resource: "pods", lane, sequence: 3, rv: "9" });
  expect(sender.quietSinceMs).toBe(15_001);
  sender.watermark("12");
  await clock.advance(15_000);
  sender.heartbeat();
  await clock.runUntilIdle();
  expect(sent()).toHaveLength(3);
  expect(sender.quietLanes().map(({ rv }) => rv)).toEqual(["12", "12"]);
});

test("sends a manifest to every lane after all messages of listed objects, with its number of parts", async () => {
  const { clock, sender, sent } = setUp();
  sender.listed(item("a", 1), "20", 3);
  sender.manifest(
    "20",
    Array.from({ length: 6001 }, (_, i) => ({ key: `shop/p${i}`, uid: `u${i}`, rv: "1" })),
    3,
  );
  await clock.runUntilIdle();
  expect(sent()).toMatchObject([
    { k: "L", g: 3, sq: 1, L: "20" },
    { k: "M", g: 3, sq: 2, L: "20", part: 1, parts: 2 },
    { k: "M", g: 3, sq: 3, L: "20", part: 2, parts: 2 },
  ]);
});

test("[informer T24] sends an object above 900 KiB by name only", async () => {
  const { clock, sender, sent } = setUp();
  sender.live(item("huge", 1, { bytes: 901 * 1024 }));
  await clock.runUntilIdle();
  expect(sent()).toMatchObject([{ items: [{ key: "shop/huge", tooBig: true }] }]);
  expect(sent()[0]).not.toHaveProperty("items.0.o");
});

test("[informer T108] sends a smaller object whose message would exceed 1 MiB by name only, in its own message", async () => {
  const { clock, sender, batches, sent } = setUp();
  sender.live(item("a", 1));
  sender.live(item("huge", 2, { pad: random3(515_000) }));
  sender.live(item("b", 3));
  await clock.runUntilIdle();
  expect(largest(batches)).toBeLessThan(MIB);
  expect(sent()).toMatchObject([
    { sq: 1, items: [{ key: "shop/a", o: {} }] },
    { sq: 2, items: [{ key: "shop/huge", uid: "uid-huge", rv: "2", tooBig: true }] },
    { sq: 3, items: [{ key: "shop/b", o: {} }] },
  ]);
  expect(sent()[1]).not.toHaveProperty("items.0.o");
});

test("[informer T108] sends objects completely if they fit: one of 900 KiB, and a full message of the characters that expand most", async () => {
  const { clock, sender, batches, sent } = setUp();
  sender.live(item("long", 1, { pad: incompressible(880 * 1024) }));
  for (let i = 0; i < 4; i++) sender.live(item(`p${i}`, i + 2, { pad: random3(50 * 1024) }));
  for (let i = 0; i < 4; i++) sender.live(item(`q${i}`, i + 6, { pad: "\ud83d\ude42".repeat(5 * 1024) }));
  await clock.runUntilIdle();
  expect(largest(batches)).toBeLessThanOrEqual(1000 * 1024);
  expect(sent().map((envelope) => ("items" in envelope ? envelope.items.map(({ rv, o }) => [rv, o !== undefined]) : []))).toEqual([
    [["1", true]],
    [
      ["2", true],
      ["3", true],
      ["4", true],
    ], // the fourth item would exceed 200 Ki characters
    [
      ["5", true],
      ["6", true],
      ["7", true],
      ["8", true],
      ["9", true],
    ],
  ]);
});

test("[informer T108] sends each object that a function must read live in its own message, so that no function reads a hundred at once", async () => {
  const { clock, sender, sent } = setUp();
  for (let i = 1; i <= 3; i++) sender.live(item(`p${i}`, i, { bytes: 901 * 1024 }));
  await clock.runUntilIdle();
  expect(sent()).toMatchObject([1, 2, 3].map((i) => ({ items: [{ key: `shop/p${i}`, tooBig: true }] })));
});

test("[informer T106] splits a manifest of the longest names into parts that fit; together they have all rows", async () => {
  const { clock, sender, batches, sent } = setUp();
  const rows = randomNames(6_000).map((name, i) => ({ key: `mallory/${name}`, uid: `uid-${i}`, rv: String(i + 1) }));
  sender.manifest("9000", rows, 1);
  await clock.runUntilIdle();
  expect(largest(batches)).toBeLessThanOrEqual(1000 * 1024);
  const parts = sent().flatMap((envelope) => (envelope.k === "M" ? [envelope] : []));
  expect(parts.map(({ part, parts: of }) => [part, of])).toEqual([
    [1, 3],
    [2, 3],
    [3, 3],
  ]);
  expect(parts.flatMap((part) => part.rows)).toEqual(rows);
});

test("[informer T107] resends a permanently rejected message without its objects, under the same sequence number, and the lane continues", async () => {
  const refused: string[] = [];
  const { clock, sender, batches, sent } = setUp((entries) => ({
    failed: entries
      .filter(({ body }) => body.includes("unspeakable"))
      .map(({ id, body }) => (refused.push(body), { id, reason: "InvalidMessageContents", permanent: true })),
  }));
  sender.live(item("a", 1, { pad: "unspeakable" }));
  sender.live(item("b", 2, { type: "D" }));
  sender.watermark("2");
  sender.listed(item("c", 3), "20", 1);
  sender.manifest("20", [], 1);
  await clock.advance(60_000);
  expect(refused).toHaveLength(1);
  expect(batches.flat().map(({ id }) => id)).toEqual([1, 2, 3, 4, 1].map((sequence) => `c1.pods.0-e1-7-${sequence}`));
  expect(sent().at(-1)).toMatchObject({
    sq: 1,
    k: "D",
    items: [
      { t: "M", key: "shop/a", uid: "uid-a", rv: "1", tooBig: true },
      { t: "D", key: "shop/b", uid: "uid-b", rv: "2", tooBig: true },
    ],
  });
  expect(JSON.stringify(sent().at(-1))).not.toContain('"o":');
  expect([sender.idle, sender.sentRV]).toEqual([true, "20"]);
});

test("[informer T107] retries a message without objects, whatever the queue returns, and drops nothing", async () => {
  const { clock, sender, batches } = setUp((entries, call) => ({
    failed: call <= 3 ? entries.map(({ id }) => ({ id, reason: "KmsAccessDenied", permanent: true })) : [],
  }));
  sender.watermark("5");
  await clock.runUntilIdle();
  expect(batches).toHaveLength(4);
  expect(batches[3]).toEqual(batches[0]);
  expect(sender.sentRV).toBe("5");
});

test("a full buffer blocks the reader until the buffer drains", async () => {
  let open = false;
  const { clock, sender, ends } = setUp(() => (open ? { failed: [] } : new Error("unavailable")));
  for (let i = 0; i < 10_001; i++) sender.live(item(`p${i}`, i + 1));
  let waited = false;
  const room = sender.room(ends.signal).then(() => (waited = true));
  await clock.advance(5000);
  expect(waited).toBe(false);
  open = true;
  await clock.advance(60_000);
  await room;
  expect(sender.sentRV).toBe("10001");
});

test("sends nothing after the end of the stream", async () => {
  const { clock, sender, ends, batches } = setUp();
  sender.live(item("a", 1));
  ends.abort(new Error("fenced"));
  await clock.advance(1000);
  expect(batches).toEqual([]);
});

test("signs a body for its cluster, so that no other cluster accepts it", async () => {
  const { clock, batches, sender } = setUp();
  sender.watermark("5");
  await clock.runUntilIdle();
  const body = batches[0]?.[0]?.body ?? "";
  expect(decodeEnvelope(body, testSigner)).toMatchObject({ kind: "envelope", envelope: { v: 2, c: "c1", rv: "5" } });
  expect(decodeEnvelope(body, () => testSigner("c2"))).toMatchObject({ kind: "forged" });
  expect(decodeEnvelope(body.replace(/^c1/, "c2"), testSigner)).toMatchObject({ kind: "forged" });
});

test("[informer T25] keeps a message within its size limit when newer states replace older ones", async () => {
  const { clock, sender, batches } = setUp();
  for (let i = 0; i < 20; i++) sender.live(item(`p${i}`, i + 1));
  for (let i = 0; i < 20; i++) sender.live(item(`p${i}`, i + 101, { bytes: 150 * 1024 }));
  await clock.runUntilIdle();
  const packs = batches.flat().map(({ body }) => envelopeOf(body));
  for (const pack of packs) expect(JSON.stringify(pack).length).toBeLessThan(201 * 1024);
  expect(packs.flatMap((pack) => ("items" in pack ? pack.items.map(({ rv }) => Number(rv)) : [])).at(-1)).toBe(120);
});
