/**
 * Worker records and updates with defaults, and a worker for tests. All records are frozen, so that a step that changes its input throws.
 */
import { deepFreeze } from "../../../shared/base/freeze.ts";
import { acceptUpdate, endSync, startSync } from "../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { Accepted, PodUpdate, SyncEnd, SyncStart } from "../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { StartVerdict } from "../../../shared/node-agent/kubelet/pod-workers/static-start.ts";
import type { WorkerRecord } from "../../../shared/node-agent/ports/node-store.ts";

export const NOW_MS = Date.parse("2026-03-01T10:00:00Z");

export function update(rest: Partial<PodUpdate> = {}): PodUpdate {
  return {
    kind: "update",
    fullName: "web_shop",
    isStatic: false,
    nowMs: NOW_MS,
    specGracePeriodSeconds: 30,
    phaseIsTerminal: false,
    mayRun: false,
    ...rest,
  };
}

export function record(rest: Partial<WorkerRecord> = {}): WorkerRecord {
  return deepFreeze({
    fullName: "web_shop",
    isStatic: false,
    syncedAtMs: NOW_MS,
    gracePeriodSeconds: 0,
    specGracePeriodSeconds: 30,
    abnormalTerminations: [],
    token: 0,
    ...rest,
  });
}

/** A record after one iteration. */
export function started(rest: Partial<WorkerRecord> = {}): WorkerRecord {
  return record({ startedAtMs: NOW_MS, token: 1, ...rest });
}

const DONE: Readonly<Record<Exclude<SyncStart["work"], "idle" | "finishedUnstarted">, SyncEnd>> = {
  sync: { kind: "synced", terminalPhase: false },
  terminating: { kind: "terminatingDone" },
  terminatingRuntime: { kind: "terminatingRuntimeDone" },
  terminated: { kind: "terminatedDone" },
};

/** The queue of one pod: runs iterations while an update is pending. Iterations succeed by default. */
export class Worker {
  record: WorkerRecord | undefined;
  gate: StartVerdict = "start";
  nowMs = NOW_MS;
  readonly works: SyncStart["work"][] = [];

  update(rest: Partial<PodUpdate> = {}): Accepted {
    const accepted = acceptUpdate(this.record, update({ nowMs: this.nowMs, ...rest }));
    this.record = deepFreeze(accepted.record);
    return accepted;
  }

  begin(): SyncStart["work"] {
    if (this.record === undefined) return "idle";
    const turn = startSync(this.record, this.gate, this.nowMs);
    this.record = deepFreeze(turn.record);
    if (turn.work !== "idle") this.works.push(turn.work);
    return turn.work;
  }

  /** @returns whether the state has changed */
  end(end: SyncEnd): boolean {
    if (this.record === undefined) return false;
    const ended = endSync(this.record, end, this.nowMs);
    this.record = deepFreeze(ended.record);
    return ended.transition;
  }

  drain(): this {
    for (let turn = 0; turn < 10 && this.record?.pending !== undefined; turn++) {
      const work = this.begin();
      if (work === "idle" || work === "finishedUnstarted") return this;
      this.end(DONE[work]);
    }
    return this;
  }
}
