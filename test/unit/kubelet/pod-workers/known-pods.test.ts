// Would catch: a record that is never purged, a record that is purged while its containers run, and an orphan that is not stopped.
import { describe, expect, it } from "vitest";
import { syncKnownPod } from "../../../../shared/node-agent/kubelet/pod-workers/known-pods.ts";
import { acceptUpdate, startSync } from "../../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { WorkerRecord } from "../../../../shared/node-agent/ports/node-store.ts";
import { NOW_MS, record, started, update } from "../worker-builders.ts";

const PENDING = { kind: "sync", sinceMs: NOW_MS } as const;
const FINISHED = started({ terminatingAtMs: 1, terminatedAtMs: 2, finished: true });
const TERMINATING = started({ terminatingAtMs: 1, startedTerminating: true, gracePeriodSeconds: 5, deleted: true });

describe("syncKnownPod", () => {
  it.each<{ name: string; before: WorkerRecord; isDesired?: boolean; want: "purged" | "kept" | Partial<WorkerRecord>; requeued?: boolean }>(
    [
      { name: "a desired pod", before: started(), isDesired: true, want: "kept" },
      { name: "a desired finished pod", before: FINISHED, isDesired: true, want: "kept" },
      { name: "a finished orphan", before: FINISHED, want: "purged" },
      { name: "a finished pod whose UID is recreated", before: { ...FINISHED, restartRequested: true }, isDesired: true, want: "purged" },
      { name: "a pod whose UID is recreated", before: { ...TERMINATING, restartRequested: true }, isDesired: true, want: "kept" },
      { name: "an orphan that never started", before: record({ pending: { kind: "create", sinceMs: 1 } }), want: "purged" },
      {
        name: "an orphan that never started and may have containers in the runtime",
        before: record({ observedRuntime: true, pending: { kind: "create", sinceMs: 1 } }),
        want: { deleted: true, terminatingAtMs: NOW_MS, gracePeriodSeconds: 30 },
      },
      {
        name: "a running orphan",
        before: started(),
        want: { deleted: true, terminatingAtMs: NOW_MS, gracePeriodSeconds: 30, pending: PENDING },
        requeued: true,
      },
      {
        name: "a running orphan with a pending update",
        before: started({ pending: { kind: "update", sinceMs: 1 } }),
        want: { deleted: true, terminatingAtMs: NOW_MS, gracePeriodSeconds: 30 },
      },
      { name: "a terminating orphan", before: TERMINATING, want: { pending: PENDING }, requeued: true },
      { name: "a terminating orphan with a pending update", before: { ...TERMINATING, pending: PENDING }, want: "kept" },
      {
        name: "an evicted orphan",
        before: started({ terminatingAtMs: 1, evicted: true, gracePeriodSeconds: 5, pending: PENDING }),
        want: { deleted: true },
      },
      {
        name: "a terminated orphan that is not cleaned up",
        before: started({ terminatingAtMs: 1, terminatedAtMs: 2, deleted: true }),
        want: { pending: PENDING },
        requeued: true,
      },
    ],
  )("[node-agent 55] syncKnownPod of $name", ({ before, isDesired = false, want, requeued = false }) => {
    const step = syncKnownPod(before, isDesired, NOW_MS);
    if (typeof want === "object") expect(step).toEqual({ kind: "change", record: { ...before, ...want }, requeue: requeued });
    else expect(step).toEqual({ kind: want === "purged" ? "purge" : "keep" });
  });

  it("[node-agent 55] [node-agent 46] terminates an orphan in the runtime without a spec, with a grace period of 1 s", () => {
    const found = acceptUpdate(undefined, update({ kind: "kill", runtimeOnly: true, mayRun: true })).record ?? record();
    const { record: taken } = startSync(found, "start", NOW_MS);
    const step = syncKnownPod(taken, false, NOW_MS);
    const after = step.kind === "change" ? step.record : undefined;
    expect(after).toMatchObject({ gracePeriodSeconds: 1, pending: { kind: "kill", runtimeOnly: true } });
    expect(startSync(after ?? taken, "start", NOW_MS).work).toBe("terminatingRuntime");
  });
});
