// The batching window: single events, bursts, and the maximum delay.
import { expect, test } from "vitest";
import { FlowMeter, remainingWindowMs } from "../../../shared/controllers/cache/watcher/batching-window.ts";
import type { PackFlow } from "../../../shared/controllers/cache/watcher/batching-window.ts";

const flow = (given: Partial<PackFlow>): PackFlow => ({ items: 1, packs: 1, ageMs: 0, quietMs: 0, isFlow: true, ...given });

test.each([
  { name: "delays a single item by 1 ms", given: { isFlow: false }, want: 1 },
  { name: "sends a single item after 1 ms, whatever arrives meanwhile", given: { isFlow: false, items: 50, packs: 16, ageMs: 1 }, want: 0 },
  { name: "delays an item of a burst by 10 ms", given: { ageMs: 3 }, want: 7 },
  { name: "delays a burst by another 10 ms when more items have arrived", given: { items: 3, packs: 3, ageMs: 10, quietMs: 1 }, want: 10 },
  { name: "sends when the packs hold two items on average", given: { items: 32, packs: 16, ageMs: 30, quietMs: 1 }, want: 0 },
  { name: "keeps delaying smaller packs", given: { items: 31, packs: 16, ageMs: 30, quietMs: 1 }, want: 10 },
  { name: "waits up to 20 ms for a paused burst to continue", given: { items: 9, packs: 8, ageMs: 40, quietMs: 15 }, want: 5 },
  { name: "treats a burst as ended after a pause of 20 ms", given: { items: 9, packs: 8, ageMs: 40, quietMs: 20 }, want: 0 },
  { name: "ends the last delay at 100 ms", given: { items: 27, packs: 14, ageMs: 93, quietMs: 1 }, want: 7 },
  { name: "sends packs after 100 ms, whatever arrives", given: { items: 27, packs: 14, ageMs: 100, quietMs: 0 }, want: 0 },
  { name: "returns no negative delay after a late timer", given: { items: 27, packs: 14, ageMs: 250, quietMs: 0 }, want: 0 },
] satisfies readonly { name: string; given: Partial<PackFlow>; want: number }[])("$name", ({ given, want }) => {
  expect(remainingWindowMs(flow(given))).toBe(want);
});

test("keeps a requested delay, whatever arrives", () => {
  expect([0, 4_000, 5_000, 6_000].map((ageMs) => remainingWindowMs(flow({ items: 400, packs: 4, ageMs }), 5_000))).toEqual([
    5_000, 1_000, 0, 0,
  ]);
});

test.each([
  { name: "treats 30 items in 100 ms as a burst", gapMs: 100 / 29, want: [false, true] },
  { name: "does not treat 29 items in 100 ms as a burst", gapMs: 100 / 28, want: [false, false] },
])("$name", ({ gapMs, want }) => {
  const meter = new FlowMeter();
  const came = Array.from({ length: 90 }, (_, i) => meter.came(1_000 + Math.floor(i * gapMs)));
  expect([came.slice(0, 29).includes(true), came.slice(29).includes(true)]).toEqual(want);
});

test("treats the first pause as the end of a burst", () => {
  const meter = new FlowMeter();
  const all = Array.from({ length: 40 }, () => meter.came(1_000));
  expect([all.at(-1), meter.came(1_100), meter.came(1_101)]).toEqual([true, true, false]);
});

test("sends packs within 100 ms of their first item, and stops checking afterwards", () => {
  for (const perMs of [0.05, 0.2, 0.4, 1, 5]) {
    let [ageMs, asked] = [0, 0];
    for (let wait = remainingWindowMs(flow({})); wait > 0; asked++) {
      ageMs += wait;
      wait = remainingWindowMs(flow({ items: 1 + Math.floor(ageMs * perMs), packs: 16, ageMs, quietMs: 0 }));
    }
    expect(ageMs).toBeLessThanOrEqual(100);
    expect(asked).toBeLessThanOrEqual(10);
  }
});
