// Would catch: one event that waits for company which does not come, a flow that travels one by one, a wait without bound.
import { expect, test } from "vitest";
import { isLull, lingerMs } from "../../../shared/cache/linger.ts";
import type { PackFlow } from "../../../shared/cache/linger.ts";

const flow = (given: Partial<PackFlow>): PackFlow => ({ items: 1, packs: 1, ageMs: 0, quietMs: 0, afterLull: false, ...given });

test.each([
  { name: "an item after a lull waits 5 ms", given: { afterLull: true }, want: 5 },
  { name: "a burst after a lull waits no longer", given: { afterLull: true, items: 50, packs: 16, ageMs: 5 }, want: 0 },
  { name: "a timer that came early is set again for the rest", given: { afterLull: true, ageMs: 4 }, want: 1 },
  { name: "in a trickle an item waits 10 ms", given: { ageMs: 3 }, want: 7 },
  { name: "two items in 10 ms are a trickle: they leave", given: { items: 2, packs: 2, ageMs: 10, quietMs: 1 }, want: 0 },
  { name: "three items in 10 ms are a flow: they are asked again soon", given: { items: 3, packs: 3, ageMs: 10, quietMs: 1 }, want: 10 },
  { name: "packs that hold four items on average leave", given: { items: 64, packs: 16, ageMs: 30, quietMs: 1 }, want: 0 },
  { name: "packs that hold fewer wait on", given: { items: 63, packs: 16, ageMs: 30, quietMs: 1 }, want: 10 },
  { name: "a flow that pauses is waited for until 20 ms are over", given: { items: 9, packs: 8, ageMs: 40, quietMs: 15 }, want: 5 },
  { name: "a flow that has paused for 20 ms is over", given: { items: 9, packs: 8, ageMs: 40, quietMs: 20 }, want: 0 },
  { name: "the last wait ends at 100 ms", given: { items: 30, packs: 14, ageMs: 93, quietMs: 1 }, want: 7 },
  { name: "after 100 ms they leave whatever comes", given: { items: 30, packs: 14, ageMs: 100, quietMs: 0 }, want: 0 },
  { name: "a late timer makes no wait of a negative length", given: { items: 30, packs: 14, ageMs: 250, quietMs: 0 }, want: 0 },
] satisfies readonly { name: string; given: Partial<PackFlow>; want: number }[])("$name", ({ given, want }) => {
  expect(lingerMs(flow(given))).toBe(want);
});

test("a wait that was asked for is that long, whatever comes", () => {
  expect([0, 4_000, 5_000, 6_000].map((ageMs) => lingerMs(flow({ items: 400, packs: 4, ageMs, afterLull: true }), 5_000))).toEqual([
    5_000, 1_000, 0, 0,
  ]);
});

test("more than 10 ms without an item are a lull", () => {
  expect([10, 11, Number.POSITIVE_INFINITY].map(isLull)).toEqual([false, true, true]);
});

test("whatever comes, packs leave within 100 ms of their first item, and asking ends", () => {
  for (const perMs of [0.05, 0.2, 0.4, 1, 5]) {
    let [ageMs, asked] = [0, 0];
    for (let wait = lingerMs(flow({})); wait > 0; asked++) {
      ageMs += wait;
      wait = lingerMs(flow({ items: 1 + Math.floor(ageMs * perMs), packs: 16, ageMs, quietMs: 0 }));
    }
    expect(ageMs).toBeLessThanOrEqual(100);
    expect(asked).toBeLessThanOrEqual(10);
  }
});
