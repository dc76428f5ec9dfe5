// Would catch: an eviction before a soft threshold's grace period has passed, a flapping condition, and a threshold that counts as resolved
// before enough is free.
import { describe, expect, it } from "vitest";
import {
  evictionGraceSeconds,
  NO_PRESSURE,
  observePressure,
  thresholdsMet,
  thresholdToReclaim,
} from "../../../../shared/node-agent/kubelet/eviction/pressure.ts";
import type { Observations } from "../../../../shared/node-agent/kubelet/eviction/pressure.ts";
import { SIGNALS } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import type { Signal, Threshold } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import { NOW_MS } from "../fixtures.ts";

const seen = (figures: Partial<Record<Signal, number>>, capacity = 1000): Observations =>
  new Map(SIGNALS.flatMap((signal) => (figures[signal] === undefined ? [] : [[signal, { available: figures[signal], capacity }]])));
const threshold = (signal: Signal, amount: number, more: Partial<Threshold> = {}): Threshold => ({
  signal,
  value: { amount },
  gracePeriodMs: 0,
  ...more,
});
const MEMORY = threshold("memory.available", 100);
const SOFT = threshold("memory.available", 200, { gracePeriodMs: 60_000 });

describe("a met threshold", () => {
  it.each([
    { name: "if less is free", figures: { "memory.available": 99 }, thresholds: [MEMORY], want: 1 },
    { name: "only if less is free, not if exactly as much is free", figures: { "memory.available": 100 }, thresholds: [MEMORY], want: 0 },
    { name: "only with a measurement", figures: { "nodefs.available": 1 }, thresholds: [MEMORY], want: 0 },
    {
      name: "if it is a percentage and less of the capacity is free",
      figures: { "nodefs.available": 99 },
      thresholds: [{ ...MEMORY, signal: "nodefs.available", value: { share: 0.1 } }] as const,
      want: 1,
    },
    {
      name: "without regard to its minimum reclaim at first",
      figures: { "memory.available": 120 },
      thresholds: [{ ...MEMORY, minReclaim: { amount: 50 } }],
      want: 0,
    },
  ])("[node-agent 203] a threshold is met $name", ({ figures, thresholds, want }) => {
    expect(thresholdsMet(thresholds, seen(figures), { withReclaim: false })).toHaveLength(want);
  });

  it.each([
    { available: 149, want: 1 },
    { available: 150, want: 0 },
  ])("[node-agent 203] a met threshold is resolved only when the minimum reclaim is also free: $available", ({ available, want }) => {
    const reclaiming = threshold("memory.available", 100, { minReclaim: { share: 0.05 } });
    expect(thresholdsMet([reclaiming], seen({ "memory.available": available }), { withReclaim: true })).toHaveLength(want);
  });
});

/** Plays rounds of ten seconds with the available amount of each; returns what is to be reclaimed and the conditions of each round. */
function rounds(thresholds: readonly Threshold[], available: readonly number[], pressureTransitionMs = 300_000): readonly string[] {
  let pressure = NO_PRESSURE;
  return available.map((free, round) => {
    const step = observePressure(
      pressure,
      seen({ "memory.available": free }),
      { thresholds, pressureTransitionMs },
      NOW_MS + round * 10_000,
    );
    pressure = step.pressure;
    return `${pressure.met.length} ${step.conditions.join()}`;
  });
}

describe("thresholds over time", () => {
  it("[node-agent 204] a hard threshold is met immediately, and its condition lasts for the transition period", () => {
    expect(rounds([MEMORY], [100, 99, 100, 100, 100], 30_000)).toEqual([
      "0 ",
      "1 MemoryPressure",
      "0 MemoryPressure",
      "0 MemoryPressure",
      "0 ",
    ]);
  });

  it("[node-agent 204] a soft threshold is met after its whole grace period, but its condition is reported immediately", () => {
    const want = [...Array<string>(6).fill("0 MemoryPressure"), "1 MemoryPressure"];
    expect(rounds([SOFT], Array<number>(7).fill(150))).toEqual(want);
    expect(rounds([SOFT], [150, 150, 150, 200, 150, 150, 150, 150]).at(-1)).toBe("0 MemoryPressure");
  });

  it("[node-agent 204] EP1 a threshold with a minimum reclaim stays met until that is free", () => {
    expect(rounds([{ ...MEMORY, minReclaim: { amount: 50 } }], [120, 99, 120, 149, 150], 0)).toEqual([
      "0 ",
      "1 MemoryPressure",
      "1 MemoryPressure",
      "1 MemoryPressure",
      "0 ",
    ]);
  });

  it("[node-agent 204] EP2 each condition has its own transition period", () => {
    const thresholds = [MEMORY, threshold("imagefs.inodesFree", 10), threshold("pid.available", 10)];
    const policy = { thresholds, pressureTransitionMs: 15_000 };
    const at = (figures: Partial<Record<Signal, number>>) => seen({ "memory.available": 500, "pid.available": 500, ...figures });
    const first = observePressure(NO_PRESSURE, at({ "imagefs.inodesFree": 1 }), policy, NOW_MS);
    const second = observePressure(first.pressure, at({ "pid.available": 1, "memory.available": 1 }), policy, NOW_MS + 10_000);
    const third = observePressure(second.pressure, at({}), policy, NOW_MS + 15_000);
    expect([first, second, third].map(({ conditions }) => conditions)).toEqual([
      ["DiskPressure"],
      ["MemoryPressure", "DiskPressure", "PIDPressure"],
      ["MemoryPressure", "PIDPressure"],
    ]);
  });

  it("[node-agent 204] EP4 evicts once per measurement, while the threshold stays met and its condition is reported", () => {
    const policy = { thresholds: [threshold("imagefs.available", 100)], pressureTransitionMs: 0 };
    let pressure = NO_PRESSURE;
    const acted = [5, 5, 14, undefined, undefined].map((takenSeconds, round) => {
      const figure = { available: 1, capacity: 1_000, ...(takenSeconds !== undefined && { takenMs: takenSeconds * 1_000 }) };
      const step = observePressure(pressure, new Map([["imagefs.available", figure]]), policy, NOW_MS + round * 1_000);
      pressure = step.pressure;
      return [pressure.met.length, pressure.toActOn.length, step.conditions.join()];
    });
    expect(acted).toEqual([1, 0, 1, 1, 1].map((count) => [1, count, "DiskPressure"]));
  });

  it("[node-agent 204] EP3 resolves a threshold whose signal is no longer measured", () => {
    const first = observePressure(NO_PRESSURE, seen({ "memory.available": 1 }), { thresholds: [MEMORY], pressureTransitionMs: 0 }, NOW_MS);
    const then = observePressure(first.pressure, seen({}), { thresholds: [MEMORY], pressureTransitionMs: 0 }, NOW_MS + 1);
    expect([then.pressure.met, then.conditions]).toEqual([[], []]);
  });
});

it.each<{ readonly met: readonly Signal[]; readonly want: string | undefined }>([
  { met: [], want: undefined },
  { met: ["nodefs.available", "memory.available", "pid.available"], want: "memory.available memory" },
  { met: ["pid.available", "allocatableMemory.available"], want: "allocatableMemory.available memory" },
  { met: ["imagefs.inodesFree", "nodefs.available"], want: "imagefs.inodesFree inodes" },
  { met: ["containerfs.available"], want: "containerfs.available ephemeral-storage" },
  { met: ["pid.available"], want: "pid.available pids" },
])("[node-agent 205] reclaims $want first when the thresholds $met are met", ({ met, want }) => {
  const chosen = thresholdToReclaim(met.map((signal) => threshold(signal, 1)));
  expect(chosen && `${chosen.threshold.signal} ${chosen.resource}`).toBe(want);
});

it.each([
  { of: MEMORY, max: 600, spec: 30, want: 1 },
  { of: SOFT, max: 600, spec: 30, want: 30 },
  { of: SOFT, max: 5, spec: 30, want: 5 },
  { of: SOFT, max: 0, spec: 30, want: 0 },
  { of: SOFT, max: 45, spec: undefined, want: 45 },
])(
  "[node-agent 206] evicts with a grace period of $want s for a threshold with a grace period of $of.gracePeriodMs ms, a maximum of $max s, and $spec s in the spec",
  ({ of, max, spec, want }) => {
    expect(evictionGraceSeconds(of, max, spec)).toBe(want);
  },
);
