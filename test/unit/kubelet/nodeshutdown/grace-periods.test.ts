// Would catch: a pod that is stopped with the wrong priority group, a pod that gets more time than its group has, and settings that promise
// pods more time than they get.
import { describe, expect, it, test } from "vitest";

import {
  groupByPriority,
  periodRequestedMs,
  shutdownGracePeriods,
  shutdownGraceSeconds,
  shutdownMistakes,
} from "../../../../shared/node-agent/kubelet/nodeshutdown/grace-periods.ts";
import type { ShutdownSettings } from "../../../../shared/node-agent/kubelet/nodeshutdown/grace-periods.ts";
import { readShutdownState, writtenShutdownState } from "../../../../shared/node-agent/kubelet/nodeshutdown/shutdown-state.ts";
import { nodePod } from "../fixtures.ts";

const CRITICAL = 2_000_000_000;
const NONE: ShutdownSettings = { totalMs: 0, criticalMs: 0, byPriority: [] };

describe("[node-agent 454] periods", () => {
  test.each<{ name: string; settings: Partial<ShutdownSettings>; want: readonly (readonly [number, number])[] }>([
    { name: "none by default", settings: {}, want: [] },
    {
      name: "all for regular pods",
      settings: { totalMs: 30_000 },
      want: [
        [0, 30],
        [CRITICAL, 0],
      ],
    },
    {
      name: "some for critical pods",
      settings: { totalMs: 30_000, criticalMs: 10_000 },
      want: [
        [0, 20],
        [CRITICAL, 10],
      ],
    },
    {
      name: "all for critical pods",
      settings: { totalMs: 10_000, criticalMs: 10_000 },
      want: [
        [0, 0],
        [CRITICAL, 10],
      ],
    },
    {
      name: "by priority, in any order",
      settings: {
        byPriority: [
          { priority: 100, seconds: 5 },
          { priority: -7, seconds: 60 },
          { priority: 10, seconds: 20 },
        ],
      },
      want: [
        [-7, 60],
        [10, 20],
        [100, 5],
      ],
    },
  ])("shutdown periods: $name", ({ settings, want }) => {
    const periods = shutdownGracePeriods({ ...NONE, ...settings });
    expect(periods.map(({ priority, seconds }) => [priority, seconds])).toEqual(want);
    expect(periodRequestedMs(periods)).toBe(want.reduce((sum, [, seconds]) => sum + seconds, 0) * 1_000);
  });

  const BOTH = "invalid configuration: Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time";
  test.each<{ settings: Partial<ShutdownSettings>; want: readonly string[] }>([
    { settings: {}, want: [] },
    { settings: { totalMs: 30_000, criticalMs: 30_000 }, want: [] },
    { settings: { byPriority: [{ priority: 0, seconds: 1 }] }, want: [] },
    {
      settings: { totalMs: 30_000, criticalMs: 90_000 },
      want: ["invalid configuration: shutdownGracePeriodCriticalPods 1m30s must be <= shutdownGracePeriod 30s"],
    },
    { settings: { totalMs: 1_000, byPriority: [{ priority: 0, seconds: 1 }] }, want: [BOTH] },
    {
      settings: { criticalMs: 1_000, byPriority: [{ priority: 0, seconds: 1 }] },
      want: ["invalid configuration: shutdownGracePeriodCriticalPods 1s must be <= shutdownGracePeriod 0s", BOTH],
    },
    {
      settings: { totalMs: 500, criticalMs: 0 },
      want: ["invalid configuration: shutdownGracePeriod 500ms must be either zero or otherwise >= 1 sec"],
    },
    {
      settings: { totalMs: 2_000, criticalMs: 999 },
      want: ["invalid configuration: shutdownGracePeriodCriticalPods 999ms must be either zero or otherwise >= 1 sec"],
    },
  ])("validates settings with the errors $want", ({ settings, want }) => expect(shutdownMistakes({ ...NONE, ...settings })).toEqual(want));
});

describe("[node-agent 454] groups", () => {
  const PERIODS = [
    { priority: 1, seconds: 10 },
    { priority: 100, seconds: 20 },
    { priority: 1_000, seconds: 30 },
  ];
  const withPriority = (priority: number | undefined) => nodePod({ spec: priority === undefined ? {} : { priority } });

  test.each<readonly [priority: number | undefined, group: number]>([
    [undefined, 1],
    [-5, 1],
    [0, 1],
    [1, 1],
    [99, 1],
    [100, 100],
    [101, 100],
    [999, 100],
    [1_000, 1_000],
    [CRITICAL, 1_000],
  ])("a pod with priority %s is terminated with the group of priority %s", (priority, want) => {
    const groups = groupByPriority(PERIODS, [withPriority(priority)]);
    expect(groups.map((group) => group.priority)).toEqual([1, 100, 1_000]);
    expect(groups.filter(({ pods }) => pods.length > 0).map((group) => group.priority)).toEqual([want]);
  });

  test.each<readonly [own: number | undefined, group: number, want: number]>([
    [undefined, 20, 20],
    [30, 20, 20],
    [20, 20, 20],
    [5, 20, 5],
    [0, 20, 0],
    [30, 0, 0],
  ])("a pod with a grace period of %s s in a group of %s s gets %s s", (own, seconds, want) => {
    const pod = nodePod({ spec: own === undefined ? {} : { terminationGracePeriodSeconds: own } });
    expect(shutdownGraceSeconds(pod, { priority: 0, seconds })).toBe(want);
  });
});

describe("[node-agent 454] the state file of the last shutdown", () => {
  it("the shutdown's state file is read as it was written, even if incomplete", () => {
    for (const state of [{ startMs: 1_790_000_000_000, endMs: 1_790_000_030_500 }, { startMs: 1_790_000_000_000 }, {}])
      expect(readShutdownState(writtenShutdownState(state))).toEqual(state);
  });

  it("the shutdown's state file has the kubelet's format", () => {
    const written = `{"startTime":"2026-09-21T14:13:20.123456789Z","endTime":"0001-01-01T00:00:00Z"}`;
    expect(readShutdownState(written)).toEqual({ startMs: 1_790_000_000_123 });
    expect(JSON.parse(writtenShutdownState({ startMs: 1_790_000_000_000 }))).toEqual({
      startTime: "2026-09-21T14:13:20.000Z",
      endTime: "0001-01-01T00:00:00Z",
    });
  });
});
