/** Inline follow-up syncs: which due keys run in the invocation, and which get a doorbell. */
import { describe, expect, it } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";

import { runWithFollowUps } from "../../../shared/controllers/lambda/follow-up-sync.ts";
import type { Clock } from "../../../shared/base/clock.ts";
import type { Doorbell, Doorbells } from "../../../shared/store/ports/doorbells.ts";
import { recordingLog } from "../recording-log.ts";

const FROM_MS = 1_000_000;
const FIRST: Doorbell = { controller: "deployment", key: "shop/web", epoch: "e1", delayMs: 0 };
const due = (more: Partial<Doorbell> = {}): Doorbell => ({ controller: "replicaset", key: "shop/a", epoch: "e1", delayMs: 0, ...more });

/** The sync of FIRST takes this long and then makes `bells` due; `look` runs their syncs. */
function harness(
  bells: readonly Doorbell[],
  { lastsMs = 0, look }: { lastsMs?: number; look?: (bell: Doorbell, doorbells: Doorbells, clock: Clock) => Promise<void> } = {},
) {
  const clock = createVirtualClock(FROM_MS);
  const log = recordingLog();
  const rung: Doorbell[] = [];
  const looked: string[] = [];
  const ended = runWithFollowUps(
    {
      doorbells: { ring: (others) => Promise.resolve(void rung.push(...others)) },
      clock,
      log,
      canSync: (controller) => controller !== "replicationcontroller",
      sync: async ({ bell, doorbells, askedMs }) => {
        if (bell === FIRST) {
          looked.push("first");
          if (lastsMs > 0) await clock.after(lastsMs);
          return doorbells.ring(bells);
        }
        looked.push(`${bell.key} after ${clock.now() - FROM_MS}`);
        expect(askedMs).toBe(clock.now() - bell.delayMs);
        await look?.(bell, doorbells, clock);
      },
      untilMs: FROM_MS + 1_000,
    },
    FIRST,
    FROM_MS,
  );
  return { clock, log, rung, looked, ended };
}

describe("GO1: syncs keys that become due within the remaining time in the same invocation, and sends doorbells for the others", () => {
  it.each<[what: string, bell: Doorbell, lookedAfterMs: number | undefined]>([
    ["that is due now is synced at once", due(), 0],
    ["that is due within the remaining time is synced when it is due", due({ delayMs: 999 }), 999],
    ["that is due after the remaining time gets a doorbell", due({ delayMs: 1_000 }), undefined],
    ["of a controller whose code the function lacks gets a doorbell", due({ controller: "replicationcontroller" }), undefined],
    ["that is the invocation's own, due after its back-off, gets a doorbell (GO3)", { ...FIRST, delayMs: 5 }, undefined],
    ["of the same controller as the invocation's own is synced at once", due({ controller: "deployment" }), 0],
  ])("a key %s", async (_, bell, lookedAfterMs) => {
    const { clock, rung, looked, ended } = harness([bell]);
    await clock.advance(2_000);
    await ended;
    expect({ rung, looked }).toEqual(
      lookedAfterMs === undefined
        ? { rung: [bell], looked: ["first"] }
        : { rung: [], looked: ["first", `${bell.key} after ${lookedAfterMs}`] },
    );
  });

  it("decides for each key based on the time left when the key becomes due", async () => {
    const bells = [due({ delayMs: 100 }), due({ key: "shop/b", delayMs: 99 }), due({ key: "shop/c", delayMs: 30_000 })];
    const { clock, rung, looked, ended } = harness(bells, { lastsMs: 900 });
    await clock.advance(2_000);
    await ended;
    expect(rung.map(({ key }) => key)).toEqual(["shop/a", "shop/c"]);
    expect(looked).toEqual(["first", "shop/b after 999"]);
  });
});

it("GO1: syncs at most ten keys at a time, and sends doorbells for the others", async () => {
  const bells = Array.from({ length: 12 }, (_, index) => due({ key: `shop/${index}` }));
  const { rung, looked, ended } = harness(bells);
  await ended;
  expect([looked.length, rung.map(({ key }) => key)]).toEqual([1 + 10, ["shop/10", "shop/11"]]);
});

it("GO2: sends a doorbell at once for a key that was not synced because the Store was unavailable, and logs it", async () => {
  const { clock, log, rung, ended } = harness([due({ delayMs: 5 })], { look: () => Promise.reject(new Error("redis is unavailable")) });
  await clock.advance(10);
  await ended;
  expect(rung).toEqual([due()]);
  expect(log.lines[0]).toMatchObject({ level: "warn", fields: { key: "shop/a", error: expect.stringContaining("redis is unavailable") } });
});

it("the invocation ends when all follow-up syncs have ended, including those that they started", async () => {
  const { looked, ended } = harness([due()], {
    look: async ({ key }, doorbells) => {
      await new Promise(setImmediate);
      if (key === "shop/a") await doorbells.ring([due({ key: "shop/b" })]);
      await new Promise(setImmediate);
      looked.push(`${key} ended`);
    },
  });
  await ended;
  expect(looked).toEqual(["first", "shop/a after 0", "shop/b after 0", "shop/a ended", "shop/b ended"]);
});

describe("GO3: a key that becomes due during its own run", () => {
  it.each([
    { isDue: 1, looks: ["shop/a after 0", "shop/a after 10"], rung: [] },
    { isDue: 2, looks: ["shop/a after 0", "shop/a after 10"], rung: [due()] },
  ])(
    "a key is synced a second time after its run, and gets a doorbell if it is due again after that sync (due $isDue times)",
    async ({ isDue, looks, rung: expected }) => {
      let running = 0;
      let ran = 0;
      const { clock, log, rung, looked, ended } = harness([due()], {
        look: async (_, doorbells, time) => {
          expect(++running).toBe(1);
          await time.after(10);
          if (ran++ < isDue) await doorbells.ring([due()]);
          running--;
        },
      });
      await clock.advance(30);
      await ended;
      expect(log.lines).toEqual([]);
      expect([looked, rung]).toEqual([["first", ...looks], expected]);
    },
  );

  it("a due key gets a doorbell when no time is left", async () => {
    const { clock, rung, looked, ended } = harness([FIRST], { lastsMs: 1_000 });
    await clock.advance(2_000);
    await ended;
    expect([looked, rung]).toEqual([["first"], [FIRST]]);
  });

  it("a due key is synced concurrently with other keys that its run made due", async () => {
    const { looked, rung, ended } = harness([due(), { ...FIRST }]);
    await ended;
    expect([looked.toSorted(), rung]).toEqual([["first", "shop/a after 0", "shop/web after 0"], []]);
  });

  it("a due key gets a doorbell if the Store is unavailable by then, and the record still succeeds", async () => {
    const { log, rung, ended } = harness([{ ...FIRST }], { look: () => Promise.reject(new Error("redis is unavailable")) });
    await ended;
    expect(rung).toEqual([FIRST]);
    expect(log.lines[0]).toMatchObject({ level: "warn", fields: { key: "shop/web" } });
  });

  it("a due key is synced again even if another follow-up sync of the key has ended in the meantime", async () => {
    let looks = 0;
    const { clock, log, rung, looked, ended } = harness([due(), due({ delayMs: 5 })], {
      look: async (bell, doorbells, time) => {
        if (looks++ > 0) return; // busy in later rounds
        await time.after(10);
        await doorbells.ring([bell]);
      },
    });
    await clock.advance(20);
    await ended;
    expect(log.lines).toEqual([]);
    expect([looked, rung]).toEqual([["first", "shop/a after 0", "shop/a after 5", "shop/a after 10"], []]);
  });
});

it("GO5: sends doorbells for keys that become due after the end of the invocation", async () => {
  let late: Doorbells | undefined;
  const { rung, looked, ended } = harness([due()], { look: (_, doorbells) => Promise.resolve(void (late = doorbells)) });
  await ended;
  await late?.ring([due({ key: "shop/b" })]);
  expect([looked, rung]).toEqual([["first", "shop/a after 0"], [due({ key: "shop/b" })]]);
});

it("fails with the error of the first sync, after the follow-up syncs have ended", async () => {
  const clock = createVirtualClock(FROM_MS);
  const looked: string[] = [];
  const looking = runWithFollowUps(
    {
      doorbells: { ring: () => Promise.resolve() },
      clock,
      log: recordingLog(),
      canSync: () => true,
      sync: async ({ bell: { key }, doorbells }) => {
        if (key !== FIRST.key) return void looked.push(await new Promise<string>((resolve) => setImmediate(resolve, key)));
        await doorbells.ring([due()]);
        throw new Error("redis is unavailable");
      },
      untilMs: FROM_MS + 1_000,
    },
    FIRST,
    FROM_MS,
  );
  await expect(looking).rejects.toThrow("redis is unavailable");
  expect(looked).toEqual(["shop/a"]);
});

describe("GO6: a key that a write is about to make due", () => {
  /** The first sync waits for a step that returns `due`, once `answered` resolves. */
  function stepRig(
    expected: readonly Doorbell[],
    answer: readonly Doorbell[],
    { takes = true, lastsMs = 0, takenMs = 10 }: { readonly takes?: boolean; readonly lastsMs?: number; readonly takenMs?: number } = {},
  ) {
    const clock = createVirtualClock(FROM_MS);
    const rung: Doorbell[] = [];
    const did: string[] = [];
    const ended = runWithFollowUps(
      {
        doorbells: { ring: (others) => Promise.resolve(void rung.push(...others)) },
        clock,
        log: recordingLog(),
        canSync: (controller) => controller !== "replicationcontroller",
        sync: async ({ bell, doorbells, onTaken }) => {
          if (bell !== FIRST) {
            did.push(`look at ${bell.key} after ${clock.now() - FROM_MS}`);
            if (!takes && did.length < 3) return clock.after(lastsMs);
            if (takenMs > 0) await clock.after(takenMs);
            onTaken?.();
            await clock.after(lastsMs);
            return void did.push(`${bell.key} ended`);
          }
          const step = doorbells.expect?.(expected);
          did.push("the step has left");
          await clock.after(5);
          await step?.ring(answer);
        },
        untilMs: FROM_MS + 1_000,
      },
      FIRST,
      FROM_MS,
    );
    return { clock, rung, did, ended };
  }

  it("a key is taken directly after the write; the doorbell in the write's response causes no second sync", async () => {
    const { clock, rung, did, ended } = stepRig([due()], [due()], { lastsMs: 20 });
    await clock.advance(100);
    await ended;
    expect([did, rung]).toEqual([["look at shop/a after 0", "the step has left", "shop/a ended"], []]);
  });

  it("a key is synced again after a take that found nothing to do", async () => {
    const { clock, rung, did, ended } = stepRig([due()], [due()], { takes: false, lastsMs: 30 });
    await clock.advance(100);
    await ended;
    expect([did, rung]).toEqual([["look at shop/a after 0", "the step has left", "look at shop/a after 30", "shop/a ended"], []]);
  });

  it.each([
    { what: "found nothing to do", takes: false },
    { what: "took the key", takes: true },
  ])("a key is synced again if an attempt that $what ended before the write's response arrived", async ({ takes }) => {
    const { clock, rung, did, ended } = stepRig([due()], [due()], { takes, lastsMs: 1, takenMs: 0 });
    await clock.advance(100);
    await ended;
    expect(did.filter((line) => line.startsWith("look"))).toEqual(["look at shop/a after 0", "look at shop/a after 5"]);
    expect(rung).toEqual([]);
  });

  it("a key is not synced again when the write had no effect", async () => {
    const { clock, rung, did, ended } = stepRig([due()], [], { takes: false });
    await clock.advance(100);
    await ended;
    expect([did, rung]).toEqual([["look at shop/a after 0", "the step has left"], []]);
  });

  it("does not suppress the response's doorbell for the key that is being synced", async () => {
    const { clock, rung, did, ended } = stepRig([due()], [due(), { ...FIRST }, due({ delayMs: 5_000, key: "shop/b" })]);
    await clock.advance(100);
    await ended;
    expect(did.slice(0, 2)).toEqual(["look at shop/a after 0", "the step has left"]);
    expect(did).toContain("look at shop/web after 5");
    expect(rung.map(({ key }) => key)).toEqual(["shop/b"]);
  });

  it.each([
    { what: "of a controller whose code the function lacks", expected: [due({ controller: "replicationcontroller" })] },
    { what: "that is being synced already", expected: [{ ...FIRST }] },
  ])("a key is not taken early if it is a key $what", async ({ expected }) => {
    const { clock, did, ended } = stepRig(expected, []);
    await clock.advance(100);
    await ended;
    expect(did).toEqual(["the step has left"]);
  });

  it("at most ten keys are taken early, however many keys the response makes due", async () => {
    const keys = Array.from({ length: 22 }, (_, index) => due({ key: `shop/${index}` }));
    const { clock, rung, did, ended } = stepRig(keys.slice(0, 12), keys);
    await clock.advance(100);
    await ended;
    expect(did.filter((line) => line.startsWith("look"))).toHaveLength(10);
    expect(rung.map(({ key }) => key)).toEqual(keys.slice(10).map(({ key }) => key));
  });

  it("a key is taken once, however many writes are about to make it due", async () => {
    const { clock, rung, did, ended } = stepRig([due(), due()], [due()]);
    await clock.advance(100);
    await ended;
    expect([did.filter((line) => line.startsWith("look")), rung]).toEqual([["look at shop/a after 0"], []]);
  });
});
