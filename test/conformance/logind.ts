/** The conformance suite of the node agent's port to logind (shared/node-agent/ports/logind.ts). */
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { Logind } from "../../shared/node-agent/ports/logind.ts";
import { eventually } from "../support/eventually.ts";

export interface LogindUnderTest {
  readonly logind: Logind;
  prepareForShutdown(isShuttingDown: boolean): Promise<void>;
  /** The number of locks that logind holds. */
  locks(): Promise<number>;
  /** Restarts logind, which closes all connections. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export function logindConformance(name: string, open: () => Promise<LogindUnderTest>): void {
  describe(`Logind: ${name} [node-agent 455]`, () => {
    let underTest: LogindUnderTest;
    let over: AbortController;
    beforeEach(async () => {
      over = new AbortController();
      underTest = await open();
    });
    afterEach(async () => {
      over.abort("over");
      await underTest.close();
    });

    function watch(): { readonly told: readonly boolean[]; readonly ended: Promise<unknown> } {
      const told: boolean[] = [];
      const ended = underTest.logind
        .watchShutdown((isShuttingDown) => told.push(isShuttingDown), over.signal)
        .catch((error: unknown) => error);
      return { told, ended };
    }

    it("LD1 reports the current state, then each change in order", async () => {
      const { told } = watch();
      await eventually("the present state is reported", () => told.length === 1);
      for (const isShuttingDown of [true, false, true]) await underTest.prepareForShutdown(isShuttingDown);
      await eventually("all changes are reported", () => told.length === 4);
      expect(told).toEqual([false, true, false, true]);
    });

    it("LD1 reports a shutdown that is already in progress", async () => {
      await underTest.prepareForShutdown(true);
      const { told } = watch();
      await eventually("the present state is reported", () => told.length === 1);
      expect(told).toEqual([true]);
    });

    it("LD1 ends silently on request, and reports nothing afterwards", async () => {
      const { told, ended } = watch();
      await eventually("the present state is reported", () => told.length === 1);
      over.abort("over");
      expect(await ended).toBeUndefined();
      await underTest.prepareForShutdown(true);
      expect(told).toEqual([false]);
    });

    it("LD1 fails when the connection is lost", async () => {
      const { told, ended } = watch();
      await eventually("the present state is reported", () => told.length === 1);
      await underTest.restart();
      expect(await ended).toBeInstanceOf(Error);
    });

    it("LD2 holds a lock until it is released, and allows repeated releases", async () => {
      const [first, second] = [await underTest.logind.inhibitShutdown(), await underTest.logind.inhibitShutdown()];
      expect(await underTest.locks()).toBe(2);
      await first.release();
      await first.lost;
      await eventually("one is gone", async () => (await underTest.locks()) === 1);
      await first.release();
      expect(await underTest.locks()).toBe(1);
      await second.release();
      await eventually("both are gone", async () => (await underTest.locks()) === 0);
    });

    it("LD3 overrides the shutdown delay", async () => {
      expect(await underTest.logind.inhibitDelayMs()).toBe(5_000);
      await underTest.logind.overrideInhibitDelay(30_000);
      await eventually("it counts", async () => (await underTest.logind.inhibitDelayMs()) === 30_000);
    });
  });
}
