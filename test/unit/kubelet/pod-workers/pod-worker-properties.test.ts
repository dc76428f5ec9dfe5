/**
 * Pod workers under random orders of updates, iterations, duplicate and lost messages, and late writes. Would catch: a lost kill, a pod
 * that is synced after its kill, an update that no iteration handles, and a write of an iteration that has lost its message.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createMemoryNodeStore } from "../../../../shared/node-agent/memory/node-store.ts";
import { acceptUpdate, endSync, startSync } from "../../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { PodUpdate, SyncEnd, SyncStart } from "../../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { Fence, WorkerRecord } from "../../../../shared/node-agent/ports/node-store.ts";
import { NOW_MS, update } from "../worker-builders.ts";

const PODS = 20;

interface Turn {
  readonly fence: Fence;
  readonly work: SyncStart["work"];
}

/** A pod as its host sees it: the version of its spec in memory, and its messages in the queue, at most one of which is being processed. */
class Pod {
  readonly #store: ReturnType<typeof createMemoryNodeStore>;
  readonly uid: string;
  version = 0;
  messages = 0;
  turn: Turn | undefined;
  /** Iterations that have lost their message without knowing it. */
  readonly ghosts: Turn[] = [];
  readonly syncedVersions: number[] = [];
  isKilled = false;
  syncsAfterKill = 0;

  constructor(store: ReturnType<typeof createMemoryNodeStore>, uid: string) {
    this.#store = store;
    this.uid = uid;
  }

  record(): Promise<WorkerRecord | undefined> {
    return this.#store.read("workers", this.uid);
  }

  async accept(rest: Partial<PodUpdate>): Promise<void> {
    if (rest.kind === "update") this.version += 1;
    if (rest.kind === "kill") this.isKilled = true;
    let enqueue = false;
    await this.#store.update("workers", this.uid, (row) => {
      const accepted = acceptUpdate(row, update({ nowMs: NOW_MS, ...rest }));
      enqueue = accepted.enqueue;
      return accepted.record;
    });
    if (enqueue) this.messages += 1;
  }

  async begin(): Promise<void> {
    if (this.turn !== undefined || this.messages === 0) return;
    this.messages -= 1;
    let work: SyncStart["work"] = "idle";
    const row = await this.#store.update("workers", this.uid, (before) => {
      if (before === undefined) return undefined;
      const started = startSync(before, "start", NOW_MS);
      ({ work } = started);
      return started.record;
    });
    if (work === "idle" || row === undefined) return;
    this.turn = { work, fence: { uid: this.uid, token: row.token } };
    if (work !== "sync") return;
    this.syncedVersions.push(this.version);
    if (this.isKilled) this.syncsAfterKill += 1;
  }

  async end(isFailed = false): Promise<void> {
    if (this.turn === undefined) return;
    const row = await this.#write(this.turn, isFailed ? { kind: "failed" } : doneWith(this.turn.work));
    expect(row).not.toBe("refused");
    this.turn = undefined;
    if (row !== undefined && row !== "refused" && row.pending !== undefined) this.messages += 1;
    // A failed iteration sets a due time.
    if (isFailed) await this.accept({ kind: "sync" });
  }

  /** The message is redelivered during its iteration. */
  loseMessage(): void {
    if (this.turn === undefined) return;
    this.ghosts.push(this.turn);
    this.turn = undefined;
    this.messages += 1;
  }

  /** Every abandoned iteration writes its result; only the latest one may succeed. */
  async ghostsWrite(): Promise<void> {
    for (const ghost of this.ghosts.splice(0)) {
      const before = await this.record();
      if (before?.token === ghost.fence.token) continue;
      expect(await this.#write(ghost, doneWith(ghost.work))).toBe("refused");
      expect(await this.record()).toBe(before);
    }
  }

  /** Does what housekeeping and the work queue do: no update waits forever. */
  async drain(): Promise<void> {
    for (let turn = 0; turn < 50; turn++) {
      await this.end();
      if (this.messages === 0 && (await this.record())?.pending === undefined) return;
      await this.begin();
    }
    throw new Error(`${this.uid} does not come to rest`);
  }

  #write({ fence }: Turn, end: SyncEnd): Promise<WorkerRecord | "refused" | undefined> {
    return this.#store.update("workers", this.uid, (row) => row && endSync(row, end, NOW_MS).record, fence);
  }
}

function doneWith(work: SyncStart["work"]): SyncEnd {
  if (work === "terminating") return { kind: "terminatingDone" };
  return work === "terminated" ? { kind: "terminatedDone" } : { kind: "synced", terminalPhase: false };
}

const STEPS = ["update", "sync", "kill", "begin", "end", "fail", "double", "loseMessage", "ghosts"] as const;
type Step = (typeof STEPS)[number];

async function play(pod: Pod, step: Step): Promise<void> {
  switch (step) {
    case "update":
    case "sync":
    case "kill":
      return await pod.accept({ kind: step });
    case "begin":
      return await pod.begin();
    case "end":
      return await pod.end();
    case "fail":
      return await pod.end(true);
    case "double":
      if ((await pod.record()) !== undefined) pod.messages += 1;
      return undefined;
    case "loseMessage":
      return pod.loseMessage();
    case "ghosts":
      return await pod.ghostsWrite();
    default:
      return step satisfies never;
  }
}

async function pods(steps: readonly (readonly [number, Step])[], before: (pod: Pod) => Promise<void>): Promise<readonly Pod[]> {
  const store = createMemoryNodeStore();
  const all = Array.from({ length: PODS }, (_, index) => new Pod(store, `u${index}`));
  for (const pod of all) await before(pod);
  for (const [index, step] of steps) {
    const pod = all[index];
    if (pod !== undefined) await play(pod, step);
  }
  return all;
}

const stepsOf = (...without: Step[]) =>
  fc.array(fc.tuple(fc.nat(PODS - 1), fc.constantFrom(...STEPS.filter((step) => !without.includes(step)))), { maxLength: 300 });

describe("pod workers in any order", () => {
  it("[node-agent 48] pod workers never lose a kill, and never sync after it", async () => {
    const burst = async (pod: Pod) => {
      await pod.accept({ kind: "create" });
      await pod.accept({ kind: "kill" });
      await pod.accept({ kind: "update" });
    };
    await fc.assert(
      fc.asyncProperty(stepsOf("loseMessage"), async (steps) => {
        for (const pod of await pods(steps, burst)) {
          await pod.drain();
          expect(pod.syncsAfterKill).toBe(0);
          expect(await pod.record()).toMatchObject({ finished: true, terminatedAtMs: NOW_MS, gracePeriodSeconds: 30 });
        }
      }),
      { numRuns: 40 },
    );
  });

  it("[node-agent 48] pod workers never sync a pod after a kill, at any time and with any loss", async () => {
    await fc.assert(
      fc.asyncProperty(stepsOf(), async (steps) => {
        for (const pod of await pods(steps, (one) => one.accept({ kind: "create" }))) {
          // The next tick of the work queue, which replaces a lost iteration.
          await pod.accept({ kind: "sync" });
          await pod.drain();
          expect(pod.syncsAfterKill).toBe(0);
          expect((await pod.record())?.finished).toBe(pod.isKilled ? true : undefined);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("[node-agent 49] pod workers process every pod at least once, and its last update", async () => {
    await fc.assert(
      fc.asyncProperty(stepsOf("kill", "loseMessage"), async (steps) => {
        for (const pod of await pods(steps, (one) => one.accept({ kind: "create" }))) {
          await pod.drain();
          expect(pod.syncedVersions.length).toBeGreaterThanOrEqual(1);
          expect(pod.syncedVersions.at(-1)).toBe(pod.version);
          expect(pod.syncedVersions).toEqual(pod.syncedVersions.toSorted((a, b) => a - b));
        }
      }),
      { numRuns: 40 },
    );
  });

  it("[node-agent 49] [node-agent 116] a sync iteration writes nothing after the next one has begun", async () => {
    await fc.assert(
      fc.asyncProperty(stepsOf(), async (steps) => {
        const all = await pods(steps, (one) => one.accept({ kind: "create" }));
        for (const pod of all) {
          await pod.begin();
          pod.loseMessage();
          await pod.accept({ kind: "sync" });
          await pod.begin();
          await pod.ghostsWrite();
        }
      }),
      { numRuns: 40 },
    );
  });
});
