/** Sweeps of an idle cluster. Catches: a lost doorbell that is found later than before, and queues that are read although nothing is due. */
import { it as base, expect } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../shared/base/memory/clock.ts";
import { ACTIVE_MS, SCAN_MS, sweepWhenDue } from "../../../shared/controllers/cache/watcher/due-sweeps.ts";
import type { DeltaQueue, Doorbell, Store } from "../../../shared/store/ports.ts";

const BELL: Doorbell = { controller: "replicaset", key: "shop/web", epoch: "e1", delayMs: 0 };
const PERIOD_MS = 2_000;

interface Harness {
  readonly clock: VirtualClock;
  /** Commands to the Store so far. */
  readonly commands: string[];
  /** When the earliest key is due; undefined without keys. */
  dueAtMs: number | undefined;
  send(): Promise<unknown>;
  resync(): Promise<unknown>;
  /** Sweeps every 2 s for `ms`, and returns the commands. */
  idle(ms: number): Promise<readonly string[]>;
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const clock = createVirtualClock(1_000_000);
    const commands: string[] = [];
    const store = {
      async sweep() {
        commands.push("sweep");
        return await Promise.resolve(harness.dueAtMs !== undefined && harness.dueAtMs + 5_000 < clock.now() ? [BELL] : []);
      },
      async dueIn() {
        commands.push("dueIn");
        return await Promise.resolve(harness.dueAtMs === undefined ? undefined : Math.max(0, harness.dueAtMs - clock.now()));
      },
      resync: () => Promise.resolve([]),
    } as unknown as Store; // the wrapper calls only these methods
    const queue = { send: () => Promise.resolve([]) } as unknown as DeltaQueue;
    const ports = sweepWhenDue({ store, queue, clock });
    const harness: Harness = {
      ...{ clock, commands, dueAtMs: undefined },
      send: async () => await ports.queue.send([]),
      resync: async () => await ports.store.resync("e1", "replicaset", 1_000),
      async idle(ms) {
        const from = commands.length;
        for (let passedMs = 0; passedMs < ms; passedMs += PERIOD_MS) {
          await clock.advance(PERIOD_MS);
          await ports.store.sweep("e1");
        }
        return commands.slice(from);
      },
    };
    await use(harness);
  },
});

it("reads the queues every 2 s until a minute after the last message, and then every ten minutes", async ({ harness }) => {
  expect(await harness.idle(ACTIVE_MS - PERIOD_MS)).toEqual(Array.from({ length: 29 }, () => "sweep"));
  expect(await harness.idle(PERIOD_MS)).toEqual(["sweep", "dueIn"]);
  expect(await harness.idle(SCAN_MS - PERIOD_MS)).toEqual([]);
  expect(await harness.idle(PERIOD_MS)).toEqual(["sweep", "dueIn"]);
  await harness.send();
  expect(await harness.idle(10_000)).toEqual(Array.from({ length: 5 }, () => "sweep"));
});

it("reads the queues from the time of the earliest key on, until its doorbell was sent again", async ({ harness }) => {
  harness.dueAtMs = harness.clock.now() + ACTIVE_MS + 100_000;
  await harness.idle(ACTIVE_MS);
  expect(await harness.idle(98_000)).toEqual([]);
  expect(await harness.idle(6_000)).toEqual(["sweep", "dueIn", "sweep", "dueIn", "sweep", "dueIn"]);
  expect(await harness.idle(PERIOD_MS)).toEqual(["sweep"]); // it rang
});

it("reads the queues at once after a resync", async ({ harness }) => {
  await harness.idle(2 * ACTIVE_MS);
  await harness.resync();
  expect(await harness.idle(PERIOD_MS)).toEqual(["sweep"]);
});
