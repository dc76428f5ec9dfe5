/** The memory and system adapters of the small interfaces: their suites, and additional features of the memory adapters. */
import { describe, expect, it } from "vitest";

import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createMemoryDeltaQueue, type DeltaQueueFaults, type MemoryDeltaQueue } from "../../shared/store/memory/queue/delta-queue.ts";
import { createMemoryDoorbells } from "../../shared/store/memory/queue/doorbells.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { clockConformance } from "./clock.ts";
import { deltaQueueConformance } from "./delta-queue.ts";
import { doorbellsConformance } from "./doorbells.ts";
import { randomConformance } from "./random.ts";

/** 2026-03-01T10:00:00Z. */
const START_MS = 1_772_359_200_000;

for (const withoutIo of [false, true])
  clockConformance(`virtual time${withoutIo ? " without I/O" : ""}`, () => {
    const clock = createVirtualClock(START_MS, { withoutIo });
    return { clock, elapse: (ms) => clock.advance(ms) };
  });

clockConformance("system time", () => {
  const clock = createSystemClock();
  return { clock, elapse: (ms) => clock.after(ms) };
});

randomConformance("a seed", () => createSeededRandom(7));
randomConformance("the system", createSystemRandom);

deltaQueueConformance("memory", async () => {
  const clock = createVirtualClock(START_MS);
  const queue = createMemoryDeltaQueue({ clock, random: createSeededRandom(1), maxReceiveCount: 5 });
  return {
    queue,
    source: queue,
    maxReceiveCount: 5,
    deadLetters: async () => queue.deadLetters().map((message) => message.body),
    elapse: (ms) => clock.advance(ms),
    close: async () => {},
  };
});

for (const late of ["rung", "left"] as const)
  doorbellsConformance(`memory, late ones ${late}`, late, async () => {
    const clock = createVirtualClock(START_MS);
    const options = { clock, random: createSeededRandom(1), cluster: "5d3f", leavesLate: late === "left" };
    const doorbells = createMemoryDoorbells(options);
    return {
      doorbells,
      sources: doorbells.sources,
      cluster: "5d3f",
      elapse: (ms) => clock.advance(ms),
      size: async () => doorbells.size("replicaset"),
      close: async () => {},
    };
  });

describe("virtual clock", () => {
  it("fires timers in the order of their time, and timers of the same time in the order of creation", async () => {
    const clock = createVirtualClock(START_MS);
    const seen: string[] = [];
    for (const [name, ms] of [
      ["c", 30],
      ["a", 10],
      ["b1", 20],
      ["b2", 20],
    ] as const)
      void clock.after(ms).then(() => seen.push(`${name}@${clock.now() - START_MS}`));
    await clock.advance(25);
    expect(seen).toEqual(["a@10", "b1@20", "b2@20"]);
    expect([clock.now() - START_MS, clock.nextDueMs()]).toEqual([25, START_MS + 30]);
    expect((await clock.runUntilIdle()) - START_MS).toBe(30);
    expect([seen.at(-1), clock.nextDueMs()]).toEqual(["c@30", undefined]);
  });

  it("without I/O, runs all promise callbacks that a timer causes before the next timer, and lets the event loop run", async () => {
    const clock = createVirtualClock(START_MS, { withoutIo: true });
    const seen: string[] = [];
    let isOpen = false;
    setImmediate(() => (isOpen = true));
    void clock.after(10).then(async () => {
      for (let i = 0; i < 1_000; i++) await Promise.resolve();
      seen.push("first");
    });
    void clock.after(11).then(() => seen.push("second"));
    for (let ms = 12; ms < 100; ms++) void clock.after(ms).then(() => isOpen && seen.push("loop"));
    await clock.advance(100);
    expect(seen.slice(0, 3)).toEqual(["first", "second", "loop"]);
  });

  it("lets a timer set further timers, and fires them in the same run", async () => {
    const clock = createVirtualClock(START_MS);
    const beats: number[] = [];
    const beating = async (): Promise<void> => {
      for (let beat = 0; beat < 5; beat++) {
        await clock.after(10);
        await Promise.resolve();
        beats.push(clock.now() - START_MS);
      }
    };
    const done = beating();
    await clock.advance(35);
    expect(beats).toEqual([10, 20, 30]);
    await clock.runUntilIdle();
    await done;
    expect(beats).toEqual([10, 20, 30, 40, 50]);
  });

  it("CL3 leaves no timer after an aborted wait", async () => {
    const clock = createVirtualClock(START_MS);
    const abort = new AbortController();
    const wait = clock.after(10, abort.signal).catch(() => undefined);
    abort.abort(new Error("x"));
    await wait;
    expect(clock.nextDueMs()).toBeUndefined();
  });

  it("runUntilIdle throws when timers endlessly set further timers", async () => {
    const clock = createVirtualClock(START_MS);
    const abort = new AbortController();
    const restless = (async () => {
      while (!abort.signal.aborted) await clock.after(1);
    })();
    await expect(clock.runUntilIdle(50)).rejects.toThrow("50 timers");
    abort.abort();
    await clock.advance(1);
    await restless;
  });
});

describe("system clock", () => {
  it("CL1 advances at half speed after the machine's clock was set back, until the two clocks agree", () => {
    const times = [
      { wallMs: 5_000, monotonicMs: 0, want: 5_000 },
      { wallMs: 4_000, monotonicMs: 0, want: 5_000 },
      { wallMs: 4_100, monotonicMs: 100, want: 5_050 },
      { wallMs: 5_000.7, monotonicMs: 1_000.7, want: 5_500 },
      { wallMs: 5_999, monotonicMs: 1_999, want: 5_999 },
      { wallMs: 6_100.9, monotonicMs: 2_100.9, want: 6_100 },
      { wallMs: 9_000, monotonicMs: 2_101, want: 9_000 },
    ];
    let now = times[0];
    const clock = createSystemClock(
      () => now?.wallMs ?? 0,
      () => now?.monotonicMs ?? 0,
    );
    for (const at of times) {
      now = at;
      expect(clock.now()).toBe(at.want);
    }
  });

  it("does not prolong a wait when the clock is set back", async () => {
    let wallMs = 10_000_000;
    const clock = createSystemClock(() => wallMs);
    const wait = clock.after(5);
    wallMs -= 3_600_000;
    await expect(wait).resolves.toBeUndefined();
  });
});

describe("seeded randomness", () => {
  it("RN2 returns the same sequence for the same seed, and a different one for another seed", () => {
    const draw = (seed: number) => {
      const random = createSeededRandom(seed);
      return Array.from({ length: 5 }, () => random.next());
    };
    expect(draw(42)).toEqual(draw(42));
    expect(draw(42)).not.toEqual(draw(43));
    expect(draw(42)).toEqual([0.6011037519201636, 0.44829055899754167, 0.8524657934904099, 0.6697340414393693, 0.17481389874592423]);
  });
});

describe("the memory delta queue with injected faults", () => {
  const NOW = { max: 10, waitMs: 0 } as const;
  const open = (faults: DeltaQueueFaults, seed = 3) => {
    const clock = createVirtualClock(START_MS);
    return { clock, queue: createMemoryDeltaQueue({ clock, random: createSeededRandom(seed), faults: () => faults }) };
  };
  const entries = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ group: "c.pods.0", id: `c.pods.0-e-1-${index}`, body: `${index}` }));
  const sendAll = async (queue: MemoryDeltaQueue, count: number) => {
    for (const entry of entries(count)) await queue.send([entry]);
  };
  const drain = async (queue: MemoryDeltaQueue) => {
    const bodies: string[] = [];
    for (;;) {
      const some = await queue.receive(NOW);
      if (some.length === 0) return bodies;
      bodies.push(...some.map((message) => message.body));
      await queue.remove(some.map((message) => message.receipt));
    }
  };
  const ordered = entries(20).map((entry) => entry.body);

  it("returns one message of a group per receive, as fauxqs does", async () => {
    const { queue } = open({});
    await queue.send(entries(3));
    expect(await queue.receive(NOW)).toHaveLength(1);
  });

  it("keeps at most one message of a group in flight, even while reordering messages", async () => {
    const { queue } = open({ reorder: 1 });
    await sendAll(queue, 20);
    const [out] = await queue.receive(NOW);
    expect(await queue.receive(NOW)).toEqual([]);
    await queue.remove([out?.receipt ?? ""]);
    expect(await queue.receive(NOW)).toHaveLength(1);
  });

  it("expires a receipt with its visibility timeout, even if the message was not received again", async () => {
    const { clock, queue } = open({});
    await queue.send(entries(1));
    const [late] = await queue.receive(NOW);
    await clock.advance(30_000);
    await queue.remove([late?.receipt ?? ""]);
    expect(await queue.receive(NOW)).toMatchObject([{ receiveCount: 2 }]);
  });

  it("deduplicates an id across all groups for five minutes, as fauxqs does", async () => {
    const { clock, queue } = open({});
    await queue.send([{ group: "a", id: "same", body: "1" }]);
    await queue.send([{ group: "b", id: "same", body: "2" }]);
    expect(await drain(queue)).toEqual(["1"]);
    await clock.advance(299_999);
    await queue.send([{ group: "a", id: "same", body: "3" }]);
    expect(await drain(queue)).toEqual([]);
    await clock.advance(1);
    await queue.send([{ group: "a", id: "same", body: "4" }]);
    expect(await drain(queue)).toEqual(["4"]);
  });

  it("reorders messages reproducibly", async () => {
    const run = async (seed: number) => {
      const { queue } = open({ reorder: 0.5 }, seed);
      await sendAll(queue, 20);
      return drain(queue);
    };
    const bodies = await run(3);
    expect(bodies).not.toEqual(ordered);
    expect([...bodies].sort()).toEqual([...ordered].sort());
    expect(await run(3)).toEqual(bodies);
    expect(await run(4)).not.toEqual(bodies);
  });

  it("duplicates and delays messages", async () => {
    const { clock, queue } = open({ duplicate: 1, delay: 1, delayMsMax: 1_000 });
    await sendAll(queue, 20);
    expect((await drain(queue)).length).toBeLessThan(20);
    await clock.advance(1_000);
    const rest = await drain(queue);
    expect(new Set(rest)).toEqual(new Set(ordered));
    expect(queue.size()).toBe(0);
  });

  it("loses messages that it has accepted", async () => {
    const { queue } = open({ drop: 0.5 });
    await sendAll(queue, 20);
    const bodies = await drain(queue);
    expect(bodies.length).toBeGreaterThan(2);
    expect(bodies.length).toBeLessThan(18);
  });

  it("rejects single entries by id, and fails calls although it has accepted their entries", async () => {
    const refusing = open({ refuse: 1 }).queue;
    expect(await refusing.send(entries(2))).toEqual({
      failed: entries(2).map(({ id }) => ({ id, reason: "throttled", permanent: false })),
    });
    const silent = open({ unanswered: 1 }).queue;
    await expect(silent.send(entries(1))).rejects.toThrow("no response");
    expect(await drain(silent)).toEqual(["0"]);
  });

  it("rejects calls that SQS would reject", async () => {
    const { queue } = open({});
    const [one] = entries(1);
    await expect(queue.send(entries(11))).rejects.toThrow(RangeError);
    await expect(queue.send(one ? [one, one] : [])).rejects.toThrow(RangeError);
    await expect(queue.send([{ group: "g", id: "x".repeat(129), body: "" }])).rejects.toThrow(RangeError);
    const half = "x".repeat(600 * 1024);
    await expect(queue.send([1, 2].map((id) => ({ group: `${id}`, id: `${id}`, body: half })))).rejects.toThrow(RangeError);
  });

  it("a waiting receive returns when a visibility timeout ends", async () => {
    const { clock, queue } = open({});
    await queue.send(entries(1));
    await queue.receive(NOW);
    const waiting = queue.receive({ max: 1, waitMs: 60_000 });
    await clock.advance(30_000);
    expect(await waiting).toMatchObject([{ receiveCount: 2 }]);
    expect(clock.nextDueMs()).toBeUndefined();
  });
});

describe("memory doorbells with injected faults", () => {
  const bells = Array.from({ length: 20 }, (_, index) => ({
    controller: "replicaset" as const,
    key: `shop/${index}`,
    epoch: "e",
    delayMs: 0,
  }));
  const open = (faults: object) => {
    const clock = createVirtualClock(START_MS);
    return createMemoryDoorbells({ clock, random: createSeededRandom(5), cluster: "c", faults: () => faults });
  };

  it("loses and repeats doorbells, and fails a call after only some doorbells were sent", async () => {
    const losing = open({ drop: 0.5 });
    await losing.ring(bells);
    expect(losing.size("replicaset")).toBeLessThan(18);
    const twice = open({ duplicate: 1 });
    await twice.ring(bells);
    expect(twice.size("replicaset")).toBe(40);
    const failing = open({ unanswered: 1 });
    await expect(failing.ring(bells)).rejects.toThrow("no response");
    expect(failing.size("replicaset")).toBeGreaterThan(2);
    expect(failing.size("replicaset")).toBeLessThan(18);
  });
});
