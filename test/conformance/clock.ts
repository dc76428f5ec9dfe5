/** The conformance suite of Clock (shared/base/clock.ts). */
import { describe, expect, it } from "vitest";

import type { Clock } from "../../shared/base/clock.ts";

export interface ClockUnderTest {
  readonly clock: Clock;
  /** Advances the clock by `ms`, or waits. */
  elapse(ms: number): Promise<void>;
}

export function clockConformance(name: string, factory: () => ClockUnderTest): void {
  describe(`clock on ${name}`, () => {
    it("CL1 counts whole milliseconds since the epoch and never decreases", async () => {
      const { clock, elapse } = factory();
      let before = clock.now();
      expect(Number.isInteger(before)).toBe(true);
      expect(before).toBeGreaterThan(Date.UTC(2020, 0));
      for (let turn = 0; turn < 20; turn++) {
        if (turn % 5 === 0) await elapse(2);
        const now = clock.now();
        expect(now).toBeGreaterThanOrEqual(before);
        before = now;
      }
    });

    it("CL2 waits at least the requested time, measured by its own clock", async () => {
      const { clock, elapse } = factory();
      const startMs = clock.now();
      const ends: number[] = [];
      const waits = [30, 10, 20.5].map((ms) => clock.after(ms).then(() => ends.push(clock.now() - startMs)));
      await elapse(60);
      await Promise.all(waits);
      expect(ends).toHaveLength(3);
      for (const [index, least] of [10, 20.5, 30].entries()) expect(ends[index]).toBeGreaterThanOrEqual(least);
    });

    it("CL2 ends a delay of 0 or less in a later tick of the event loop", async () => {
      const { clock, elapse } = factory();
      for (const ms of [0, -5]) {
        let ended = false;
        const wait = clock.after(ms).then(() => (ended = true));
        await Promise.resolve();
        expect(ended).toBe(false);
        await elapse(5);
        await wait;
      }
    });

    it("CL3 an abort ends the wait at once, with its reason", async () => {
      const { clock, elapse } = factory();
      const reason = new Error("enough");
      const before = new AbortController();
      before.abort(reason);
      await expect(clock.after(60_000, before.signal)).rejects.toBe(reason);
      const during = new AbortController();
      const waiting = clock.after(60_000, during.signal).catch((error: unknown) => error);
      await elapse(2);
      during.abort(reason);
      expect(await waiting).toBe(reason);
    });

    it("CL3 leaves no listener after an expired wait, and ignores a later abort", async () => {
      const { clock, elapse } = factory();
      const abort = new AbortController();
      const wait = clock.after(1, abort.signal);
      await elapse(10);
      await expect(wait).resolves.toBeUndefined();
      abort.abort(new Error("late"));
      await elapse(1);
    });
  });
}
