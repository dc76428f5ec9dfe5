/** Pod predicates: active, ready, available and terminating. */
import { describe, expect, it } from "vitest";
import type { CachedPod } from "../../../shared/kube/objects/cached.ts";
import { isActive, isAvailable, isReady, isTerminal, isTerminating } from "../../../shared/kube/objects/pod.ts";

const pod = (change: Partial<CachedPod> = {}): CachedPod => ({
  namespace: "shop",
  name: "web",
  uid: "u",
  resourceVersion: "1",
  phase: "Running",
  ...change,
});
const deletionTimestamp = "2026-03-01T10:00:00Z";

describe("phase and deletion", () => {
  it.each([
    { phase: "Running", deleted: false, active: true, terminal: false, terminating: false },
    { phase: "Pending", deleted: false, active: true, terminal: false, terminating: false },
    { phase: undefined, deleted: false, active: true, terminal: false, terminating: false },
    { phase: "Succeeded", deleted: false, active: false, terminal: true, terminating: false },
    { phase: "Failed", deleted: false, active: false, terminal: true, terminating: false },
    { phase: "Running", deleted: true, active: false, terminal: false, terminating: true },
    { phase: "Pending", deleted: true, active: false, terminal: false, terminating: true },
    { phase: "Failed", deleted: true, active: false, terminal: true, terminating: false },
  ])(
    "a pod with phase $phase and deletionTimestamp $deleted: active $active, terminal $terminal, terminating $terminating",
    ({ phase, deleted, active, terminal, terminating }) => {
      const { phase: _phase, ...unphased } = pod(deleted ? { deletionTimestamp } : {});
      const observed = phase === undefined ? unphased : { ...unphased, phase };
      expect({ active: isActive(observed), terminal: isTerminal(observed), terminating: isTerminating(observed) }).toEqual({
        active,
        terminal,
        terminating,
      });
    },
  );

  it("[replicaset 44] counts running pods as active, but not Succeeded and Failed ones", () => {
    const pods = [pod({ phase: "Succeeded" }), pod({ phase: "Failed" }), pod({ name: "a" }), pod({ name: "b" }), pod({ name: "c" })];
    expect(pods.filter(isActive).map(({ name }) => name)).toEqual(["a", "b", "c"]);
  });

  it("[replicaset 45] counts two of seven pods as terminating: deleted and not finished", () => {
    const ended = [pod({ phase: "Succeeded" }), pod({ phase: "Failed" })];
    const deleted = [pod({ name: "a", phase: "Pending", deletionTimestamp }), pod({ name: "b", deletionTimestamp })];
    expect([...ended, ...deleted, pod(), pod(), pod()].filter(isTerminating).map(({ name }) => name)).toEqual(["a", "b"]);
  });
});

describe("isReady", () => {
  it.each([
    { ready: undefined, want: false },
    { ready: { status: "False" }, want: false },
    { ready: { status: "Unknown" }, want: false },
    { ready: { status: "True" }, want: true },
  ])("isReady is $want if the Ready condition's status is $ready.status", ({ ready, want }) => {
    expect(isReady(pod(ready === undefined ? {} : { ready }))).toBe(want);
  });

  it("ignores the phase", () => {
    expect(isReady(pod({ phase: "Failed", ready: { status: "True" } }))).toBe(true);
  });
});

describe("isAvailable", () => {
  const since = "2026-03-01T10:00:02Z";
  const sinceMs = Date.parse(since);

  it.each([
    { name: "not ready", ready: { status: "False", since }, minReadySeconds: 0, afterMs: 60_000, want: false },
    { name: "ready, no minimum", ready: { status: "True", since }, minReadySeconds: 0, afterMs: -1, want: true },
    { name: "ready without a time, no minimum", ready: { status: "True" }, minReadySeconds: 0, afterMs: 0, want: true },
    { name: "ready without a time", ready: { status: "True" }, minReadySeconds: 1, afterMs: 1e9, want: false },
    { name: "ready with an invalid time", ready: { status: "True", since: "now" }, minReadySeconds: 1, afterMs: 1e9, want: false },
    { name: "a millisecond short", ready: { status: "True", since }, minReadySeconds: 5, afterMs: 4_999, want: false },
    { name: "exactly long enough", ready: { status: "True", since }, minReadySeconds: 5, afterMs: 5_000, want: true },
  ])("isAvailable is $want: $name", ({ ready, minReadySeconds, afterMs, want }) => {
    expect(isAvailable(pod({ ready }), minReadySeconds, sinceMs + afterMs)).toBe(want);
  });
});
