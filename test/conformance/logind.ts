/** What whoever shuts a machine down owes the node agent (shared/ports/logind.ts). */
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { Logind } from "../../shared/ports/logind.ts";
import { eventually } from "../support/eventually.ts";

export interface LogindHarness {
  readonly logind: Logind;
  prepareForShutdown(isShuttingDown: boolean): Promise<void>;
  /** How many locks the machine knows of. */
  locks(): Promise<number>;
  /** All connections to it end. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export function logindConformance(name: string, open: () => Promise<LogindHarness>): void {
  describe(`Logind: ${name} [node-agent 455]`, () => {
    let harness: LogindHarness;
    let over: AbortController;
    beforeEach(async () => {
      over = new AbortController();
      harness = await open();
    });
    afterEach(async () => {
      over.abort("over");
      await harness.close();
    });

    function watch(): { readonly told: readonly boolean[]; readonly ended: Promise<unknown> } {
      const told: boolean[] = [];
      const ended = harness.logind
        .watchShutdown((isShuttingDown) => told.push(isShuttingDown), over.signal)
        .catch((error: unknown) => error);
      return { told, ended };
    }

    it("LD1 says how it is, then each change in order", async () => {
      const { told } = watch();
      await eventually("it is said how it is", () => told.length === 1);
      for (const isShuttingDown of [true, false, true]) await harness.prepareForShutdown(isShuttingDown);
      await eventually("all is heard", () => told.length === 4);
      expect(told).toEqual([false, true, false, true]);
    });

    it("LD1 hears of a shutdown that is under way already", async () => {
      await harness.prepareForShutdown(true);
      const { told } = watch();
      await eventually("it is said how it is", () => told.length === 1);
      expect(told).toEqual([true]);
    });

    it("LD1 ends without a word once it is told to, and says nothing after that", async () => {
      const { told, ended } = watch();
      await eventually("it is said how it is", () => told.length === 1);
      over.abort("over");
      expect(await ended).toBeUndefined();
      await harness.prepareForShutdown(true);
      expect(told).toEqual([false]);
    });

    it("LD1 fails when nothing more can be heard", async () => {
      const { told, ended } = watch();
      await eventually("it is said how it is", () => told.length === 1);
      await harness.restart();
      expect(await ended).toBeInstanceOf(Error);
    });

    it("LD2 a lock is held until it is let go, as often as that is asked", async () => {
      const [first, second] = [await harness.logind.inhibitShutdown(), await harness.logind.inhibitShutdown()];
      expect(await harness.locks()).toBe(2);
      await first.release();
      await first.lost;
      await eventually("one is gone", async () => (await harness.locks()) === 1);
      await first.release();
      expect(await harness.locks()).toBe(1);
      await second.release();
      await eventually("both are gone", async () => (await harness.locks()) === 0);
    });

    it("LD3 how long a shutdown waits can be overridden", async () => {
      expect(await harness.logind.inhibitDelayMs()).toBe(5_000);
      await harness.logind.overrideInhibitDelay(30_000);
      await eventually("it counts", async () => (await harness.logind.inhibitDelayMs()) === 30_000);
    });
  });
}
