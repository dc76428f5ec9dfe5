// Would catch: probes of one pod that delay those of others, a probe that runs twice at once, and a probe that is not scheduled again after
// it ran.
import { expect, test } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createMemoryNodeStore } from "../../../../shared/node-agent/memory/node-store.ts";
import { createDueWatch } from "../../../../shared/node-agent/host/due-watch.ts";
import { createNodeQueues, runNodeHost } from "../../../../shared/node-agent/host/node-host.ts";
import { recordingLog } from "../../recording-log.ts";

const SECONDS = 1_000;

/** A host that only runs probes. */
function hosted(podProbe: (key: string) => Promise<void>) {
  const clock = createVirtualClock(0);
  const log = recordingLog();
  const due = createDueWatch(createMemoryNodeStore(), "probes", clock);
  const queues = createNodeQueues({ clock, log });
  const nothing = async (): Promise<void> => undefined;
  const handlers = { queues: { pods: nothing, statuses: nothing }, podProbe, ticks: [] };
  void runNodeHost({ store: due.store, clock, log, due }, queues, handlers, new AbortController().signal);
  return { clock, store: due.store };
}

test("[node-agent 484] a thousand probes that never get a response delay no other probe", async () => {
  const ran: (readonly [key: string, atMs: number])[] = [];
  const { clock, store } = hosted(async (key) => {
    ran.push([key, clock.now()]);
    if (key.startsWith("greedy")) await new Promise(() => undefined);
  });
  for (let probe = 0; probe < 1_000; probe++) await store.schedule("probes", `greedy/c${probe}/readiness`, 0);
  await clock.advance(10 * SECONDS);
  await store.schedule("probes", "other/app/liveness", clock.now() + 5 * SECONDS);
  await clock.advance(5 * SECONDS);
  expect(ran.filter(([key]) => key.startsWith("other"))).toEqual([["other/app/liveness", 15 * SECONDS]]);
  expect(ran).toHaveLength(1_001);
});

test("runs a probe again after its run if it became due during that run", async () => {
  const ends: (() => void)[] = [];
  const { clock, store } = hosted(async () => await new Promise<void>((resolve) => void ends.push(resolve)));
  await store.schedule("probes", "p/app/liveness", 0);
  await clock.advance(SECONDS);
  await store.schedule("probes", "p/app/liveness", clock.now());
  await clock.advance(30 * SECONDS);
  expect(ends).toHaveLength(1);
  ends[0]?.();
  await clock.advance(2 * SECONDS);
  expect(ends).toHaveLength(2);
});
