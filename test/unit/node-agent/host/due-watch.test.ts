// Would catch: a late probe because it was scheduled after one that is due later, and a host that polls needlessly or continuously.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createMemoryNodeStore } from "../../../../shared/node-agent/memory/node-store.ts";
import { createDueWatch } from "../../../../shared/node-agent/host/due-watch.ts";
import type { NodeStore } from "../../../../shared/node-agent/ports/node-store.ts";

const LOOK_MS = 100;

interface Watched {
  readonly clock: VirtualClock;
  readonly store: NodeStore;
  /** The times of the polls since the start. */
  readonly looks: number[];
  /** For each key, the time at which it was taken. */
  readonly taken: Map<string, number>;
  readonly ending: AbortController;
  readonly ended: Promise<void>;
}

/** A host that only polls. */
function watch(): Watched {
  const clock = createVirtualClock(0);
  const { store, next } = createDueWatch(createMemoryNodeStore(), "probes", clock);
  const ending = new AbortController();
  const looks: number[] = [];
  const taken = new Map<string, number>();
  const run = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      looks.push(clock.now());
      for (const key of await store.takeDue("probes", clock.now())) taken.set(key, clock.now());
      await next(ending.signal);
    }
  };
  return { clock, store, looks, taken, ending, ended: run() };
}

describe("[node-agent 482] the timer for probes", () => {
  it("the timer does not run without a probe, and starts with the first probe", async () => {
    const { clock, store, looks, taken } = watch();
    await clock.advance(3_600_000);
    expect(looks).toEqual([0]);
    await store.schedule("pods", "other", clock.now());
    await clock.advance(1_000);
    expect(looks).toHaveLength(1);
    await store.schedule("probes", "a", clock.now() + 50);
    await clock.advance(60);
    expect(taken).toEqual(new Map([["a", 3_601_050]]));
  });

  it("fires once for probes that are due close together", async () => {
    const { clock, store, looks, taken } = watch();
    for (let at = 1_000; at < 2_000; at += 10) await store.schedule("probes", `${at}`, at);
    await clock.advance(3_000);
    expect(taken.size).toBe(100);
    expect(looks.length).toBeLessThanOrEqual(12);
  });

  it("the timer stops when the host stops", async () => {
    const { clock, store, ending, ended } = watch();
    await store.schedule("probes", "a", 10_000);
    await clock.advance(10);
    ending.abort();
    expect(await ended).toBeUndefined();
    expect(clock.now()).toBeLessThan(10_000);
  });

  it("the timer is late by at most a tenth of a second", async () => {
    const calls = fc.array(fc.record({ afterMs: fc.nat(500), dueInMs: fc.nat(3_000) }), { maxLength: 20 });
    const law = fc.asyncProperty(calls, async (scheduled) => {
      const { clock, store, looks, taken, ending, ended } = watch();
      const due = new Map<string, number>();
      for (const [index, { afterMs, dueInMs }] of scheduled.entries()) {
        await clock.advance(afterMs);
        due.set(`${index}`, clock.now() + dueInMs);
        await store.schedule("probes", `${index}`, clock.now() + dueInMs);
      }
      await clock.advance(4_000);
      for (const [key, dueMs] of due) {
        expect(taken.get(key)).toBeGreaterThanOrEqual(dueMs);
        expect(taken.get(key)).toBeLessThanOrEqual(dueMs + LOOK_MS);
      }
      for (const [index, atMs] of looks.entries()) if (index > 0) expect(atMs - (looks[index - 1] ?? 0)).toBeGreaterThanOrEqual(LOOK_MS);
      expect(looks.length).toBeLessThanOrEqual(scheduled.length + 1);
      ending.abort();
      await ended;
    });
    await fc.assert(law);
  });
});
