// Would catch: a kill that is lost or reverted, a pod that is synced after its kill, a grace period that grows, a missing message or a
// surplus iteration, and an orphan that is kept or confused with a known pod.
import { describe, expect, it } from "vitest";
import { createMemoryNodeStore } from "../../../../shared/node-agent/memory/node-store.ts";
import { acceptUpdate, endSync, startSync } from "../../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { PodUpdate, SyncEnd } from "../../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { WorkerRecord } from "../../../../shared/node-agent/ports/node-store.ts";
import { NOW_MS, Worker, record, started, update } from "../worker-builders.ts";

const EVICTED = { phase: "Failed", reason: "Evicted", message: "disk is full", isDisruption: true } as const;
const PREEMPTED = { phase: "Failed", reason: "Preempting", message: "make room" } as const;
const GONE = { kind: "kill", runtimeOnly: true, graceOverrideSeconds: 1, specGracePeriodSeconds: 0, mayRun: true } as const;

describe("acceptUpdate", () => {
  it("[node-agent 40] creates a record for a new pod, whose first sync iteration syncs the pod", () => {
    const worker = new Worker();
    expect(worker.update({ kind: "create" })).toEqual({
      record: record({ pending: { kind: "create", sinceMs: NOW_MS } }),
      cancel: false,
      enqueue: true,
    });
    worker.nowMs += 5;
    expect(worker.begin()).toBe("sync");
    expect(worker.record).toEqual(record({ startedAtMs: NOW_MS + 5, token: 1 }));
  });

  it("[node-agent 41] records that a pod with the same UID is created during termination, and continues to terminate the first pod", () => {
    const worker = new Worker();
    worker.update({ kind: "create" });
    worker.drain();
    worker.update({ kind: "kill" });
    expect(worker.begin()).toBe("terminating");
    const before = worker.record;
    expect(worker.update({ kind: "create" })).toEqual({ record: { ...before, restartRequested: true }, cancel: false, enqueue: false });
    expect(worker.update({ kind: "create" }).record).toBe(worker.record);
    worker.end({ kind: "terminatingDone" });
    worker.drain();
    expect(worker.works).toEqual(["sync", "terminating", "terminated"]);
    expect(worker.record).toMatchObject({ finished: true, gracePeriodSeconds: 30, restartRequested: true });
  });

  it("[node-agent 41] also records a pod created with the UID of a finished pod, and ignores its other updates", () => {
    const finished = started({ terminatingAtMs: NOW_MS, terminatedAtMs: NOW_MS, finished: true });
    expect(acceptUpdate(finished, update({ kind: "create" }))).toEqual({
      record: { ...finished, restartRequested: true },
      cancel: false,
      enqueue: false,
    });
    for (const rest of [{}, { kind: "kill" }, { kind: "sync" }, { deletionTimestamp: true }] as const)
      expect(acceptUpdate(finished, update(rest))).toEqual({ record: finished, cancel: false, enqueue: false });
  });

  it.each([
    { name: "the pod's update is pending", before: record({ pending: { kind: "create", sinceMs: NOW_MS } }) },
    { name: "the pod was observed before", before: started() },
  ])("[node-agent 42] a kill of a pod found in the runtime uses the known pod when $name", ({ before }) => {
    const { record: after, cancel } = acceptUpdate(before, update({ ...GONE, graceOverrideSeconds: 5 }));
    expect(after).toMatchObject({
      deleted: true,
      observedRuntime: true,
      gracePeriodSeconds: 5,
      pending: { kind: "kill", sinceMs: NOW_MS },
    });
    expect(after?.pending).not.toHaveProperty("runtimeOnly");
    expect(cancel).toBe(true);
    expect(startSync(after ?? before, "start", NOW_MS).work).toBe("terminating");
    expect(acceptUpdate(before, update({ ...GONE, graceOverrideSeconds: 90 })).record?.gracePeriodSeconds).toBe(90);
    const { graceOverrideSeconds: _none, ...plain } = GONE;
    expect(acceptUpdate(before, update(plain)).record?.gracePeriodSeconds).toBe(30);
  });

  it("[node-agent 43] terminates a deleted pod with the API server's grace period", () => {
    const worker = new Worker();
    worker.update({ kind: "create" });
    worker.drain();
    const { cancel } = worker.update({ deletionTimestamp: true, deletionGracePeriodSeconds: 15 });
    expect(cancel).toBe(true);
    expect(worker.record).toMatchObject({ terminatingAtMs: NOW_MS, deleted: true, gracePeriodSeconds: 15 });
    worker.drain();
    expect(worker.works).toEqual(["sync", "terminating", "terminated"]);
    expect(worker.record).toEqual(
      started({
        token: 3,
        terminatingAtMs: NOW_MS,
        startedTerminating: true,
        terminatedAtMs: NOW_MS,
        finished: true,
        deleted: true,
        gracePeriodSeconds: 15,
        lastTurnEndedAtMs: NOW_MS,
      }),
    );
  });

  it("[node-agent 44] evicts with the spec's grace period", () => {
    const worker = new Worker();
    worker.update({ kind: "create" });
    worker.drain();
    worker.update({ kind: "kill", evict: true, abnormal: EVICTED });
    expect(worker.record).toMatchObject({ evicted: true, gracePeriodSeconds: 30, abnormalTerminations: [EVICTED] });
    expect(worker.record).not.toHaveProperty("deleted");
    worker.drain();
    expect(worker.record).toMatchObject({ finished: true, evicted: true, abnormalTerminations: [] });
  });

  it("[node-agent 44] recognizes an eviction by the kill's options, because other disruptions have the same status", () => {
    expect(acceptUpdate(started(), update({ kind: "kill", evict: true })).record).toMatchObject({ evicted: true });
    expect(acceptUpdate(started(), update({ kind: "kill", abnormal: EVICTED })).record).not.toHaveProperty("evicted");
  });

  it("[node-agent 45] terminates a pod in a terminal phase while the runtime may still have containers of it", () => {
    const worker = new Worker();
    const { record: first } = worker.update({ kind: "create", phaseIsTerminal: true, mayRun: true });
    expect(first).toMatchObject({ terminatingAtMs: NOW_MS, gracePeriodSeconds: 30 });
    expect(first).not.toHaveProperty("terminatedAtMs");
    expect(worker.drain().works).toEqual(["terminating", "terminated"]);
  });

  it("[node-agent 45] creates a stopped pod's worker as terminated, and cleans the pod up", () => {
    const worker = new Worker();
    const accepted = worker.update({ kind: "create", phaseIsTerminal: true });
    expect(accepted).toMatchObject({ cancel: false, enqueue: true });
    expect(accepted.record).toMatchObject({ terminatingAtMs: NOW_MS, startedTerminating: true, terminatedAtMs: NOW_MS });
    expect(accepted.record).not.toHaveProperty("finished");
    expect(worker.drain().works).toEqual(["terminated"]);
    expect(worker.record).toMatchObject({ finished: true });
  });

  it("[node-agent 46] kills an orphan in the runtime with a grace period of 1 s, and removes its record", () => {
    const worker = new Worker();
    worker.update(GONE);
    expect(worker.record).toMatchObject({
      deleted: true,
      observedRuntime: true,
      gracePeriodSeconds: 1,
      pending: { kind: "kill", runtimeOnly: true },
    });
    expect(worker.begin()).toBe("terminatingRuntime");
    expect(worker.record).not.toHaveProperty("startedAtMs");
    expect(worker.end({ kind: "terminatingRuntimeDone" })).toBe(false);
    expect(worker.record).toBeUndefined();
  });

  it("[node-agent 46] uses a grace period of 1 s for an orphan whose kill sets none", () => {
    expect(acceptUpdate(undefined, update({ kind: "kill", runtimeOnly: true })).record?.gracePeriodSeconds).toBe(1);
  });

  it("[node-agent 46] terminates an orphan as a pod once its spec is known", () => {
    const worker = new Worker();
    worker.update(GONE);
    worker.update({ kind: "update" });
    expect(worker.record?.gracePeriodSeconds).toBe(1);
    expect(worker.begin()).toBe("terminating");
  });

  it.each<{ name: string; before?: WorkerRecord; rest: Partial<PodUpdate> }>([
    { name: "a create of an orphan", rest: { ...GONE, kind: "create" } },
    { name: "an update of an orphan", rest: { ...GONE, kind: "update" } },
    { name: "a sync of an orphan", before: started(), rest: { ...GONE, kind: "sync" } },
    { name: "a kill of a terminated orphan", before: started({ terminatingAtMs: 1, terminatedAtMs: 2 }), rest: GONE },
  ])("[node-agent 47] ignores $name", ({ before, rest }) => {
    const accepted = acceptUpdate(before, update(rest));
    expect(accepted).toEqual({ record: before, cancel: false, enqueue: false });
    expect(accepted.record).toBe(before);
  });

  it("[node-agent 50] records the grace period override of a kill as at least 1 s, and the statuses of all kills in order", () => {
    const worker = new Worker();
    worker.update({ kind: "create" });
    worker.drain();
    worker.update({ kind: "kill", graceOverrideSeconds: 0, abnormal: PREEMPTED });
    worker.update({ kind: "kill", abnormal: EVICTED });
    expect(worker.record).toMatchObject({ gracePeriodSeconds: 1, abnormalTerminations: [PREEMPTED, EVICTED] });
    expect(worker.record).not.toHaveProperty("evicted");
    expect(worker.drain().works).toEqual(["sync", "terminating", "terminated"]);
  });

  it("[node-agent 50] keeps the statuses of the last eight kills", () => {
    const worker = new Worker();
    for (let kill = 0; kill < 20; kill++) worker.update({ kind: "kill", abnormal: { ...PREEMPTED, message: `${kill}` } });
    expect(worker.record?.abnormalTerminations.map(({ message }) => message)).toEqual(["12", "13", "14", "15", "16", "17", "18", "19"]);
  });

  it.each<{ name: string; before?: WorkerRecord; rest: Partial<PodUpdate> }>([
    { name: "in an update of another kind", before: started(), rest: { abnormal: EVICTED, graceOverrideSeconds: 3, evict: true } },
    { name: "of a terminated pod", before: started({ terminatingAtMs: 1, terminatedAtMs: 2 }), rest: { kind: "kill", abnormal: EVICTED } },
  ])("ignores the options of a kill $name", ({ before, rest }) => {
    const { record: after, cancel, enqueue } = acceptUpdate(before, update(rest));
    expect(after).toEqual({ ...before, pending: { kind: rest.kind ?? "update", sinceMs: NOW_MS } });
    expect([cancel, enqueue]).toEqual([false, true]);
  });

  it("replaces the pending update and keeps its start time", () => {
    const worker = new Worker();
    worker.update({ kind: "create" });
    worker.nowMs += 1_000;
    worker.update({ kind: "sync" });
    expect(worker.record?.pending).toEqual({ kind: "sync", sinceMs: NOW_MS });
  });

  it("[node-agent 118] cancels the sync iteration in progress only if the grace period becomes shorter", () => {
    const worker = new Worker();
    worker.update({ kind: "create", specGracePeriodSeconds: 300 });
    worker.drain();
    expect(worker.update({ kind: "kill", specGracePeriodSeconds: 300 }).cancel).toBe(true);
    expect(worker.begin()).toBe("terminating");
    expect(worker.record?.gracePeriodSeconds).toBe(300);
    const deletion = { deletionTimestamp: true, specGracePeriodSeconds: 300 } as const;
    const shortened = worker.update({ ...deletion, deletionGracePeriodSeconds: 5 });
    expect([shortened.record?.gracePeriodSeconds, shortened.cancel, shortened.enqueue]).toEqual([5, true, true]);
    for (const deletionGracePeriodSeconds of [5, 60]) {
      const again = worker.update({ ...deletion, deletionGracePeriodSeconds });
      expect([again.record?.gracePeriodSeconds, again.cancel]).toEqual([5, false]);
    }
  });
});

describe("startSync", () => {
  const waiting = record({ isStatic: true, pending: { kind: "create", sinceMs: NOW_MS } });

  it("[node-agent 115] ignores a duplicate message during a sync, after it, and after the worker has finished", () => {
    const worker = new Worker();
    worker.update({ kind: "create" });
    expect(worker.begin()).toBe("sync");
    const during = worker.record;
    expect(worker.begin()).toBe("idle");
    expect(worker.record).toBe(during);
    worker.end({ kind: "synced", terminalPhase: false });
    expect(worker.begin()).toBe("idle");
    worker.update({ kind: "kill" });
    worker.drain();
    const finished = worker.record;
    expect(worker.begin()).toBe("idle");
    expect(worker.record).toBe(finished);
  });

  it("does not start a pod that the start gate blocks", () => {
    expect(startSync(waiting, "notYet", NOW_MS)).toEqual({ record: waiting, work: "idle" });
  });

  it("does not check the gate for a started pod", () => {
    const running = started({ isStatic: true, pending: { kind: "sync", sinceMs: NOW_MS } });
    expect(startSync(running, "never", NOW_MS).work).toBe("sync");
  });

  it.each(["start", "notYet", "never"] as const)(
    "[node-agent 53] finishes a static pod that was killed before it started, even if the start gate returns %s",
    (gate) => {
      const worker = new Worker();
      worker.gate = gate;
      worker.update({ kind: "create", isStatic: true });
      worker.update({ kind: "kill", isStatic: true });
      expect(worker.begin()).toBe("finishedUnstarted");
      expect(worker.record).toMatchObject({ finished: true, terminatedAtMs: NOW_MS, token: 1 });
      expect(worker.record).not.toHaveProperty("startedAtMs");
      expect(worker.record).not.toHaveProperty("pending");
    },
  );

  it("does not finish a pod that was not killed, even if the start gate returns never", () => {
    expect(startSync(waiting, "never", NOW_MS)).toEqual({ record: waiting, work: "idle" });
  });

  it("[node-agent 45] terminates a regular pod that was killed before it started", () => {
    const worker = new Worker();
    worker.update({ kind: "create" });
    worker.update({ kind: "kill" });
    expect(worker.drain().works).toEqual(["terminating", "terminated"]);
  });
});

describe("endSync", () => {
  it.each<{ name: string; before: WorkerRecord; end: SyncEnd; want: Partial<WorkerRecord>; transition: boolean }>([
    { name: "a successful sync", before: started(), end: { kind: "synced", terminalPhase: false }, want: {}, transition: false },
    { name: "a failed sync", before: started(), end: { kind: "failed" }, want: {}, transition: false },
    {
      name: "a sync that found the pod done",
      before: started(),
      end: { kind: "synced", terminalPhase: true },
      want: {
        terminatingAtMs: NOW_MS,
        startedTerminating: true,
        gracePeriodSeconds: 30,
        pending: { kind: "sync", sinceMs: NOW_MS },
      },
      transition: true,
    },
    {
      name: "a sync that found the pod done after a kill",
      before: started({ terminatingAtMs: 5, gracePeriodSeconds: 9, pending: { kind: "kill", sinceMs: 5 } }),
      end: { kind: "synced", terminalPhase: true },
      want: { startedTerminating: true },
      transition: true,
    },
    {
      name: "a successful termination",
      before: started({ terminatingAtMs: 5, startedTerminating: true, gracePeriodSeconds: 9, abnormalTerminations: [EVICTED] }),
      end: { kind: "terminatingDone" },
      want: { terminatedAtMs: NOW_MS, abnormalTerminations: [], pending: { kind: "sync", sinceMs: NOW_MS } },
      transition: true,
    },
    {
      name: "a failed termination",
      before: started({ terminatingAtMs: 5, startedTerminating: true, gracePeriodSeconds: 9, abnormalTerminations: [EVICTED] }),
      end: { kind: "failed" },
      want: {},
      transition: false,
    },
    {
      name: "the clean-up",
      before: started({ terminatingAtMs: 5, terminatedAtMs: 6 }),
      end: { kind: "terminatedDone" },
      want: { finished: true },
      transition: false,
    },
  ])("records the result of $name", ({ before, end, want, transition }) => {
    expect(endSync(before, end, NOW_MS)).toEqual({ record: { ...before, lastTurnEndedAtMs: NOW_MS, ...want }, transition });
  });

  it("leaves no pending update after the pod has finished", () => {
    const before = started({ terminatingAtMs: 5, terminatedAtMs: 6, pending: { kind: "update", sinceMs: 7 } });
    expect(endSync(before, { kind: "terminatedDone" }, NOW_MS).record).not.toHaveProperty("pending");
  });

  it("keeps an update that arrived during the sync iteration", () => {
    const before = started({ terminatingAtMs: 5, pending: { kind: "update", sinceMs: 7 } });
    expect(endSync(before, { kind: "terminatingDone" }, NOW_MS).record?.pending).toEqual({ kind: "update", sinceMs: 7 });
  });
});

describe("lost records", () => {
  it("[node-agent 116] a sync iteration has no further effect once another one has begun", async () => {
    const store = createMemoryNodeStore();
    const accept = () => store.update("workers", "u1", (row) => acceptUpdate(row, update({ kind: "sync", mayRun: true })).record);
    const begin = async () => {
      const after = await store.update("workers", "u1", (row) => row && startSync(row, "start", NOW_MS).record);
      return { uid: "u1", token: after?.token ?? 0 };
    };
    await accept();
    const first = await begin();
    await accept();
    const second = await begin();
    const before = await store.read("workers", "u1");
    const end = { kind: "synced", terminalPhase: true } as const;
    expect(await store.update("workers", "u1", (row) => row && endSync(row, end, NOW_MS).record, first)).toBe("refused");
    expect(await store.update("backOffs", "k", () => ({ delayMs: 10_000, lastUpdateMs: NOW_MS }), first)).toBe("refused");
    expect(await store.read("workers", "u1")).toBe(before);
    expect(await store.update("workers", "u1", (row) => row && endSync(row, end, NOW_MS).record, second)).toMatchObject({
      terminatingAtMs: NOW_MS,
    });
  });

  it.each<{ name: string; rest: Partial<PodUpdate>; works: string[]; grace: number }>([
    { name: "a running or crash-looping pod is synced", rest: { mayRun: true }, works: ["sync"], grace: 0 },
    {
      name: "a pod being deleted keeps terminating with its deletionGracePeriodSeconds",
      rest: { mayRun: true, deletionTimestamp: true, deletionGracePeriodSeconds: 20 },
      works: ["terminating", "terminated"],
      grace: 20,
    },
    { name: "a pod that has ended is cleaned up", rest: { phaseIsTerminal: true }, works: ["terminated"], grace: 30 },
    {
      name: "a running static pod that was killed is stopped, although it has not started again",
      rest: { mayRun: true, isStatic: true, kind: "kill" },
      works: ["terminating", "terminated"],
      grace: 30,
    },
  ])("[node-agent 120] after a record is lost, $name", ({ rest, works, grace }) => {
    const worker = new Worker();
    worker.update({ kind: "create", ...rest });
    expect(worker.record?.gracePeriodSeconds).toBe(grace);
    expect(worker.drain().works).toEqual(works);
  });
});
