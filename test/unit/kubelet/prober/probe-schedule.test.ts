// Would catch: probes that drift, catch up on missed slots, start simultaneously, or run late on a full node.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { firstDueMs, nextDueMs } from "../../../../shared/node-agent/kubelet/prober/probe.ts";

describe("nextDueMs", () => {
  it.each([
    { name: "a period after the last slot", due: 0, period: 10, now: 2_000, want: 10_000 },
    { name: "a period after a run at its slot", due: 5_000, period: 10, now: 5_000, want: 15_000 },
    { name: "at the next slot if a run lasts until then", due: 0, period: 10, now: 10_000, want: 10_000 },
    { name: "[node-agent 123] at the next slot after missed ones", due: 0, period: 10, now: 31_000, want: 40_000 },
    { name: "a period after the last slot, even if the clock was set back", due: 60_000, period: 10, now: 0, want: 70_000 },
    { name: "after the default period", due: 0, period: undefined, now: 1, want: 10_000 },
    { name: "after the default period if the period is 0", due: 0, period: 0, now: 1, want: 10_000 },
  ])("the next probe is due: $name", ({ due, period, now, want }) => {
    expect(nextDueMs(due, period, now)).toBe(want);
  });

  it("[node-agent 123] the next probe is due at the first time slot that is not in the past", () => {
    const ms = fc.integer({ min: 0, max: 2 ** 41 });
    fc.assert(
      fc.property(ms, fc.integer({ min: 1, max: 3600 }), ms, (due, period, late) => {
        const [next, now] = [nextDueMs(due, period, due + late), due + late];
        expect((next - due) % (period * 1000)).toBe(0);
        expect(next).toBeGreaterThan(due);
        expect(next).toBeGreaterThanOrEqual(now);
        expect(next - Math.max(now, due + 1)).toBeLessThan(period * 1000);
      }),
    );
  });

  it("[node-agent 123] delays no probe by a full period when 110 probes with a period of 1 s run one at a time for 5 ms each", () => {
    const due = Array.from({ length: 110 }, (_, pod) => firstDueMs({ agentStartedAtMs: 0, periodSeconds: 1, nowMs: 0, random: pod / 110 }));
    const runs = due.map(() => 0);
    let [nowMs, latestMs] = [0, 0];
    while (nowMs < 60_000) {
      const pod = due.indexOf(Math.min(...due));
      const dueMs = due[pod] ?? 0;
      nowMs = Math.max(nowMs, dueMs);
      latestMs = Math.max(latestMs, nowMs - dueMs);
      nowMs += 5;
      runs[pod] = (runs[pod] ?? 0) + 1;
      due[pod] = nextDueMs(dueMs, 1, nowMs);
    }
    expect(latestMs).toBeLessThan(1000);
    expect(Math.min(...runs)).toBeGreaterThanOrEqual(59);
  });
});

describe("firstDueMs", () => {
  it.each([
    { name: "immediately", started: 0, now: 60_000, random: 0.5, want: 60_000 },
    { name: "immediately when the agent has run for a period", started: 0, now: 10_000, random: 0.5, want: 10_000 },
    { name: "within one period after the agent's start", started: 0, now: 9_999, random: 0.5, want: 14_999 },
    { name: "within the rest of the agent's first period", started: 0, now: 0, random: 0.999_999_9, want: 9_999 },
  ])("the first probe is due: $name", ({ started, now, random, want }) => {
    expect(firstDueMs({ agentStartedAtMs: started, periodSeconds: 10, nowMs: now, random })).toBe(want);
  });
});
