// Would catch: a pod that is not requeued, that is requeued in a hot loop, or that is requeued long after its back-off.
import { describe, expect, it } from "vitest";
import { requeueDelayMs } from "../../../../shared/node-agent/kubelet/pod-workers/update-worker.ts";
import type { SyncOutcome } from "../../../../shared/node-agent/kubelet/pod-workers/update-worker.ts";
import { NOW_MS } from "../worker-builders.ts";

const error = (message: string, retryInMs?: number): SyncOutcome => ({
  kind: "error",
  message,
  nowMs: NOW_MS,
  ...(retryInMs !== undefined && { retryAtMs: NOW_MS + retryInMs }),
});

const volume = (retryInMs: number): SyncOutcome => ({ kind: "volume", retryAtMs: NOW_MS + retryInMs, nowMs: NOW_MS });

describe("requeueDelayMs", () => {
  it.each<{ name: string; outcome: SyncOutcome; want: [number, number] }>([
    { name: "immediately after a transition", outcome: { kind: "transition" }, want: [0, 0] },
    { name: "in 60 to 90 s without an error", outcome: { kind: "ok" }, want: [60_000, 90_000] },
    { name: "in 10 to 15 s after an error", outcome: error("no"), want: [10_000, 15_000] },
    {
      name: "in 1 to 1.5 s without a network",
      outcome: error("network is not ready: container runtime network not ready: no plugin"),
      want: [1_000, 1_500],
    },
    {
      name: "soon without a network, even during a back-off",
      outcome: error("failed: network is not ready", 40_000),
      want: [1_000, 1_500],
    },
    { name: "when the back-off ends", outcome: error("CrashLoopBackOff", 20_000), want: [20_000, 30_000] },
    { name: "sooner than after an error, if the back-off ends sooner", outcome: error("CrashLoopBackOff", 4_000), want: [4_000, 6_000] },
    { name: "after 60 s if the back-off is longer", outcome: error("CrashLoopBackOff", 300_000), want: [60_000, 90_000] },
    { name: "[node-agent 134] when a volume is retried", outcome: volume(4_000), want: [4_000, 4_000] },
    { name: "[node-agent 134] after 60 s if the volume delay is longer", outcome: volume(122_000), want: [60_000, 60_000] },
    { name: "immediately when the back-off is over", outcome: error("CrashLoopBackOff", -1), want: [0, 0] },
  ])("[node-agent 56] a pod is requeued $name", ({ outcome, want }) => {
    expect([requeueDelayMs(outcome, 0), requeueDelayMs(outcome, 1)]).toEqual(want);
    expect(requeueDelayMs(outcome, 0.5)).toBe((want[0] + want[1]) / 2);
  });
});
